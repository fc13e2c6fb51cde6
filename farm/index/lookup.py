"""Looks at keys without asking for them: no job, no interest, no claim, and nothing that grows with the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from farm.index.answers import batches
from farm.index.index import Index
from farm.index.joblist import clock_ms
from farm.index.outcomes import Failure
from farm.index.record import Record
from farm.index.slots import SLOTS, near_row

State = Literal["present", "in flight", "remembered failure", "absent"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a fresh job would find for a key now."""

    state: State
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """An entry that is there, of the same type as what was looked for."""

    generation: int
    key: bytes
    record: Record


def standings(index: Index, keys: Sequence[bytes]) -> list[Standing]:
    """What there is of each key in the generation in force, one round trip a batch."""
    generation, now = index.generation(), clock_ms(index)
    found: list[Standing] = []
    for batch in batches(keys):
        with index.server.pipeline(transaction=False) as pipe:
            for key in batch:
                ref = f"{generation}:".encode() + key
                pipe.hexists(f"{index.prefix}e:{generation}", key)
                pipe.exists(f"{index.prefix}c:".encode() + ref)
                pipe.hmget(f"{index.prefix}f:".encode() + ref, "error", "expires_ms")
            replies = pipe.execute()
        found += [_standing(*row, now) for row in zip(replies[::3], replies[1::3], replies[2::3], strict=True)]
    return found


def _standing(is_entry: int, is_claimed: int, failed: list[bytes | None], now_ms: int) -> Standing:
    if is_entry or is_claimed:
        return Standing("present" if is_entry else "in flight")
    error, expires_ms = failed
    if error is not None and now_ms < int(expires_ms or 0):
        return Standing("remembered failure", Failure.unpack(error))
    return Standing("absent")


def near_entries(index: Index, type: str, slot: int) -> list[Near]:
    """Entries of a type: the latest with tensors of this slot first, then the others, the latest first.

    At most one a slot; rows whose entry is gone are passed over.
    """
    generation = index.generation()
    order = [slot, *(other for other in range(SLOTS) if other != slot)]
    keys = index.server.hmget(f"{index.prefix}near:{generation}", [near_row(type, one) for one in order])
    there = [key for key in keys if key]
    records = index.server.hmget(f"{index.prefix}e:{generation}", there) if there else []
    found = [
        Near(generation, key, Record.unpack(data)) for key, data in zip(there, records, strict=True) if data is not None
    ]
    found = [one for one in found if one.record.type == type]
    return sorted(found, key=lambda one: (one.record.tensor_slot != slot, -one.record.token))
