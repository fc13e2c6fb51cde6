"""Where the index remembers one key for operators of a type with tensors alike: a row of ``near``.

A type has a fixed number of slots, and a row is short whatever the type is called, so that memory stays bounded;
what falls into one slot is the latest. A row is a hint: its key may be gone, and its tensors others.
"""

from __future__ import annotations

import hashlib

from farm.request.canonical import canonical_bytes
from farm.request.model import Request, Tensor

SLOTS = 64


def tensor_slot(request: Request) -> int:
    """The slot of the request's tensors, the same in every process: 0 and up, below ``SLOTS``."""
    return hashlib.sha256(canonical_bytes([_rows(request.inputs), _rows(request.outputs)])).digest()[0] % SLOTS


def near_row(type: str, slot: int) -> bytes:
    """The name of a row: 8 bytes for the type, one for the slot."""
    return hashlib.sha256(type.encode()).digest()[:8] + bytes([slot])


def _rows(tensors: tuple[Tensor, ...]) -> list[object]:
    return [[tensor.shape, tensor.dtype, tensor.format] for tensor in tensors]
