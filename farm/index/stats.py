"""Reads what the cache holds, for reports: counts are O(1), pinned bytes cost one look at each pinned entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from farm.index.index import Index
from farm.index.record import Record
from farm.namespace import PRIVATE_GENERATION

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits that the coordinator wrote; Ascend's nominal ones, not applied, where none ever ran."""

    limit_bytes: int = 500 * 1048576
    keep_ratio: int = 50
    origin: str = "default"
    ageing: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceStats:
    """The figures of one namespace, as of one moment but for the pinned bytes; all but one of shared entries."""

    generation: int
    entries: int
    stored_bytes: int
    pinned_entries: int
    pinned_bytes: int
    idle_entries: int
    retired_entries: int
    private_entries: int
    tombstones: int
    limits: LimitsInForce
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry as a listing shows it; ``last_used_ms`` is None while it is pinned."""

    key: bytes
    generation: int
    record: Record
    pins: int
    last_used_ms: int | None


COUNTERS = ("hits", "misses", "joins", "compiles", "evictions", "purges")


def read_stats(index: Index) -> NamespaceStats:
    """The figures of one namespace."""
    meta = {name.decode(): value for name, value in index.server.hgetall(index.prefix + "meta").items()}
    current = int(meta.get("generation", 0))
    generations = _generations(index)
    sizes = {g: index.server.hlen(f"{index.prefix}e:{g}") for g in generations}
    idle = index.server.zcard(f"{index.prefix}idle:{current}")
    entries, retired = sizes.get(current, 0), sum(size for g, size in sizes.items() if g != current)
    pinned = [row for g in generations for row in _pinned(index, g)]
    return NamespaceStats(
        generation=current,
        entries=entries,
        stored_bytes=int(meta.get("bytes", 0)),
        pinned_entries=len(pinned),
        pinned_bytes=sum(pinned),
        idle_entries=idle,
        retired_entries=retired,
        private_entries=index.server.hlen(f"{index.prefix}e:{PRIVATE_GENERATION}"),
        tombstones=index.server.zcard(index.prefix + "tombs"),
        limits=_limits(meta),
        counters={name: int(meta.get(name, 0)) for name in COUNTERS},
    )


def _limits(meta: dict[str, bytes]) -> LimitsInForce:
    if "limit_bytes" not in meta:
        return LimitsInForce()
    origin = meta["limit_origin"].decode()
    return LimitsInForce(int(meta["limit_bytes"]), int(meta["keep_ratio"]), origin, meta["ageing"] == b"1")


def _generations(index: Index) -> list[int]:
    """Those that hold shared entries: private ones are in no list."""
    listed = (int(g) for g in index.server.zrange(index.prefix + "generations", 0, -1))
    return [g for g in listed if g != PRIVATE_GENERATION]


def pinned_bytes(index: Index, below: int) -> list[int]:
    """The stored bytes of each entry in use of the generations below one."""
    return [stored for g in _generations(index) if g < below for stored in _pinned(index, g)]


def _pinned(index: Index, generation: int) -> Iterator[int]:
    """The stored bytes of each entry that some job is interested in."""
    interested = (key for key, _ in index.server.hscan_iter(f"{index.prefix}i:{generation}", count=_CHUNK))
    while chunk := list(islice(interested, _CHUNK)):
        for data in index.server.hmget(f"{index.prefix}e:{generation}", chunk):
            if data:
                yield Record.unpack(data).stored_bytes


def list_entries(index: Index, limit: int | None, generation: int | None = None) -> Iterator[EntryRow]:
    """Entries of all generations or of one, newest generation first, in chunks; no order within one."""
    left = limit
    for g in reversed(_generations(index)) if generation is None else [generation]:
        rows = index.server.hscan_iter(f"{index.prefix}e:{g}", count=_CHUNK)
        while (left is None or left > 0) and (
            chunk := list(islice(rows, _CHUNK if left is None else min(left, _CHUNK)))
        ):
            left = None if left is None else left - len(chunk)
            yield from _rows(index, g, dict(chunk))


def find_entries(index: Index, key: bytes) -> list[EntryRow]:
    """The entries of a key, in every generation that has one."""
    return [row for generation in reversed(_generations(index)) for row in read_entries(index, generation, [key])]


def read_entries(index: Index, generation: int, keys: Sequence[bytes]) -> list[EntryRow]:
    """Those of these keys that are entries of a generation."""
    records = index.server.hmget(f"{index.prefix}e:{generation}", keys) if keys else []
    there = {key: data for key, data in zip(keys, records, strict=True) if data}
    return list(_rows(index, generation, there)) if there else []


def _rows(index: Index, generation: int, records: dict[bytes, bytes]) -> Iterator[EntryRow]:
    keys = list(records)
    pins = index.server.hmget(f"{index.prefix}i:{generation}", keys)
    used = index.server.zmscore(f"{index.prefix}idle:{generation}", keys)
    for key, pin, score in zip(keys, pins, used, strict=True):
        last_used_ms = int(score or 0) or None
        yield EntryRow(key, generation, Record.unpack(records[key]), int(pin or 0), last_used_ms)


def holders(index: Index, key: bytes) -> list[str]:
    """The live jobs that are interested in a key."""
    jobs = [job.decode() for job in index.server.zrange(index.prefix + "jobs", 0, -1)]
    held = []
    for job in jobs:
        incarnation = index.server.hget(f"{index.prefix}j:{job}", "incarnation")
        if incarnation and index.server.hexists(f"{index.prefix}map:{job}@{incarnation.decode()}", key):
            held.append(job)
    return held


def waiting_claims(index: Index, queues: Sequence[str]) -> dict[str, int]:
    """How many claims stand in each of these queues, where any do."""
    with index.server.pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.zcard(f"{index.prefix}queue:{queue}")
        return {queue: waiting for queue, waiting in zip(queues, pipe.execute(), strict=True) if waiting}
