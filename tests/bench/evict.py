"""Ageing at work: 100,000 of a million idle entries evicted by the coordinator's own pass.

    python -m tests.bench.evict

Exit 1 when a bound is broken: a call runs the same commands at any size of the cache, no more than a few for each
entry of its batch; and the index side evicts at least 20,000 entries in a second of the server's processor. (Beside
other programs on the machine the pass takes longer; both are shown.)
"""

from __future__ import annotations

import sys
import time
from typing import Any, cast

import redis

from farm.coordinator.age import age
from farm.coordinator.space import CHUNK, Space
from farm.policy.limits import Limits
from farm.settings import Settings
from tests.bench._filled import Filled, commands_of, cpu_seconds, own_server, say

SMALL, LARGE = 1000, 1_000_000
KEEP_RATIO = 90

ENTRIES_A_SECOND_MIN = 20_000
COMMANDS_AN_ENTRY_MAX = 6


def commands_a_call(filled: Filled) -> dict[str, int]:
    """Which commands one call runs that evicts a whole batch."""
    filled.index.evict(0, 0, 1)  # so that the server knows the script
    return commands_of(filled.server, lambda: filled.index.evict(0, 0, CHUNK))


def entries_a_second(filled: Filled) -> float:
    """One pass over as many ticks as it takes: a tenth of the bytes is a tenth of the entries."""
    index, server = filled.index, filled.server
    nothing = cast("Any", None)  # ageing asks for the index and the settings only
    space = Space(index, nothing, nothing, Settings(min_idle_seconds=0), lambda queue, count: None, lambda queue: True)
    limits = Limits(index.stored_bytes(), KEEP_RATIO, "default", ageing=True)
    gone, ticks, cpu, before = 0, 0, cpu_seconds(server), time.monotonic()
    while entries := age(space, limits).entries:
        gone, ticks = gone + entries, ticks + 1
    seconds, cpu = time.monotonic() - before, cpu_seconds(server) - cpu
    say(f"{gone:,} of {LARGE:,} entries evicted in {ticks} ticks: {seconds:.1f} s, {cpu:.1f} s of the server")
    assert gone == LARGE * (100 - KEEP_RATIO) // 100, gone
    say(f"  {gone / cpu:,.0f} entries a second of the server's processor, {gone / seconds:,.0f} a second")
    return gone / cpu


def run(server: redis.Redis) -> list[str]:
    """Print the figures; the bounds that are broken."""
    broken = []
    filled = Filled(server)
    filled.fill(SMALL)
    few = commands_a_call(filled)
    server.flushall()
    filled = Filled(server)
    filled.fill(LARGE)
    rate = entries_a_second(filled)
    many = commands_a_call(filled)
    say(f"commands a call of {CHUNK}: {sum(few.values())} at {SMALL:,} entries, {sum(many.values())} at {LARGE:,}")
    if few != many:
        broken.append(f"commands a call: {few} became {many}")
    if sum(many.values()) > COMMANDS_AN_ENTRY_MAX * CHUNK:
        broken.append(f"commands a call: at most {COMMANDS_AN_ENTRY_MAX} an entry")
    if rate < ENTRIES_A_SECOND_MIN:
        broken.append(f"entries a second: at least {ENTRIES_A_SECOND_MIN:,}")
    return broken


def main() -> int:
    """Exit code."""
    with own_server() as server:
        broken = run(server)
    for what in broken:
        say(f"BOUND BROKEN: {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
