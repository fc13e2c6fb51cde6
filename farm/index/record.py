"""The record of an entry: what the index knows of a finished compile, packed small, for a million are in memory.

    | token 8 | stored bytes 4 | compile ms 4 | sha256 32 | msgpack [name, type, toolchain, tensor slot] |  big endian

Scripts read the first two numbers and never decode the rest (Lua's cmsgpack can not read msgpack's bin type).
The path is not stored: it follows from namespace, generation, key and token, and the token is also the time of
the take in microseconds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NewType

import msgpack

from farm.index.slots import near_row

Key = NewType("Key", bytes)
Token = NewType("Token", int)
Generation = NewType("Generation", int)

KEY_BYTES = 32

_NUMBERS = struct.Struct(">QII32s")
_LONGEST_MS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A running claim as its worker holds it: which entry, and the fencing token of the take."""

    generation: int
    key: bytes
    token: int


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the index; ``sha256`` and ``stored_bytes`` are those of the bundle object."""

    token: int
    stored_bytes: int
    sha256: bytes
    name: str
    type: str
    toolchain: str
    compile_ms: int
    #: Of a hash of the operator's tensors, see near.py.
    tensor_slot: int = 0

    @property
    def near_row(self) -> bytes:
        """Where ``near`` keeps the key, for those who look for something like it."""
        return near_row(self.type, self.tensor_slot)

    def pack(self) -> bytes:
        """The bytes kept in the index."""
        compile_ms = min(self.compile_ms, _LONGEST_MS)
        numbers = _NUMBERS.pack(self.token, self.stored_bytes, compile_ms, self.sha256)
        return numbers + bytes(msgpack.packb((self.name, self.type, self.toolchain, self.tensor_slot)))

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        """Read a record back; raises ValueError when it is none."""
        try:
            token, stored_bytes, compile_ms, sha256 = _NUMBERS.unpack_from(data)
            name, type, toolchain, tensor_slot = msgpack.unpackb(data[_NUMBERS.size :])
        except (struct.error, msgpack.UnpackException, ValueError, TypeError) as error:
            raise ValueError(f"no record of an entry: {error}") from None
        return cls(token, stored_bytes, sha256, name, type, toolchain, compile_ms, tensor_slot)
