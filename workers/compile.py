"""One claim, from take to publish: the only place where a worker changes the index.

take ─ empty: done
  │
check ─ untrue: failed, not remembered, nothing run
  │
sources from the store ─ compile ─ bundle ─ put ─ publish ─ tell those who wait
                            │
           claim lost: nothing · unwanted: cancelled · worker stops: given back · else: failed or tried again
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from redis.exceptions import RedisError

from farm.errors import FarmError, InputError
from farm.failpoint import reach
from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.outcomes import Empty, Failure, Requeued, Taken
from farm.index.record import Record
from farm.index.slots import tensor_slot
from farm.namespace import Namespace, bundle_path
from farm.request.model import Request
from farm.store.bundle import Bundle, pack
from farm.store.store import Store
from workers import runner
from workers.checking import Untrue, objection, read_claim, with_contents
from workers.keeping import Limits
from workers.leases import Leases
from workers.patience import Patience
from workers.runner import Compiled, Stop
from workers.scratch import ScratchArea
from workers.toolchains import Toolchain
from workers.verdict import OwnTrouble

logger = logging.getLogger(__name__)

#: What an attempt comes to before the index is told of it.
Outcome = Record | Failure | Untrue


@dataclass(frozen=True, slots=True)
class Compiler:
    """What all claims of a worker have in common."""

    worker_id: str
    store: Store
    #: By queue.
    toolchains: Mapping[str, Toolchain]
    index: Callable[[Namespace], Index]
    leases: Leases
    area: ScratchArea
    limits: Limits
    rules: RetryRules
    #: For the index, and for the store while the outcome is still open.
    patience: Patience
    store_patience: Patience
    #: Sends one compile message to a queue of a namespace.
    send: Callable[[Namespace, str], None]
    #: How long a slot takes no claim after trouble of the worker's own.
    rest_seconds: float = 0

    def serve(self, namespace: Namespace, queue: str) -> None:
        """Take the next claim of a queue and bring it to an end; nothing when there is none.

        Safe to call any number of times: what a message says decides nothing.
        """
        if self.patience.stopping.is_set():
            self.send(namespace, queue)  # another worker takes the claim
            return
        index = self.index(namespace)
        take = partial(index.take, queue, self.worker_id, secrets.token_hex(16), self.leases.lease_ms)
        try:
            taken = self.patience.call(take, "take a claim")
        except (RedisError, OSError) as error:
            logger.error("no claim was taken: %s; another message will come", error)
            return
        if isinstance(taken, Empty):
            return
        reach("take.after_take")
        try:
            with self.leases.hold(index, taken.claim) as stop:
                result = self._attempt(namespace, taken, self.toolchains[queue], stop)
                self._end(index, taken, stop, result)
            while self.patience.call(index.tell, "tell those who wait"):
                pass
        except (RedisError, OSError) as error:
            logger.error("claim %s is given up: %s; its lease lapses", taken.claim.key.hex()[:12], error)
        else:
            self._rest(result)

    def _rest(self, result: Outcome) -> None:
        """Leave the claim that was queued again, and the next ones, to other workers.

        A worker whose disk is full fails at once: it would take claim after claim and spend all their attempts,
        while healthy workers are busy compiling.
        """
        if isinstance(result, OwnTrouble) and self.rest_seconds and not self.patience.stopping.is_set():
            logger.warning("taking no claim for %g s: %s", self.rest_seconds, result.message)
            self.patience.stopping.wait(self.rest_seconds)

    def _attempt(self, namespace: Namespace, taken: Taken, toolchain: Toolchain, stop: Stop) -> Outcome:
        """Compile and put the bundle into the store; everything but the index."""
        try:
            return self._make(namespace, taken, toolchain, stop)
        except Untrue as error:
            return error
        except InputError as error:
            return Failure("rejected", str(error))
        except FarmError as error:
            return OwnTrouble("transient", str(error))
        except Exception as error:  # a fault of ours must not cost the claim its lease, three times
            logger.exception("compiling %s failed", taken.claim.key.hex()[:12])
            return OwnTrouble("transient", f"the worker itself failed: {error!r}")

    def _make(self, namespace: Namespace, taken: Taken, toolchain: Toolchain, stop: Stop) -> Record | Failure:
        started = time.time()
        request = read_claim(taken, namespace, toolchain)
        if refusal := objection(request, toolchain):
            return refusal
        complete = with_contents(request, partial(self._source, taken.sources))
        result = runner.compile(complete, toolchain, self.area, self.limits, stop)
        if isinstance(result, Failure):
            return self._signed(result, toolchain)
        reach("compile.after_compile")
        return self._stored(namespace, taken, request, toolchain, result, started)

    def _source(self, epoch: int, sha256: bytes) -> bytes:
        return self.store_patience.call(partial(self.store.get_source, sha256, epoch), "read a source")

    def _stored(
        self,
        namespace: Namespace,
        taken: Taken,
        request: Request,
        toolchain: Toolchain,
        result: Compiled,
        started: float,
    ) -> Record:
        claim = taken.claim
        provenance = {
            "worker": self.worker_id,
            "toolchain": toolchain.name,
            "version": toolchain.version,
            "fingerprint": toolchain.fingerprint,
            "attempt": taken.attempt,
            "started_ms": round(started * 1000),
            "compile_ms": result.compile_ms,
            "log_tail": result.log_tail,
        }
        data = pack(Bundle(claim.key, result.files, taken.request, provenance))
        path = bundle_path(namespace, claim.generation, claim.key, claim.token)
        self.store_patience.call(partial(self.store.put, path, data), "write to the store")
        reach("store.after_put")
        return Record(
            token=claim.token,
            stored_bytes=len(data),
            sha256=hashlib.sha256(data).digest(),
            name=request.name,
            type=request.type,
            toolchain=toolchain.name,
            compile_ms=result.compile_ms,
            tensor_slot=tensor_slot(request),
        )

    def _signed(self, failure: Failure, toolchain: Toolchain) -> Failure:
        """A rejection says who spoke; the index adds that to the other kinds by itself."""
        if failure.kind != "rejected":
            return failure
        return replace(failure, message=f"{failure.message} [{toolchain.name} {toolchain.version}, {self.worker_id}]")

    def _end(self, index: Index, taken: Taken, stop: Stop, result: Outcome) -> None:
        claim, call = taken.claim, self.patience.call
        if isinstance(result, Record):  # also when it was to stop: the work is done, and the index decides
            call(partial(index.publish, claim, result), "publish")
            reach("publish.after_publish")
        elif stop.reason == "lost":
            return
        elif stop.reason == "shutdown":
            self._owe(index, call(partial(index.release, claim), "give a claim back"))
        else:
            remember = isinstance(result, Failure)
            failure = result if isinstance(result, Failure) else Failure("rejected", str(result))
            fail = partial(index.fail, claim, failure, self.rules, remember=remember)
            self._owe(index, call(fail, "report a failure"))

    def _owe(self, index: Index, answer: object) -> None:
        """A claim that was queued again needs a message, so that a worker comes for it."""
        if isinstance(answer, Requeued):
            self.send(index.namespace, answer.queue)
