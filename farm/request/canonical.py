"""One byte string for one value: msgpack with the keys of every mapping in code point order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgpack

#: More items in one list or mapping than any manifest holds; keeps a forged length from reserving memory.
MAX_ITEMS = 1_000_000


Holder = TypeVar("Holder", bound="Sequence[object] | Mapping[str, object]")


class Allowance:
    """How much all lists and mappings of one packed value may hold together; its hooks are for msgpack.

    An empty list takes one byte of what is packed, of what is compressed next to none, and some sixty of memory.
    """

    def __init__(self, items: int) -> None:
        self._items = self._left = items

    def take(self, made: Holder) -> Holder:
        """Count a list or mapping that was just made.

        Raises:
            ValueError: there are too many; what was made so far is given up.
        """
        self._left -= 1 + len(made)
        if self._left < 0:
            raise ValueError(f"it holds more than {self._items} values")
        return made


def canonical_bytes(value: object) -> bytes:
    """Equal for equal values, in whatever order a mapping was built; 1, 1.0 and true stay different."""
    packed: bytes = msgpack.packb(_ordered(value), use_bin_type=True, strict_types=True)
    return packed


def _ordered(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, tuple | list):
        return [_ordered(item) for item in value]
    return value
