"""The archive of ``cache export``: entries of one farm in one file, which ``cache import`` reads at another.

    opfarm-cache.json         {"format": 1, "schema", "key_schema", "farm_id", "created", "namespaces": ["cache/soc"]}
    <cache>/<soc>/<key>       a bundle, byte for byte as it lies in the store; any number of them
    opfarm-cache.end.json     {"entries", "bytes"} of the members between: a file without it was cut off

It is a plain POSIX tar (ustar, regular files, nothing compressed: bundles are), written and read from front to back,
so that it may go through a pipe. A reader takes nothing else for an archive, whatever tar could hold: it never
unpacks to a disk, and its memory is bounded by the largest object that a store may have.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from farm.errors import FarmError, InputError
from farm.namespace import Namespace
from farm.request.values import printable, shown
from farm.store.store import OBJECT_CAP_BYTES

FORMAT = 1
_HEAD, _END = "opfarm-cache.json", "opfarm-cache.end.json"
_BLOCK = tarfile.BLOCKSIZE
_JSON_CAP_BYTES = 16 << 20
_SKIP_BYTES = 1 << 20
_NAME = re.compile(r"([^/]+/[^/]+)/([0-9a-f]{64})", re.ASCII)


class BrokenArchive(FarmError):
    """Nothing behind this place of the file can be read; what came before it is good."""

    code = "broken_archive"


@dataclass(frozen=True, slots=True)
class Header:
    """What an archive says of itself: the versions of its bundles and keys, and where they come from."""

    schema: int
    key_schema: int
    farm_id: str
    #: ISO 8601.
    created: str
    namespaces: tuple[Namespace, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One bundle in an archive: whose it is, and where its bytes are."""

    namespace: Namespace
    key: bytes
    size_bytes: int
    offset: int

    @property
    def name(self) -> str:
        """Its name in the file."""
        return f"{self.namespace}/{self.key.hex()}"


@dataclass(frozen=True, slots=True)
class BadMember:
    """A member that is no bundle, and why; the members after it can be read."""

    name: str
    reason: str


class ArchiveWriter:
    """Writes an archive to a file or pipe; it is whole only after ``close``."""

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = file
        self._mtime = int(datetime.fromisoformat(header.created).timestamp())
        self.entries = self.stored_bytes = 0
        fields = {"format": FORMAT, "schema": header.schema, "key_schema": header.key_schema}
        about = {"farm_id": header.farm_id, "created": header.created, "namespaces": [*map(str, header.namespaces)]}
        self._write(_HEAD, _json(fields | about))

    def add(self, namespace: Namespace, key: bytes, data: bytes) -> None:
        """Append one bundle."""
        self._write(f"{namespace}/{key.hex()}", data)
        self.entries += 1
        self.stored_bytes += len(data)

    def close(self) -> None:
        """Say how many there were, and end the tar."""
        self._write(_END, _json({"entries": self.entries, "bytes": self.stored_bytes}))
        self._file.write(bytes(2 * _BLOCK))

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o444, self._mtime
        self._file.write(info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict"))
        self._file.write(data)
        self._file.write(bytes(-len(data) % _BLOCK))


class ArchiveReader:
    """Reads an archive once, from front to back; bundles may be read later where the input can go back.

    Raises, when it is made:
        InputError: the input is no archive, or one of another version: who gave it gives another.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.can_go_back = file.seekable()
        self._position = file.tell() if self.can_go_back else 0
        self._size = file.seek(0, os.SEEK_END) if self.can_go_back else None
        self._go_to(self._position)
        try:
            info = self._next()
            if info.name != _HEAD:
                raise BrokenArchive(f"it begins with {info.name!r}, not with {_HEAD}")
            self.header = _header(self._json(info))
        except BrokenArchive as error:
            raise InputError(
                f"this is no archive of a cache: {error.message}", fix="give a file that cache export has written"
            ) from None

    def members(self) -> Iterator[Member | BadMember]:
        """The bundles in the order of the file. Read one before the next is asked for, unless the input can go back.

        Raises:
            BrokenArchive: the file is cut off or damaged; what came before is good.
        """
        entries = stored_bytes = 0
        while (info := self._next()).name != _END:
            behind = self._position + info.size + -info.size % _BLOCK
            if self._size is not None and behind > self._size:
                raise BrokenArchive(f"it is cut off after {self._size} bytes, within {printable(info.name)}")
            yield self._member(info)
            self._go_to(behind)
            entries += 1
            stored_bytes += info.size
        told = self._json(info)
        if told != {"entries": entries, "bytes": stored_bytes}:
            raise BrokenArchive(f"{entries} bundles of {stored_bytes} bytes were read, its end says {shown(told)}")
        self._file.read(2 * _BLOCK)

    def read(self, member: Member) -> bytes:
        """The bytes of a bundle, unchecked.

        Raises:
            BrokenArchive: the file ends in them.
        """
        if self._position != member.offset:
            self._file.seek(member.offset)
            self._position = member.offset
        return self._read(member.size_bytes)

    def _member(self, info: tarfile.TarInfo) -> Member | BadMember:
        found = _NAME.fullmatch(info.name)
        try:
            if found is None:
                raise InputError("its name is not <cache>/<soc>/<key>")
            member = Member(Namespace.parse(found[1]), bytes.fromhex(found[2]), info.size, self._position)
        except InputError as error:
            return BadMember(info.name, error.message)
        if info.size > OBJECT_CAP_BYTES:
            return BadMember(info.name, f"it has {info.size} bytes, no bundle has more than {OBJECT_CAP_BYTES}")
        return member

    def _next(self) -> tarfile.TarInfo:
        at = self._position
        block = self._read(_BLOCK)
        if not any(block):
            raise BrokenArchive(f"it ends at byte {at}, before {_END}")
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "backslashreplace")
        except tarfile.TarError as error:
            raise BrokenArchive(f"no member of a tar begins at byte {at} ({error})") from None
        if info.type != tarfile.REGTYPE or info.size < 0:
            raise BrokenArchive(f"the member {info.name!r} at byte {at} is not a regular file, as all of ours are")
        return info

    def _json(self, info: tarfile.TarInfo) -> Any:
        if info.size > _JSON_CAP_BYTES:
            raise BrokenArchive(f"{info.name} has {info.size} bytes")
        data = self._read(info.size)
        self._go_to(self._position + -info.size % _BLOCK)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise BrokenArchive(f"{info.name} is not JSON") from None

    def _read(self, size_bytes: int) -> bytes:
        data = self._file.read(size_bytes)
        self._position += len(data)
        if len(data) < size_bytes:
            raise BrokenArchive(f"it is cut off after {self._position} bytes")
        return data

    def _go_to(self, position: int) -> None:
        """Pass over what nobody wanted, and over the padding; where the input can go back, also go on from there."""
        if self.can_go_back:
            self._file.seek(position)
            self._position = position
        while self._position < position:
            self._read(min(_SKIP_BYTES, position - self._position))


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def _header(document: Any) -> Header:
    match document:
        case {"format": int(version)} if version != FORMAT:
            raise InputError(
                f"this archive has format {version}, this opfarm reads {FORMAT}",
                fix="import it with the opfarm version that wrote it, or export it again with this one",
            )
        case {
            "format": int(), "schema": int(schema), "key_schema": int(key_schema), "farm_id": str(farm_id),
            "created": str(created), "namespaces": list(namespaces),
        } if all(isinstance(name, str) for name in namespaces):  # fmt: skip
            try:
                where = tuple(Namespace.parse(name) for name in namespaces)
            except InputError as error:
                raise BrokenArchive(f"{_HEAD}: {error.message}") from None
            return Header(schema, key_schema, farm_id, created, where)
    raise BrokenArchive(f"{_HEAD} has not the fields of one")
