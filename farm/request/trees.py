"""Folders a manifest names: the headers below an include folder, the digest of what a compile depends on."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from farm.request.canonical import canonical_bytes
from farm.request.files import MAX_HASHED_BYTES, check_not_kernels, file_sha256, unreadable
from farm.request.model import MAX_INCLUDE_FILES
from farm.request.values import FieldError, shown

#: A tuning bank or an operator library is larger than any include folder, and only its digest travels.
MAX_DEPENDS_FILES = 200_000


def include_files(root: Path, field: str) -> Iterator[tuple[str, Path, int]]:
    """Every regular file below an include folder: relative name, path, size in bytes.

    Symbolic links are followed only to what lies in the folder itself; those that lead to nothing, pipes and
    devices are left out.

    Raises:
        FieldError: not a folder, unreadable, too many files, or a link to a file or folder outside.
    """
    return _walk(root, field, inside_only=True, limit_files=MAX_INCLUDE_FILES)


def depends_sha256(path: Path, field: str) -> bytes:
    """The digest of a file's content, or of the names and contents of all regular files below a folder.

    Symbolic links are followed wherever they lead, since a compiler would follow them too.

    Raises:
        FieldError: absent, unreadable, or too many files.
    """
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise unreadable(path, field, error) from None
    if not is_folder:
        return file_sha256(path, field)
    found = list(_walk(path, field, inside_only=False, limit_files=MAX_DEPENDS_FILES))
    if sum(size_bytes for _, _, size_bytes in found) > MAX_HASHED_BYTES:
        raise FieldError(
            f"{shown(str(path))} holds more than {MAX_HASHED_BYTES // 2**30} GiB", "name a smaller folder", field
        )
    files = {os.fsencode(name): file_sha256(file, field) for name, file, _ in found}
    return hashlib.sha256(b"folder\0" + canonical_bytes(files)).digest()


def _walk(root: Path, field: str, *, inside_only: bool, limit_files: int) -> Iterator[tuple[str, Path, int]]:
    """Name below the root, path and size in bytes of each regular file."""
    try:
        check_not_kernels(root, root.stat(), field)
    except OSError as error:
        raise unreadable(root, field, error) from None
    real_root = os.path.realpath(root)
    seen = 0
    #: Folder, name below the root, and the real paths above it: a link back to one of those is a loop.
    todo: list[tuple[Path, str, tuple[str, ...]]] = [(root, "", (real_root,))]
    while todo:
        folder, below, above = todo.pop()
        for entry in _entries(folder, field):
            seen += 1
            if seen > limit_files:
                raise FieldError(
                    f"{shown(str(root))} holds more than {limit_files} files and folders",
                    "name a smaller folder",
                    field,
                )
            real = os.path.realpath(entry.path) if entry.is_symlink() else f"{above[-1].rstrip('/')}/{entry.name}"
            mode, size_bytes = _mode_and_size(entry)
            if inside_only and real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
                _check_leads_nowhere(entry, mode, field)
                continue
            if stat.S_ISREG(mode):
                yield below + entry.name, Path(entry.path), size_bytes
            elif stat.S_ISDIR(mode) and real not in above:
                todo.append((Path(entry.path), f"{below}{entry.name}/", (*above, real)))


def _entries(folder: Path, field: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except NotADirectoryError:
        raise FieldError(f"{shown(str(folder))} is not a folder", "name a folder", field) from None
    except OSError as error:
        raise unreadable(folder, field, error) from None


def _check_leads_nowhere(link: os.DirEntry[str], mode: int, field: str) -> None:
    """A compiler here would follow the link; a worker, without what lies there, might find another header."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        raise FieldError(
            f"{shown(link.path)} is a symbolic link that leads out of the folder",
            "put a copy there, or name the folder it leads to in include_dirs",
            field,
        )


def _mode_and_size(entry: os.DirEntry[str]) -> tuple[int, int]:
    try:
        found = entry.stat()
    except OSError:  # a link to nothing, or to itself
        return 0, 0
    return found.st_mode, found.st_size
