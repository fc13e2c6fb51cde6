"""The record of an entry: what the index knows of a finished compile, packed small.

    "<token> <stored_bytes> " + msgpack [sha256, name, type, toolchain, compile_ms]

Scripts never decode msgpack (Lua's cmsgpack can not read its bin type); the two numbers they need stand
before it as text. The path is not stored: it follows from namespace, generation, key and token, and the
token is also the time of the take in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

import msgpack

Key = NewType("Key", bytes)
Token = NewType("Token", int)
Generation = NewType("Generation", int)

KEY_BYTES = 32


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

    def pack(self) -> bytes:
        """The bytes kept in the index."""
        rest = (self.sha256, self.name, self.type, self.toolchain, self.compile_ms)
        return b"%d %d %s" % (self.token, self.stored_bytes, msgpack.packb(rest))

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        """Read a record back; raises ValueError when it is none."""
        token, stored_bytes, rest = data.split(b" ", 2)
        return cls(int(token), int(stored_bytes), *msgpack.unpackb(rest))
