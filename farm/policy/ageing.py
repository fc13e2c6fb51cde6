"""Ascend's ageing rule, once for the shared cache and once for the farm as a whole. Pure.

When a namespace holds at least its limit, idle entries are evicted, least recently used first, until it holds at
most limit x ratio / 100; only those idle for the minimum time (30 minutes). With limit -1 nothing is ever aged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from farm.policy.limits import Limits


@dataclass(frozen=True, slots=True)
class Candidate:
    """An idle entry: its key, when its idleness began, and what it frees."""

    key: bytes
    idle_since_ms: int
    stored_bytes: int


def target(held_bytes: int, limits: Limits) -> int | None:
    """Down to how many bytes the namespace is to be aged; None: it is not."""
    return limits.keep_bytes if limits.ageing and held_bytes >= limits.limit_bytes else None


def excess(held_bytes: int, limit_bytes: int, keep_ratio: int) -> int:
    """How many bytes the farm-wide limit wants freed, over all namespaces that are aged; 0: none."""
    return held_bytes - limit_bytes * keep_ratio // 100 if held_bytes >= limit_bytes else 0


def victims(
    candidates: Iterable[Candidate], held_bytes: int, target_bytes: int, idle_before_ms: int
) -> list[Candidate]:
    """The entries to evict, in order: the least recently used first, and not one more than the target needs."""
    chosen: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda one: (one.idle_since_ms, one.key)):
        if held_bytes <= target_bytes or candidate.idle_since_ms > idle_before_ms:
            break
        chosen.append(candidate)
        held_bytes -= candidate.stored_bytes
    return chosen
