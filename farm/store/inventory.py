"""What lies in the store, by namespace: for rebuilds and the search for orphans. Foreign objects are passed over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from farm.errors import InputError
from farm.namespace import BundleId, Namespace
from farm.store.sourcepath import epoch_of
from farm.store.store import Store

_NAMESPACE_DEPTH = 2
_MARKERS = "generations"


@dataclass(frozen=True, slots=True)
class Shelf:
    """One namespace's part of the store."""

    #: Newest first: of two of one key and generation, the later compile is preferred.
    bundles: tuple[BundleId, ...]
    #: What writers that were killed left of a bundle: number and bundle.
    leftovers: tuple[tuple[str, BundleId], ...]
    #: The largest generation that has a marker; 0 for none.
    largest_generation: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that is ours in a store."""

    shelves: dict[Namespace, Shelf]
    #: The paths of sources, by the epoch in which they were put.
    sources: dict[int, list[str]]


def take_inventory(store: Store) -> Inventory:
    """List the whole store once. Raises FarmUnavailable when it does not answer."""
    paths = store.names()
    sources: dict[int, list[str]] = defaultdict(list)
    for path in paths:
        if epoch := epoch_of(path):
            sources[epoch].append(path)
    return Inventory(_shelves(paths), dict(sources))


def _shelves(paths: Iterable[str]) -> dict[Namespace, Shelf]:
    bundles: dict[Namespace, list[BundleId]] = defaultdict(list)
    leftovers: dict[Namespace, list[tuple[str, BundleId]]] = defaultdict(list)
    largest: dict[Namespace, int] = defaultdict(int)
    for path in paths:
        parts = path.split("/", _NAMESPACE_DEPTH)
        namespace = _namespace(parts)
        if namespace is None:
            continue
        rest, mark, left = parts[_NAMESPACE_DEPTH].partition("#")
        head, _, number = rest.partition("/")
        if mark:
            if (found := BundleId.parse(rest)) and left.isascii() and left.isdigit():
                leftovers[namespace].append((left, found))
        elif head == _MARKERS and number.isascii() and number.isdigit():
            largest[namespace] = max(largest[namespace], int(number))
        elif found := BundleId.parse(rest):
            bundles[namespace].append(found)
    return {
        namespace: Shelf(
            tuple(sorted(bundles[namespace], key=lambda found: found.token, reverse=True)),
            tuple(leftovers[namespace]),
            largest[namespace],
        )
        for namespace in sorted(bundles.keys() | largest.keys() | leftovers.keys())
    }


def _namespace(parts: list[str]) -> Namespace | None:
    if len(parts) <= _NAMESPACE_DEPTH:
        return None
    try:
        return Namespace(parts[0], parts[1])
    except InputError:
        return None
