"""Looks after submissions that came through Celery: their memberships, and when a planner should go on with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from farm.celery import JOBS_QUEUE
from farm.index.index import Index
from farm.index.joblist import are_claimed
from farm.index.jobs import Member
from farm.index.outcomes import Ended, UnknownJob
from farm.index.plans import MEMBER, Look, Plans, Stand
from farm.namespace import Namespace

#: Plans looked at in one tick, and claims looked at for one of them.
PLANS_A_TICK = 50
CLAIMS_A_LOOK = 250
_LOOK_MS = 1_000
#: A step that was sent and not begun is sent again after this time, if its message is gone.
_PATIENCE_MS = 10_000


class Planners(Protocol):
    """Sends messages to planners."""

    def send_step(self, id: str) -> None:
        """Have a planner do a step."""

    def is_drained(self, queue: str) -> bool:
        """Whether no message of a queue waits."""


class PlanCare:
    """The leader's care for all plans; what it remembers only saves work."""

    def __init__(self, plans: Plans, index: Callable[[Namespace], Index], planners: Planners, beat_ms: int) -> None:
        self._plans = plans
        self._index = index
        self._planners = planners
        self._beat_ms = beat_ms
        #: How many of a plan's claims are known to be over, and when its memberships were renewed.
        self._seen: dict[str, int] = {}
        self._beaten_ms: dict[str, int] = {}

    def serve(self, now_ms: int) -> None:
        """Look at the plans that are due; bounded."""
        for id in self._plans.due(now_ms, PLANS_A_TICK):
            look = self._plans.look(id)
            if look is None:
                self._plans.forget(id)
            elif look.hold_until_ms is not None and now_ms >= look.hold_until_ms:
                self._let_go(id, look)
            else:
                self._plans.postpone(id, now_ms + self._look_after(id, look, now_ms))

    def _look_after(self, id: str, look: Look, now_ms: int) -> int:
        """Renew the memberships and send a planner when one is due. Returns in how many ms to look again."""
        lives = self._renew(id, look, now_ms)
        if look.hold_until_ms is not None:
            return max(_LOOK_MS, min(self._beat_ms, look.hold_until_ms - now_ms))
        is_due = not lives or now_ms >= min(look.poll_ms, look.progress.deadline_ms or look.poll_ms)
        if now_ms < look.step_until_ms or not (is_due or self._is_settled(id, look)):
            return _LOOK_MS
        self._seen.pop(id, None)
        if self._planners.is_drained(JOBS_QUEUE):
            self._planners.send_step(id)
        return _PATIENCE_MS

    def _is_settled(self, id: str, look: Look) -> bool:
        """Whether no claim is left that the plan waits for; goes on where the last look has stopped."""
        at, pending = self._seen.get(id, 0), look.progress.pending
        some = pending[at : at + CLAIMS_A_LOOK]
        by_namespace: dict[str, list[tuple[int, bytes]]] = {}
        for namespace, generation, key in some:
            by_namespace.setdefault(namespace, []).append((generation, key))
        for namespace, claims in by_namespace.items():
            if any(are_claimed(self._index(Namespace.parse(namespace)), claims)):
                return False
        self._seen[id] = at + len(some)
        return self._seen[id] >= len(pending)

    def _renew(self, id: str, look: Look, now_ms: int) -> bool:
        """False when the index has lost a membership, or somebody has ended the job: a planner finds out which."""
        if now_ms - self._beaten_ms.get(id, 0) < self._beat_ms:
            return True
        self._beaten_ms[id] = now_ms
        stands = look.progress.stands.items()
        answers = [self._index(Namespace.parse(name)).heartbeat(_member(id, stand)) for name, stand in stands]
        return not any(isinstance(answer, UnknownJob) for answer in answers)

    def _let_go(self, id: str, look: Look) -> None:
        for name, stand in look.progress.stands.items():
            index = self._index(Namespace.parse(name))
            if isinstance(index.leave(_member(id, stand)), Ended):
                index.bury()  # a chunk; the rest is reaped as any job's
        self._plans.forget(id)
        self._seen.pop(id, None)
        self._beaten_ms.pop(id, None)


def _member(id: str, stand: Stand) -> Member:
    return Member(id, MEMBER, "", 1, b"", stand.lease_ms, stand.incarnation)
