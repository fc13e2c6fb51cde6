"""What ``cache verify`` checks in one namespace."""

from __future__ import annotations

from typing import Any

from farm.errors import FarmError
from farm.index import snapshot
from farm.index.index import Index
from farm.index.invariants import INVARIANTS
from farm.index.stats import EntryRow, list_entries
from farm.namespace import bundle_path
from farm.store.bundle import unpack
from farm.store.errors import StoreDamaged, StoreMissing
from farm.store.store import Store


def check(index: Index, store: Store, repair: bool) -> dict[str, Any]:
    """Check a namespace while it is in use: what is found wrong once is looked at again before it is reported."""
    problems = _violations(index)
    problems &= _violations(index) if problems else set()
    damaged, entries = [], 0
    for row in list_entries(index, None):
        entries += 1
        reason = _damage(index, store, row)
        if reason is None:
            continue
        damaged.append({"key": row.key.hex(), "name": row.record.name, "reason": reason})
        if repair:
            index.drop(row.generation, row.key, row.record.token)
    return {
        "cache": index.namespace.cache,
        "soc": index.namespace.soc,
        "entries": entries,
        "violations": sorted(problems),
        "damaged": damaged,
    }


def _violations(index: Index) -> set[str]:
    found = snapshot.read(index)
    return {problem for invariant in INVARIANTS for problem in invariant(found)}


def _damage(index: Index, store: Store, row: EntryRow) -> str | None:
    path = bundle_path(index.namespace, row.generation, row.key, row.record.token)
    try:
        unpack(store.get(path), key=row.key, sha256=row.record.sha256, stored_bytes=row.record.stored_bytes)
    except (StoreMissing, StoreDamaged) as error:
        # An entry may have gone while its bundle was read; then nothing is wrong.
        current = index.known_tokens(row.generation, [row.key])
        return error.message if current == [row.record.token] else None
    except FarmError:
        raise
    return None
