"""What the leader goes by, for whoever is asked about it elsewhere: its own settings, and faults in what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm.index import names

_MIN_IDLE = "min_idle_ms"
_FAULTS = "faults:"


@dataclass(frozen=True, slots=True)
class InForce:
    """As the last leader wrote it."""

    #: None: no coordinator has ever led.
    min_idle_ms: int | None
    #: What does not count in the op_cache.ini of each cache, one line each.
    faults: Mapping[str, tuple[str, ...]]


def write_min_idle(server: Any, min_idle_ms: int) -> None:
    """The idle time that ageing goes by; safe to repeat."""
    server.hset(names.IN_FORCE, _MIN_IDLE, min_idle_ms)


def write_faults(server: Any, cache: str, faults: Sequence[str]) -> None:
    """What does not count in a cache's op_cache.ini; an empty list: all is well."""
    if faults:
        server.hset(names.IN_FORCE, _FAULTS + cache, "\n".join(faults))
    else:
        server.hdel(names.IN_FORCE, _FAULTS + cache)


def in_force(server: Any) -> InForce:
    """What the leader goes by."""
    row = {name.decode(): value.decode() for name, value in server.hgetall(names.IN_FORCE).items()}
    min_idle = row.pop(_MIN_IDLE, None)
    faults = {name.removeprefix(_FAULTS): tuple(text.split("\n")) for name, text in sorted(row.items())}
    return InForce(None if min_idle is None else int(min_idle), faults)
