"""The bundle: the bytes of one entry, in one immutable object that proves itself.

    bytes 0..15    "opfarm-bundle 1\n"      what this is, and the version of the format
    bytes 16..47   sha256 of the rest       so that a rebuild can trust a bundle without any index
    bytes 48..     one zstd frame of msgpack (content size declared):
                   {"key": bytes, "files": [{"name", "mode", "sha256", "data"} by name],
                    "request": bytes, "provenance": {...}}

The same bundle always packs to the same bytes. Nothing here touches a disk or the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
import zstandard

from farm.errors import InputError
from farm.request.canonical import Allowance
from farm.store.errors import BadBundle
from farm.store.filenames import check_names

MAGIC = b"opfarm-bundle 1\n"
HEAD_BYTES = len(MAGIC) + 32

#: Unpacked size at most: the 1 GiB that a compile may leave, its request, and room for names.
CONTENT_CAP_BYTES = (1 << 30) + (64 << 20)
FILES_CAP = 10_000
#: In all lists and mappings: five for each file, and room for the provenance.
_ITEMS_CAP = 10 * FILES_CAP
#: Files of an entry are never written again, only run or not.
PLAIN, RUNNABLE = 0o444, 0o555

_ZSTD_LEVEL = 3
_WINDOW_CAP_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of an entry: its path inside the entry's folder (posix, relative), mode and bytes."""

    name: str
    mode: int
    data: bytes

    def sha256(self) -> bytes:
        """Digest of the bytes, 32 raw bytes."""
        return hashlib.sha256(self.data).digest()


@dataclass(frozen=True, slots=True)
class Bundle:
    """A finished compile: whose it is, what it made, what was asked, and who made it."""

    key: bytes
    files: tuple[BundleFile, ...]
    #: The request in wire form, opaque here.
    request: bytes
    #: Worker, fingerprint, times, log tail: plain values, never part of any decision.
    provenance: Mapping[str, Any]


def pack(bundle: Bundle) -> bytes:
    """Make the bundle's bytes; modes become 0444 or 0555 (when the owner may run the file).

    Returns:
        The object to put; its sha256 and length are what the index records.

    Raises:
        InputError: a file name can not be unpacked safely, or there are too many bytes or files; the
            compiler's output patterns are to be mended.
    """
    if reason := check_names([file.name for file in bundle.files]):
        raise InputError(f"outputs of the compile: {reason}", fix="change the declared outputs")
    content = _content(bundle)
    if len(bundle.files) > FILES_CAP or len(content) > CONTENT_CAP_BYTES:
        raise InputError(
            f"outputs of the compile: {len(bundle.files)} files, {len(content)} bytes; "
            f"at most {FILES_CAP} files and {CONTENT_CAP_BYTES} bytes fit into one entry",
            fix="narrow the declared outputs",
        )
    frame = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=True).compress(content)
    return MAGIC + hashlib.sha256(frame).digest() + frame


def unpack(data: bytes, *, key: bytes, sha256: bytes, stored_bytes: int) -> Bundle:
    """Check the bytes against what the index says of them, and open them.

    Memory is bounded by the bytes given plus twice ``CONTENT_CAP_BYTES``, whatever the bytes say.

    Raises:
        BadBundle: for every kind of damage: cut short, changed, another format, another key's bundle,
            larger than any entry may be. The reader drops the entry and asks again.
    """
    if len(data) != stored_bytes:
        raise BadBundle(f"{len(data)} bytes where {stored_bytes} were published")
    if hashlib.sha256(data).digest() != sha256:
        raise BadBundle("the bytes differ from those that were published (sha256)")
    bundle = _bundle(_decoded(_inflated(data)))
    if bundle.key != key:
        raise BadBundle(f"it is the bundle of key {bundle.key.hex()}, not of {key.hex()}")
    return bundle


def identify(data: bytes, *, key: bytes) -> tuple[Bundle, bytes]:
    """Open a bundle that was found without an index: it proves itself. Returns it and its sha256.

    Raises:
        BadBundle: it is damaged, or not that key's.
    """
    sha256 = hashlib.sha256(data).digest()
    return unpack(data, key=key, sha256=sha256, stored_bytes=len(data)), sha256


def _content(bundle: Bundle) -> bytes:
    files = [
        {
            "name": file.name,
            "mode": RUNNABLE if file.mode & 0o100 else PLAIN,
            "sha256": file.sha256(),
            "data": file.data,
        }
        for file in sorted(bundle.files, key=lambda file: file.name)
    ]
    content: bytes = msgpack.packb(
        {
            "key": bundle.key,
            "files": files,
            "request": bundle.request,
            "provenance": _sorted(bundle.provenance),
        }
    )
    return content


def _sorted(value: Any) -> Any:
    """The same plain value, every mapping in the order of its keys, so that equal bundles pack equally."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _inflated(data: bytes) -> bytes:
    if data[: len(MAGIC)] != MAGIC:
        raise BadBundle("it does not begin like a bundle of version 1")
    frame = memoryview(data)[HEAD_BYTES:]
    if hashlib.sha256(frame).digest() != data[len(MAGIC) : HEAD_BYTES]:
        raise BadBundle("its content differs from the digest in its head")
    try:
        declared = zstandard.frame_content_size(frame)
        if not 0 <= declared <= CONTENT_CAP_BYTES:
            raise BadBundle(f"it declares {declared} bytes unpacked; at most {CONTENT_CAP_BYTES} are read")
        opener = zstandard.ZstdDecompressor(max_window_size=_WINDOW_CAP_BYTES)
        # The declared size is also the size of the buffer: a frame that lies about it fails.
        return opener.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadBundle(f"its zstd frame is damaged: {error}") from None


def _decoded(content: bytes) -> Any:
    take = Allowance(_ITEMS_CAP).take
    try:
        # A list or map header is believed (and memory taken) before its items are seen: hence the caps.
        return msgpack.unpackb(
            content, max_array_len=FILES_CAP, max_map_len=FILES_CAP, list_hook=take, object_hook=take
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise BadBundle(f"its content is not msgpack: {error}") from None


def _bundle(content: Any) -> Bundle:
    match content:
        case {
            "key": bytes(key),
            "files": list(rows),
            "request": bytes(request),
            "provenance": dict(provenance),
        }:
            files = tuple(_file(row) for row in rows)
        case _:
            raise BadBundle("its content has not the parts of a bundle")
    if reason := check_names([file.name for file in files]):
        raise BadBundle(reason)
    return Bundle(key, files, request, provenance)


def _file(row: Any) -> BundleFile:
    match row:
        case {"name": str(name), "mode": int(mode), "sha256": bytes(sha256), "data": bytes(data)}:
            file = BundleFile(name, mode, data)
        case _:
            raise BadBundle("one of its files has not the parts of a file")
    if mode not in (PLAIN, RUNNABLE):
        raise BadBundle(f"file {name!r} has mode {mode:o}")
    if file.sha256() != sha256:
        raise BadBundle(f"file {name!r} differs from its own digest")
    return file
