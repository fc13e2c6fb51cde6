"""Cuts what is moved into portions that fit into memory and are worth a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

#: Bundles of a portion, and their bytes, the last one's not counted.
ENTRIES, BYTES = 100, 64 << 20

T = TypeVar("T")


def portions(items: Iterable[T], size_bytes: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in order, in runs that are bounded in number and size; none is empty."""
    portion: list[T] = []
    weight = 0
    for item in items:
        portion.append(item)
        weight += size_bytes(item)
        if len(portion) >= ENTRIES or weight >= BYTES:
            yield portion
            portion, weight = [], 0
    if portion:
        yield portion
