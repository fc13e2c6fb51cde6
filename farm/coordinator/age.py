"""Ages the shared cache: each namespace by its own limit, then all together by the farm's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farm.coordinator.space import CALLS_A_TICK, CHUNK, Space
from farm.failpoint import reach
from farm.policy.ageing import excess, target
from farm.policy.limits import MEGABYTE, Limits


@dataclass(frozen=True, slots=True)
class AgeReport:
    """What was evicted, and by how much a namespace is still over its limit because its entries are in use."""

    entries: int
    stored_bytes: int
    overshoot_bytes: int


def age(space: Space, limits: Limits) -> AgeReport:
    """Age one namespace, in bounded chunks; called again next tick while there is more to do."""
    held = space.index.stored_bytes()
    goal = target(held, limits)
    if goal is None:
        return AgeReport(0, 0, 0)
    report = _evict(space, goal)
    over = space.index.stored_bytes() - limits.limit_bytes
    return AgeReport(report.entries, report.stored_bytes, max(0, over))


def age_all(spaces: Sequence[tuple[Space, Limits]]) -> AgeReport:
    """Hold the farm-wide limit over all namespaces that are aged: where the oldest idle entry is, first."""
    settings = spaces[0][0].settings if spaces else None
    if settings is None or settings.max_total_size_mb is None:
        return AgeReport(0, 0, 0)
    aged = [space for space, limits in spaces if limits.ageing]
    held = {id(space): space.index.stored_bytes() for space in aged}
    left = excess(sum(held.values()), settings.max_total_size_mb * MEGABYTE, settings.remain_total_size_ratio)
    entries = stored_bytes = 0
    for space in sorted(aged, key=lambda one: one.index.oldest_use_ms()):
        if left > 0:
            report = _evict(space, held[id(space)] - left)
            entries, stored_bytes = entries + report.entries, stored_bytes + report.stored_bytes
            left -= report.stored_bytes
    return AgeReport(entries, stored_bytes, max(0, left))


def _evict(space: Space, goal: int) -> AgeReport:
    entries = stored_bytes = 0
    for _ in range(CALLS_A_TICK):
        gone = space.index.evict(max(0, goal), round(space.settings.min_idle_seconds * 1000), CHUNK)
        reach("age.after_evict")
        entries, stored_bytes = entries + gone.entries, stored_bytes + gone.stored_bytes
        if not gone.entries:
            break
    return AgeReport(entries, stored_bytes, 0)
