"""What workers are told: the fair order in which claims are taken, fencing, attempts, and who is told of the end."""

from __future__ import annotations

from collections.abc import Sequence

from farm.index.claims import Renewal, RetryRules
from farm.index.outcomes import Empty, Failed, Failure, Lost, Published, Removed, Requeued, Taken
from farm.index.record import ClaimRef, Record
from farm.index.snapshot import Ref
from tests.property.model.state import Claim, Held, Job, State

#: How long the delivery of a message is remembered (ms).
DELIVERY_TTL = 600_000


class Workers(State):
    """The workers' half."""

    def _stand_in_line(self, claim: Claim, job: Job) -> None:
        """Jobs of a class take turns: the next turn after the job's own last one, or after what was taken last."""
        claim.turn = 1 + max(self.virtual_time[claim.queue, claim.priority], job.turns[claim.queue])
        job.turns[claim.queue] = claim.turn

    def in_line(self, queue: str) -> list[Ref]:
        """The queued claims of a queue, those to be taken first at the head; ties by name."""
        queued = {ref: c for ref, c in self.claims.items() if c.queue == queue and c.token is None}
        return sorted(queued, key=lambda ref: (queued[ref].priority, queued[ref].turn, b"%d:%s" % ref))

    # -- workers ---------------------------------------------------------------------------------------

    def take(self, queue: str, worker: str, nonce: str, lease_ms: int) -> Taken | Empty:
        if nonce in self.deliveries:
            taken = self.deliveries[nonce][0]
            return taken if taken and self._current(taken.claim) else Empty()
        taken = None
        for ref in self.in_line(queue)[:1]:
            claim, token = self.claims[ref], self._token()
            line = (queue, claim.priority)
            self.virtual_time[line] = max(self.virtual_time[line], claim.turn)
            claim.token, claim.worker, claim.deadline_ms = token, worker, self.now_ms + lease_ms
            taken = Taken(ClaimRef(*ref, token), claim.failed + 1, claim.request, claim.sources)
        self.deliveries[nonce] = (taken, self.now_ms + DELIVERY_TTL)
        return taken or Empty()

    def _current(self, at: ClaimRef) -> Claim | None:
        """The claim, if it still runs under the token."""
        claim = self.claims.get((at.generation, at.key))
        return claim if claim and claim.token == at.token else None

    def renew(self, claims: Sequence[ClaimRef], lease_ms: int) -> list[Renewal]:
        return [self._renew(claim, lease_ms) for claim in map(self._current, claims)]

    def _renew(self, claim: Claim | None, lease_ms: int) -> Renewal:
        if not claim:
            return "lost"
        if claim.unwanted:
            return "unwanted"
        claim.deadline_ms = self.now_ms + lease_ms
        return "kept"

    def publish(self, at: ClaimRef, record: Record) -> Published | Lost:
        ref = (at.generation, at.key)
        if not self._current(at):
            if ref in self.entries and self.entries[ref].token == at.token:
                return Published()
            self.tombs.setdefault(self.path(ref, at.token), self.now_ms)
            return Lost()
        self._enter(ref, record)
        self._finish(ref, at.token)
        if not self.is_wanted(ref):
            self._rest(ref)
        return Published()

    def _finish(self, ref: Ref, token: int) -> None:
        """The claim is over, and its waiters are to be told; the token gives their line its name."""
        claim = self.claims.pop(ref)
        if claim.waiting:
            self.told.append((ref, token, claim.waiting))

    def fail(
        self, at: ClaimRef, failure: Failure, rules: RetryRules, *, remember: bool = True
    ) -> Requeued | Failed | Removed | Lost:
        ref, claim = (at.generation, at.key), self._current(at)
        if not claim:
            return Lost()
        if failure.kind == "rejected":
            self._refuse(ref, failure, rules.remember_ms if remember else 0)
            return Failed()
        if not self.is_wanted(ref):
            del self.claims[ref]
            return Removed()
        if failure.kind == "cancelled":
            return self._requeue(claim)
        return self._count_attempt(ref, claim, failure, rules)

    def release(self, at: ClaimRef) -> Requeued | Failed | Removed | Lost:
        return self.fail(at, Failure("cancelled", ""), RetryRules())

    def _count_attempt(self, ref: Ref, claim: Claim, failure: Failure, rules: RetryRules) -> Requeued | Failed:
        claim.failed += 1
        claim.story += f"\nattempt {claim.failed} on {claim.worker}: {failure.message}"
        if claim.failed < rules.max_attempts:
            return self._requeue(claim)
        story = f"failed after {claim.failed} attempts{claim.story}"
        self._refuse(ref, Failure("transient", story, failure.log_tail), 0)
        return Failed()

    def _requeue(self, claim: Claim) -> Requeued:
        """Ahead of all others of its class, under no token."""
        claim.token, claim.turn = None, 0
        return Requeued(claim.queue)

    def _refuse(self, ref: Ref, failure: Failure, remember_ms: int) -> None:
        self.failures[ref] = (failure, self.now_ms + remember_ms)
        self._finish(ref, self.claims[ref].token or 0)

    def reclaim(self, rules: RetryRules, limit: int) -> list[str]:
        over = [
            (c.deadline_ms, b"%d:%s" % ref, ref)
            for ref, c in self.claims.items()
            if c.token is not None and c.deadline_ms <= self.now_ms
        ]
        queues = []
        for _, _, ref in sorted(over)[:limit] if self.now_ms >= self.claims_held_until_ms else ():
            claim, lost = self.claims[ref], Failure("transient", "worker lost, its lease ended")
            if not self.is_wanted(ref):
                del self.claims[ref]
            elif isinstance(self._count_attempt(ref, claim, lost, rules), Requeued):
                queues.append(claim.queue)
        return queues

    def tell(self, limit: int, left: set[str]) -> int:
        """``left``: the runs that the server has left of the first line."""
        if self.told:
            waiting = self.told[0][2]
            some = waiting - left
            assert len(some) == min(limit, len(waiting))
            for run in some:
                self._tell(run, self.told[0][0])
            waiting -= some
            if not waiting:
                self.told.pop(0)
        return len(self.told)

    def _tell(self, run: str, ref: Ref) -> None:
        """A failure is the answer of who is told of it, unless the key is claimed again."""
        job, _, incarnation = run.rpartition("@")
        if not self._is_current(job, int(incarnation)):
            return
        self.notices[run] += 1
        held = self.maps.get(run, {}).get(ref[1])
        if ref in self.failures and ref not in self.claims and held == Held(ref[0]):
            self._refuse_to(run, ref, self.failures[ref][0])

    def drop(self, generation: int, key: bytes, token: int) -> bool:
        ref = (generation, key)
        if ref not in self.entries or self.entries[ref].token != token:
            return False
        self._condemn(ref)
        if self.is_wanted(ref):
            self.dropped[ref] = token
        return True

    def wake(self, queue: str, slots: int, interval_ms: int) -> int:
        waiting = len(self.in_line(queue))
        if not waiting or self.now_ms - self.woken.get(queue, 0) < interval_ms:
            return 0
        self.woken[queue] = self.now_ms
        return min(waiting, slots)
