"""Reads the idle entries of a namespace as ageing sees them, for a dry run."""

from __future__ import annotations

from collections.abc import Iterator

from farm.index.index import Index
from farm.index.record import Record
from farm.policy.ageing import Candidate

_CHUNK = 500


def idle_entries(index: Index) -> Iterator[tuple[Candidate, Record]]:
    """Idle entries of the current generation, least recently used first, in chunks."""
    generation, at = index.generation(), 0
    since = int(index.server.hget(f"{index.prefix}meta", "ageing_since") or 0)
    while rows := index.server.zrange(f"{index.prefix}idle:{generation}", at, at + _CHUNK - 1, withscores=True):
        at += len(rows)
        records = index.server.hmget(f"{index.prefix}e:{generation}", [key for key, _ in rows])
        for (key, score), data in zip(rows, records, strict=True):
            if data:
                record = Record.unpack(data)
                yield Candidate(key, max(int(score), since), record.stored_bytes), record
