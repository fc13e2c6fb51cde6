"""Names of files that travel with a source: relative, with slashes, and able to exist side by side."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from farm.request.values import FieldError, label, shown

#: How far above the source's own folder a header may lie (``../../x.h`` is two).
MAX_FOLDERS_UP = 8
MAX_NAME_CHARACTERS = 1024
MAX_PART_BYTES = 255


def relative_name(value: object, field: str, folders_up: int = 0) -> str:
    """A normalised relative name with at most ``folders_up`` leading ``..``, and none elsewhere.

    Raises:
        FieldError: absolute, empty, not normalised, or too far up; the submitter renames the file.
    """
    name = label(value, field, MAX_NAME_CHARACTERS)
    if name.startswith("/"):
        raise FieldError(f"{shown(name)} is absolute", "give a name relative to the source", field)
    folders = name.split("/")
    up = 0
    while up < len(folders) and folders[up] == "..":
        up += 1
    below = folders[up:]
    if not below or any(part in ("", ".", "..") for part in below):
        raise FieldError(f"{shown(name)} is not a plain relative name", "valid: a.h, sub/a.h", field)
    if up > folders_up:
        allowed = f"at most {folders_up} folders up" if folders_up else "below the folder"
        raise FieldError(f"{shown(name)} lies outside", f"valid: {allowed}", field)
    if any(len(part.encode()) > MAX_PART_BYTES for part in below):
        raise FieldError(f"{shown(name)} has a part of more than {MAX_PART_BYTES} bytes", "shorten it", field)
    return name


def check_spelling(name: str, where: str, travels: Callable[[], bool]) -> None:
    """Refuse a file name that would travel in another Unicode spelling: a compiler looks for this one only.

    Raises:
        FieldError: ``name`` is decomposed and ``travels``; ``field`` is for the caller to add.
    """
    if unicodedata.normalize("NFC", name) != name and travels():
        raise FieldError(
            f"{where} {shown(name)}, whose accents are separate characters (not Unicode NFC)",
            "rename the file, and write its name with composed characters where it is included",
        )


def check_layout(names: Iterable[str], field: str) -> None:
    """Refuse a set of names in which one is both a file and a folder: it can not be laid out on a disk."""
    files = set(names)
    for name in files:
        parent = name.rpartition("/")[0]
        while parent:
            if parent in files:
                raise FieldError(f"{shown(parent)} is both a file and the folder of {shown(name)}", "", field)
            parent = parent.rpartition("/")[0]
