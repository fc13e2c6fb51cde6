"""One entry in full: found by its key, described from its bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from farm.errors import FarmError, InputError
from farm.index.index import Index
from farm.index.stats import EntryRow, find_entries, holders, list_entries
from farm.namespace import bundle_path
from farm.request.model import Request
from farm.request.wire import unpack as unpack_request
from farm.store.bundle import unpack
from farm.store.store import Store

_KEY_DIGITS = 64
_PREFIX_DIGITS_MIN = 8


def find(indexes: list[Index], key: str) -> list[tuple[Index, EntryRow]]:
    """The entries whose key is, or begins with, these hex digits; a beginning costs a walk over all entries.

    Raises:
        InputError: it is no key, nothing has it, or several keys begin so.
    """
    digits = key.lower()
    if not _PREFIX_DIGITS_MIN <= len(digits) <= _KEY_DIGITS or set(digits) - set("0123456789abcdef"):
        raise InputError(f"{key!r} is no key", fix="give 8 to 64 hex digits, as cache ls --json shows them")
    found = list(_matching(indexes, digits))
    if not found:
        raise InputError(f"no entry has the key {key}", fix="see: celery -A farm cache ls")
    if len({row.key for _, row in found}) > 1:
        raise InputError(f"{len(found)} entries have keys that begin with {key}", fix="give more digits")
    return found


def _matching(indexes: list[Index], digits: str) -> Iterator[tuple[Index, EntryRow]]:
    for index in indexes:
        if len(digits) == _KEY_DIGITS:
            rows: Any = find_entries(index, bytes.fromhex(digits))
        else:
            rows = (row for row in list_entries(index, None) if row.key.hex().startswith(digits))
        for row in rows:
            yield index, row


def describe(store: Store, index: Index, row: EntryRow) -> dict[str, Any]:
    """What the bundle says of an entry, or what is wrong with the bundle; and who holds the entry."""
    path = bundle_path(index.namespace, row.generation, row.key, row.record.token)
    about: dict[str, Any] = {
        "path": path,
        "sha256": row.record.sha256.hex(),
        "compile_seconds": row.record.compile_ms / 1000,
        "held_by": holders(index, row.key),
    }
    try:
        bundle = unpack(store.get(path), key=row.key, sha256=row.record.sha256, stored_bytes=row.record.stored_bytes)
    except FarmError as error:
        return about | {"damage": error.message, "files": []}
    files = [{"name": file.name, "bytes": len(file.data), "sha256": file.sha256().hex()} for file in bundle.files]
    return about | {
        "damage": None,
        "request": _request(unpack_request(bundle.request)),
        "files": files,
        "provenance": dict(bundle.provenance),
    }


def _request(request: Request) -> dict[str, Any]:
    """What the entry was made from, as a manifest would say it; contents by their digests."""
    source = request.source
    return {
        "inputs": [asdict(tensor) for tensor in request.inputs],
        "outputs": [asdict(tensor) for tensor in request.outputs],
        "attrs": plain(request.attrs),
        "options": plain(request.options),
        "entry": request.entry,
        "source": {"suffix": source.suffix, "bytes": source.main.size_bytes, "sha256": source.main.sha256.hex()},
        "files": sorted(source.files),
        "include_dirs": [sorted(files) for files in source.include_dirs],
        "depends": {name: digest.hex() for name, digest in sorted(request.depends.items())},
    }


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value
