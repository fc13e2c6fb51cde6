"""Ages the shared cache: each namespace by its own limit, then all together by the farm's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from farm.coordinator.space import CALLS_A_TICK, CHUNK, Space
from farm.failpoint import reach
from farm.index import names
from farm.index.candidates import idle_entries
from farm.policy.ageing import Candidate, excess, victims
from farm.policy.limits import MEGABYTE, Limits

#: A farm-wide pass is under way; it goes on to its target under whoever leads.
_PASS = "age_all"


@dataclass(frozen=True, slots=True)
class AgeReport:
    """What was evicted, and by how much the limit is still exceeded because all the rest is in use."""

    entries: int = 0
    stored_bytes: int = 0
    overshoot_bytes: int = 0


def age(space: Space, limits: Limits) -> AgeReport:
    """Age one namespace, in bounded chunks; called again next tick while there is more to do."""
    if not limits.ageing:
        return AgeReport()
    entries = stored_bytes = 0
    for _ in range(CALLS_A_TICK):
        gone = space.index.evict(limits.keep_bytes, _min_idle_ms(space), CHUNK, limit_bytes=limits.limit_bytes)
        if not gone.entries:
            over = max(0, gone.left_bytes - limits.limit_bytes)
            is_held = over > 0 and space.index.held_until_ms() > _now_ms(space)  # then it will be looked at later
            return AgeReport(entries, stored_bytes, 0 if is_held else over)
        reach("age.after_evict")
        entries, stored_bytes = entries + gone.entries, stored_bytes + gone.stored_bytes
    return AgeReport(entries, stored_bytes)


def age_all(spaces: Sequence[tuple[Space, Limits]]) -> AgeReport:
    """Hold the farm-wide limit over all namespaces that are aged: the least recently used first, wherever it is."""
    settings = spaces[0][0].settings if spaces else None
    if settings is None or settings.max_total_size_mb is None:
        return AgeReport()
    aged = [space for space, limits in spaces if limits.ageing]
    limit_bytes, ratio = settings.max_total_size_mb * MEGABYTE, settings.remain_total_size_ratio
    server = spaces[0][0].index.server
    entries = stored_bytes = 0
    for _ in range(CALLS_A_TICK):
        held = [space.index.stored_bytes() for space in aged]
        total = sum(held)
        if not excess(total, limit_bytes, ratio) and not server.hexists(names.CHORES, _PASS):
            return AgeReport(entries, stored_bytes)
        server.hset(names.CHORES, _PASS, 1)
        gone = _evict_oldest(aged, held, limit_bytes * ratio // 100)
        reach("age_all.after_evict")
        entries, stored_bytes = entries + gone.entries, stored_bytes + gone.stored_bytes
        if not gone.entries:
            server.hdel(names.CHORES, _PASS)
            return AgeReport(entries, stored_bytes, max(0, total - limit_bytes))
    return AgeReport(entries, stored_bytes)


def _evict_oldest(aged: Sequence[Space], held: Sequence[int], target_bytes: int) -> AgeReport:
    """Evict a chunk, each namespace down to what the oldest entries of all together leave of it."""
    found: list[Candidate] = []
    horizon_ms = float("inf")
    for number, space in enumerate(aged):
        some = [one for one, _ in islice(idle_entries(space.index), CHUNK)]
        found += [replace(one, key=b"%d:%s" % (number, one.key)) for one in some]
        if len(some) == CHUNK:  # later ones of this namespace are not known yet
            horizon_ms = min(horizon_ms, some[-1].idle_since_ms)
    before_ms = _now_ms(aged[0]) - _min_idle_ms(aged[0]) if aged else 0
    known = [one for one in found if one.idle_since_ms <= horizon_ms]
    going = victims(known, sum(held), target_bytes, before_ms)
    entries = stored_bytes = 0
    for number, space in enumerate(aged):
        freed = sum(one.stored_bytes for one in going if one.key.startswith(b"%d:" % number))
        if freed:
            gone = space.index.evict(held[number] - freed, _min_idle_ms(space), CHUNK)
            entries, stored_bytes = entries + gone.entries, stored_bytes + gone.stored_bytes
    return AgeReport(entries, stored_bytes)


def _min_idle_ms(space: Space) -> int:
    return round(space.settings.min_idle_seconds * 1000)


def _now_ms(space: Space) -> int:
    seconds, microseconds = space.index.server.time()
    return space.index.now_ms or int(seconds) * 1000 + int(microseconds) // 1000
