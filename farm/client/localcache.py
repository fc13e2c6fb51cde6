"""A node's own kernels, as a person looks at them and clears them away.

Only what the farm made is listed or removed, by name and content; what a live process of the node uses stays. A
removed entry costs the next job that wants it a fetch, never a compile: the shared cache is not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.client import entry, inuse, jobfile, staging
from farm.client.folder import KernelFolder
from farm.client.localnames import as_text
from farm.client.ownfolder import folder_error
from farm.errors import FarmError
from farm.namespace import PART

_KEY = re.compile(r"[0-9a-f]{64}")
#: Entries that are put aside while those who want to use others wait; deleting them, which takes longer, comes after.
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class LocalEntry:
    """One entry on this node."""

    soc: str
    key: bytes
    path: Path
    #: What the jobs that used it call it.
    operators: tuple[str, ...]
    files: int
    size_bytes: int
    #: Seconds since 1970: when it was unpacked, or a job last wrote it into its file.
    last_used: float
    in_use: bool


def socs(root: Path) -> list[str]:
    """The processor types for which a ``kernel_cache`` folder holds kernels."""
    with os.scandir(root) as rows:
        return sorted(row.name for row in rows if PART.fullmatch(row.name) and row.is_dir(follow_symlinks=False))


def entries(root: Path, soc: str) -> list[LocalEntry]:
    """The entries of one processor type, those used last first.

    Raises:
        InputError: the folder can not be read.
    """
    folder = root / soc
    try:
        names = _operators(folder)
        used = inuse.look(folder).keys
        with os.scandir(folder) as scan:
            keys = [row.name for row in scan if _KEY.fullmatch(row.name)]
        rows = [row for key in keys if (row := _entry(folder, key, names.get(key, []), used)) is not None]
    except OSError as error:
        raise folder_error(folder, error) from None
    return sorted(rows, key=lambda row: (not row.in_use, -row.last_used))


def remove(root: Path, soc: str, chosen: Sequence[LocalEntry]) -> Iterator[LocalEntry]:
    """Remove entries of one processor type, but for those that a live process uses by now.

    Safe to interrupt: an entry is there as a whole or not at all. Yields each entry that was removed.

    Raises:
        FarmError: locks do not work in this folder, so nobody knows what is in use; nothing is removed.
    """
    folder = KernelFolder(root, soc).path
    for first in range(0, len(chosen), _AT_ONCE):
        aside = _put_aside(folder, chosen[first : first + _AT_ONCE])
        for row, path in aside:
            staging.remove(path)
            yield row
    if (folder / "jobs").is_dir():
        jobfile.remove_finished(folder / "jobs")


def _operators(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """By key: the operators that became it, each with the time at which its job said so."""
    in_path = re.compile(rf"/{re.escape(folder.name)}/({_KEY.pattern})/")
    found: dict[str, list[tuple[float, str]]] = {}
    for written, operators in jobfile.read_all(folder / "jobs"):
        for name, files in operators.items():
            for key in {match[1] for path in files.values() if (match := in_path.search(path))}:
                found.setdefault(key, []).append((written, name))
    return found


def _entry(folder: Path, key: str, names: list[tuple[float, str]], used: frozenset[bytes]) -> LocalEntry | None:
    path = folder / key
    try:
        if not entry.is_ours(path):
            return None
        unpacked = (path / entry.DESCRIPTION).lstat().st_mtime
        sizes = [size for name, size in _files(path) if name != path / entry.DESCRIPTION]
    except FileNotFoundError:
        return None  # removed a moment ago
    return LocalEntry(
        soc=folder.name,
        key=bytes.fromhex(key),
        path=path,
        operators=tuple(sorted({name for _, name in names})),
        files=len(sizes),
        size_bytes=sum(sizes),
        last_used=max([unpacked, *(written for written, _ in names)]),
        in_use=bytes.fromhex(key) in used,
    )


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    with os.scandir(folder) as rows:
        for row in rows:
            if row.is_dir(follow_symlinks=False):
                yield from _files(folder / row.name)
            else:
                yield folder / row.name, row.stat(follow_symlinks=False).st_size


def _put_aside(folder: Path, chosen: Sequence[LocalEntry]) -> list[tuple[LocalEntry, Path]]:
    """Rename entries away while nobody can begin to use one: whoever asks next finds none and fetches it."""
    aside = []
    with inuse.alone(folder) as inside:
        use = inuse.look(folder)
        if not inside or not use.sure:
            raise FarmError(
                f"file locks do not work in {as_text(folder)}, so it is not known which kernels are in use",
                fix="stop the jobs of this node and remove the folder by hand, or keep kernels on a local disk",
            )
        for row in chosen:
            path = staging.new_name(folder, row.key)
            if row.key not in use.keys and _renamed(row.path, path):
                aside.append((row, path))
    return aside


def _renamed(path: Path, aside: Path) -> bool:
    try:
        if entry.is_ours(path):
            path.rename(aside)
            return True
    except FileNotFoundError:
        pass  # somebody else removed it
    except OSError as error:
        raise folder_error(path, error) from None
    return False
