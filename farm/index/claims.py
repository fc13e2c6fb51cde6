"""What workers (and whoever helps along) ask of the index: take, renew, publish, fail, tell, reclaim, wake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from farm.index.answers import batches
from farm.index.outcomes import Empty, Failed, Failure, Lost, Published, Removed, Requeued, Taken
from farm.index.record import ClaimRef, Record
from farm.index.scripts import Scripts
from farm.namespace import Namespace, bundle_path
from farm.settings import Settings

Renewal = Literal["kept", "lost", "unwanted"]
_RENEWALS: dict[str, Renewal] = {"k": "kept", "l": "lost", "u": "unwanted"}


@dataclass(frozen=True, slots=True)
class RetryRules:
    """How failures are counted and told; ``keep_ms`` is one job lease: as long as a waiter may be away."""

    max_attempts: int = 3
    remember_ms: int = 600_000
    keep_ms: int = 300_000

    @classmethod
    def of(cls, settings: Settings) -> RetryRules:
        """The rules that settings give; clients, workers and the coordinator must agree on them."""
        return cls(
            max_attempts=settings.max_attempts,
            remember_ms=round(settings.failure_ttl_seconds * 1000),
            keep_ms=round(settings.job_lease_seconds * 1000),
        )


class ClaimCalls:
    """The workers' half of the index."""

    def __init__(self, scripts: Scripts, namespace: Namespace, now_ms: int | None = None) -> None:
        self.scripts = scripts
        self.namespace = namespace
        #: Time under test; None: the server's clock.
        self.now_ms = now_ms

    def take(self, queue: str, worker: str, nonce: str, lease_ms: int) -> Taken | Empty:
        """Start the next queued claim, in fair order, under a fresh token that names its object.

        Safe to repeat with the same nonce; every delivery of a message must bring its own.
        """
        reply = self.scripts.run("take", queue, worker, nonce, lease_ms, now_ms=self.now_ms)
        if reply[0] == b"empty":
            return Empty()
        _, ref, token, attempt, request, sources = reply
        generation, _, key = ref.partition(b":")
        return Taken(ClaimRef(int(generation), key, int(token)), int(attempt), request, int(sources))

    def renew(self, claims: Sequence[ClaimRef], lease_ms: int) -> list[Renewal]:
        """Extend running claims; a lease that ended is still kept if nobody took the claim over.

        Returns, one a claim:
            kept: go on. lost: stop, another worker has it. unwanted: stop, then fail it as cancelled.
        """
        answers: list[Renewal] = []
        for batch in batches(claims):
            pairs = [part for claim in batch for part in (_ref(claim), claim.token)]
            letters = self.scripts.run("renew", lease_ms, *pairs, now_ms=self.now_ms)
            answers += [_RENEWALS[letter] for letter in letters.decode()]
        return answers

    def publish(self, claim: ClaimRef, record: Record) -> Published | Lost:
        """Make a finished compile visible to everybody, in one step; its bundle must be in the store.

        Safe to repeat with the same record. Returns Lost when the claim was taken over: drop the result.
        """
        path = bundle_path(self.namespace, claim.generation, claim.key, claim.token)
        reply = self.scripts.run(
            "publish", claim.generation, claim.key, claim.token, record.pack(), path, record.near_row,
            now_ms=self.now_ms,
        )  # fmt: skip
        return Published() if reply == b"published" else Lost()

    def fail(
        self, claim: ClaimRef, failure: Failure, rules: RetryRules, *, remember: bool = True
    ) -> Requeued | Failed | Removed | Lost:
        """End an attempt without an entry: rejected is final, transient is counted and tried again.

        A repeat answers Lost and changes nothing; the message that a first call would have owed is made up for by
        the next wake-up.
        ``remember=False``: a rejection that says nothing about the operator is told to those who wait only.
        """
        kind = failure.kind if failure.kind in ("rejected", "cancelled") else "transient"
        return self._fail(claim, kind, failure, rules, rules.remember_ms if remember else 0)

    def release(self, claim: ClaimRef) -> Requeued | Failed | Removed | Lost:
        """Give a claim back untried (the worker stops): queued again ahead of others, no attempt counted."""
        return self._fail(claim, "released", Failure("transient", ""), RetryRules(), 0)

    def _fail(
        self, claim: ClaimRef, kind: str, failure: Failure, rules: RetryRules, remember_ms: int
    ) -> Requeued | Failed | Removed | Lost:
        reply = self.scripts.run(
            "fail", claim.generation, claim.key, claim.token, kind, failure.message, failure.log_tail,
            remember_ms, rules.keep_ms, rules.max_attempts, now_ms=self.now_ms,
        )  # fmt: skip
        match reply[0]:
            case b"requeued":
                return Requeued(reply[1].decode())
            case b"failed":
                return Failed()
            case b"removed":
                return Removed()
            case _:
                return Lost()

    def tell(self, limit: int = 250) -> int:
        """Send a chunk of notices to the jobs that waited. Returns how many finished claims are left."""
        return int(self.scripts.run("tell", limit, now_ms=self.now_ms))

    def reclaim(self, rules: RetryRules, limit: int = 100) -> list[str]:
        """Queue running claims again whose lease ended; each counts as an attempt ("worker lost").

        Bounded; safe to repeat. Returns the queues, one for each claim: the caller owes each a message.
        """
        reply = self.scripts.run("reclaim", limit, rules.keep_ms, rules.max_attempts, now_ms=self.now_ms)
        return [queue.decode() for queue in reply]

    def drop(self, generation: int, key: bytes, token: int) -> bool:
        """Forget an entry whose bundle was found bad or gone, if it is still that one; safe to repeat, also late."""
        path = bundle_path(self.namespace, generation, key, token)
        return bool(self.scripts.run("drop", generation, key, token, path, now_ms=self.now_ms) == b"dropped")

    def wake(self, queue: str, slots: int, interval_ms: int = 10_000) -> int:
        """How many messages to send to a queue whose claims wait although its messages are gone."""
        return int(self.scripts.run("wake", queue, slots, interval_ms, now_ms=self.now_ms))


def _ref(claim: ClaimRef) -> bytes:
    return b"%d:%s" % (claim.generation, claim.key)
