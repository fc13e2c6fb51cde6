"""The report of each purge: what it removed, what it kept and for whom; written by the leader after the raise."""

from __future__ import annotations

import json
from typing import Any

from farm.index.index import Index
from farm.index.stats import pinned_bytes

_KEPT_DAYS = 7
_JOBS_SHOWN = 100


def write_report(index: Index, generation: int) -> dict[str, Any]:
    """Write the report of the purge that opened a generation, unless it is written. Returns it.

    The figures are those of the raise, but for what is held: that is counted now, one look at each pinned entry.
    """
    name = f"{index.prefix}report:{generation}"
    rows = index.server.xrevrange(f"{index.prefix}purge_log", count=100)
    row = next((fields for _, fields in rows if int(fields[b"generation"]) == generation), None)
    held = pinned_bytes(index, below=generation)
    report = {
        "generation": generation,
        "removed_entries": int(row[b"removed"]) if row else 0,
        "removed_bytes": max(0, int(row[b"bytes"]) - sum(held)) if row else 0,
        "kept_entries": len(held),
        "kept_for": _holders(index, generation) if held else [],
        "coalesced": max(0, int(row[b"requests"]) - 1) if row else 0,
    }
    index.server.set(name, json.dumps(report), nx=True, ex=_KEPT_DAYS * 86400)
    return report


def read_report(index: Index, generation: int) -> dict[str, Any] | None:
    """The report of a purge; None while it is not written."""
    data = index.server.get(f"{index.prefix}report:{generation}")
    return json.loads(data) if data else None


def _holders(index: Index, generation: int) -> list[dict[str, Any]]:
    """Live jobs that hold entries from below a generation, with their owner labels; some of them when many."""
    holders: list[dict[str, Any]] = []
    for job in index.server.zrange(f"{index.prefix}jobs", 0, -1):
        incarnation, owner = index.server.hmget(f"{index.prefix}j:{job.decode()}", "incarnation", "owner")
        if incarnation and _holds_below(index, f"{job.decode()}@{incarnation.decode()}", generation):
            holders.append({"job": job.decode(), "owner": json.loads(owner or b"{}")})
        if len(holders) == _JOBS_SHOWN:
            break
    return holders


def _holds_below(index: Index, run: str, generation: int) -> bool:
    answers = (value for _, value in index.server.hscan_iter(f"{index.prefix}map:{run}", count=500))
    interests = (value[:-1] for value in answers if value.endswith(b"i") and value[:-1].isdigit())
    return any(int(held) < generation for held in interests)
