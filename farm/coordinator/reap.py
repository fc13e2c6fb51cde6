"""Acts on deadlines: claims of dead workers, jobs of dead members, what they leave, and messages that were lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from farm.coordinator.space import CALLS_A_TICK, CHUNK, Space
from farm.failpoint import reach
from farm.index.stats import waiting_claims


@dataclass(frozen=True, slots=True)
class ReapReport:
    """What one pass has found."""

    claims: int
    jobs: int
    messages: int


def reap(space: Space) -> ReapReport:
    """One bounded pass; what a hold protects is left alone by the scripts themselves."""
    index = space.index
    owed = Counter(index.reclaim(space.rules, CHUNK))
    if owed:
        reach("reap.after_reclaim")
    claims = owed.total()
    jobs = index.end_lapsed(CHUNK)
    for _ in range(CALLS_A_TICK):
        if not index.bury(CHUNK):
            break
    for _ in range(CALLS_A_TICK):
        if not index.tell(CHUNK):
            break
    for queue, slots in _free_slots(space).items():
        if not owed[queue] and space.is_drained(queue):
            owed[queue] += index.wake(queue, slots)
    for queue, count in owed.items():
        if count:
            space.send(queue, count)
    return ReapReport(claims, jobs, owed.total())


def _free_slots(space: Space) -> Counter[str]:
    """The slots behind each queue in which claims wait."""
    slots = space.registry.slots()
    waiting = waiting_claims(space.index, list(slots))
    return Counter({queue: slots[queue] for queue in slots if waiting.get(queue)})
