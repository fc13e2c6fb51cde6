"""Which file names an entry may hold: those that unpack below its own folder, the same way on every node."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

#: What the farm itself writes into an entry's folder begins so; no compiler's file may.
RESERVED = ".opfarm"

_PART_CAP_BYTES = 255
_NAME_CAP_BYTES = 1024


def check_names(names: Iterable[str]) -> str | None:
    """Say what is wrong with the first bad name of an entry; None when all can be unpacked side by side."""
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        if reason := _wrong(name):
            return f"file name {name!r} {reason}"
        if name in files:
            return f"file name {name!r} occurs twice"
        files.add(name)
        parts = name.split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    both = sorted(files & folders)
    return f"{both[0]!r} is a file and a folder" if both else None


def _wrong(name: str) -> str | None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "has a control character"
    if name.startswith(RESERVED):
        return f"begins with {RESERVED}, which is the farm's own"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "is not a plain relative path"
    if size > _NAME_CAP_BYTES or max(len(part.encode()) for part in parts) > _PART_CAP_BYTES:
        return f"is longer than {_NAME_CAP_BYTES} bytes, or a part of it than {_PART_CAP_BYTES}"
    return None
