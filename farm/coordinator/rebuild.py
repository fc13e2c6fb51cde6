"""Makes the index agree with the store again: after a loss of data, and when an operator asks.

An index that was emptied gets its entries back from the bundles; one that was restored from an older snapshot
loses rows without a bundle and gets those that it never saw. What is running or held is never judged here: a live
claim wins over a found bundle, and members announce what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from farm.client.proof import prove
from farm.coordinator.space import CHUNK, Space, hold
from farm.errors import FarmError, FarmUnavailable
from farm.failpoint import reach
from farm.index.record import Record
from farm.namespace import PRIVATE_GENERATION, BundleId
from farm.store.errors import StoreMissing
from farm.store.inventory import Shelf

_READ_THREADS = 8
#: Bundles read in one step: a slow store needs a second for them.
_READ_CHUNK = 50


@dataclass
class RebuildReport:
    """What a rebuild has changed."""

    adopted: int = 0
    dropped_rows: int = 0
    damaged: list[str] = field(default_factory=list)


def rebuild(space: Space, shelf: Shelf, report: RebuildReport) -> Iterator[None]:
    """Rebuild one namespace, a chunk a step; the caller does its other work between the steps."""
    index = space.index
    index.open(shelf.largest_generation)
    if shelf.bundles:  # who holds any of them has one job lease to say so
        hold(space)
    reach("rebuild.after_hold")
    yield from _drop_rows_without_bundle(space, shelf, report)
    shared = [one for one in shelf.bundles if one.generation != PRIVATE_GENERATION]
    for at in range(0, len(shared), _READ_CHUNK):
        chunk = shared[at : at + _READ_CHUNK]
        with ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="farm-rebuild") as pool:
            found = list(pool.map(lambda one: _record(space, one, report), _unknown(space, chunk)))
        report.adopted += index.adopt([pair for pair in found if pair])
        reach("rebuild.after_chunk")
        yield


def _unknown(space: Space, chunk: Sequence[BundleId]) -> list[BundleId]:
    """Those of the bundles whose key has no entry in their generation."""
    unknown: list[BundleId] = []
    for generation in {one.generation for one in chunk}:
        some = [one for one in chunk if one.generation == generation]
        tokens = space.index.known_tokens(generation, [one.key for one in some])
        unknown += [one for one, token in zip(some, tokens, strict=True) if token is None]
    return unknown


def _record(space: Space, found: BundleId, report: RebuildReport) -> tuple[BundleId, Record] | None:
    """The record of a bundle that proves itself; a damaged one is left to the search for orphans.

    Raises:
        FarmUnavailable: the store does not answer. That says nothing of the bundle: the rebuild begins anew.
    """
    path = found.path(space.index.namespace)
    try:
        return found, prove(space.store.get(path), found.key, found.token).record
    except StoreMissing:
        return None
    except FarmUnavailable:
        raise
    except FarmError as error:
        report.damaged.append(f"{path}: {error.message}")
        return None


def _drop_rows_without_bundle(space: Space, shelf: Shelf, report: RebuildReport) -> Iterator[None]:
    there = {(one.generation, one.key, one.token) for one in shelf.bundles}
    rows = space.index.entries(CHUNK)
    for chunk in rows:
        for generation, key, token in chunk:
            # Published after the listing was made: the object itself is asked.
            path = BundleId(generation, key, token).path(space.index.namespace)
            if (generation, key, token) not in there and not space.store.exists(path):
                report.dropped_rows += space.index.drop(generation, key, token)
        reach("rebuild.after_drop")
        yield


def condemn_orphans(space: Space, shelf: Shelf) -> Iterator[int]:
    """Condemn what is nothing to the index, a chunk a step; each is judged in the script that condemns it."""
    namespace = space.index.namespace
    found = [(one.path(namespace), one) for one in shelf.bundles]
    found += [(f"{one.path(namespace)}#{number}", one) for number, one in shelf.leftovers]
    for at in range(0, len(found), CHUNK):
        yield space.index.condemn_orphans(found[at : at + CHUNK])
        reach("orphans.after_chunk")
