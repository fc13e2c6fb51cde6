"""One compile worker: found toolchains, registered, its claims renewed, and stopped in an orderly way."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable

from redis.exceptions import RedisError

from farm.client.connection import open_connection
from farm.errors import FarmRefused
from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.registry import Worker
from farm.index.stats import waiting_claims
from farm.namespace import Namespace
from farm.settings import Settings
from farm.versions import versions
from workers import toolchains
from workers.compile import Compiler
from workers.core_counts import known_core_counts
from workers.keeping import Limits
from workers.leases import Leases
from workers.patience import Patience
from workers.registration import Registration, offer_of
from workers.scratch import ScratchArea

logger = logging.getLogger(__name__)

#: An outage that a job waits out is short against one that a finished compile is kept for.
PATIENCE_FACTOR = 10
#: A slot in trouble rests long against what a healthy worker needs to come for the claim, and short for people.
REST_FRACTION = 4


class CompileWorker:
    """Everything that the Celery tasks of this process share. Threads only: a fork would not carry it along."""

    def __init__(
        self, settings: Settings, send: Callable[[Namespace, str], None], wanted: Callable[[str], bool]
    ) -> None:
        """Find the farm and the toolchains.

        Args:
            send: sends one compile message to a queue of a namespace.
            wanted: whether a queue of the toolchains found is to be served.

        Raises:
            FarmError: the farm must not or can not be used, or there is nothing to serve; the operator mends it.
        """
        self._connection = open_connection(settings)
        self._connection.store.self_test()
        found = toolchains.find(settings)
        self._missing = found.missing
        cores = known_core_counts(os.environ)
        offers = (offer_of(toolchain, cores) for toolchain in found.toolchains)
        self._offers = [offer for offer in offers if wanted(offer.queue)]
        self.queues = tuple(offer.queue for offer in self._offers)
        if not self.queues:
            raise _nothing_to_serve(found)
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stopping = threading.Event()
        self._leases = Leases(settings.claim_lease_seconds, settings.renew_seconds)
        self._area = ScratchArea.open()
        self._registration: Registration | None = None
        self._indexes: dict[Namespace, Index] = {}
        self._compiler = Compiler(
            worker_id=self.id,
            store=self._connection.store,
            toolchains={offer_of(toolchain).queue: toolchain for toolchain in found.toolchains},
            index=self._index,
            leases=self._leases,
            area=self._area,
            limits=Limits(settings.compile_timeout_seconds, settings.compile_memory_mb),
            rules=RetryRules.of(settings),
            patience=Patience(settings.reconnect_seconds * PATIENCE_FACTOR, self._stopping),
            store_patience=Patience(settings.reconnect_seconds, self._stopping),
            send=send,
            rest_seconds=settings.claim_lease_seconds / REST_FRACTION,
        )

    @property
    def started(self) -> bool:
        """Whether it is registered."""
        return self._registration is not None

    def start(self, slots: int) -> None:
        """Register and begin to renew; called once, when messages can be received."""
        for name, reason in self._missing.items():
            logger.info("toolchain %s is not offered: %s", name, reason)
        worker = Worker(
            self.id, socket.gethostname(), os.getpid(), slots, self.queues, missing=dict(self._missing),
            versions=versions(), settings=self._connection.settings.shared(),
        )  # fmt: skip
        self._registration = Registration(self._connection.registry, worker, self._offers)
        self._registration.start()
        self._leases.start()

    def serve(self, namespace: Namespace, queue: str) -> None:
        """Bring the next claim of a queue to an end."""
        self._compiler.serve(namespace, queue)

    def has_more(self, namespace: Namespace, queue: str) -> bool:
        """Whether claims wait in a queue, for this worker as long as it does not stop."""
        try:
            waiting = waiting_claims(self._index(namespace), [queue])
        except RedisError:
            return False
        return bool(waiting) and not self._stopping.is_set()

    def shut_down(self) -> None:
        """Stop every running compile and give its claim back; returns at once, safe in a signal handler."""
        self._stopping.set()
        self._leases.stop_all()

    def close(self) -> None:
        """Leave the registry and remove the scratch space; after the last compile has ended."""
        self.shut_down()
        if self._registration is not None:
            self._registration.close()
        self._leases.close()
        self._area.close()

    def _index(self, namespace: Namespace) -> Index:
        """One Index a namespace, so that its claims are renewed together."""
        return self._indexes.setdefault(namespace, Index(self._connection.server, namespace))


def _nothing_to_serve(found: toolchains.Found) -> FarmRefused:
    if not found.toolchains:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.missing.items())
        return FarmRefused(f"this machine has no toolchain ({reasons})", fix="install g++ or clang++, or set CXX")
    queues = ", ".join(offer_of(toolchain).queue for toolchain in found.toolchains)
    return FarmRefused(
        "none of the queues asked for is one of this machine's toolchains", fix=f"leave -Q and -X out, or use: {queues}"
    )
