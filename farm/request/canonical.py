"""One byte string for one value: msgpack with the keys of every mapping in code point order."""

from __future__ import annotations

from collections.abc import Mapping

import msgpack

#: More items in one list or mapping than any manifest holds; keeps a forged length from reserving memory.
MAX_ITEMS = 1_000_000


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
