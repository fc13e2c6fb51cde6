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

from farm.client import entry, inuse, jobfile, removal
from farm.client.folder import KernelFolder
from farm.client.ownfolder import folder_error, is_there
from farm.namespace import PART

_KEY = re.compile(r"[0-9a-f]{64}")


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
    #: Since 1970, by the disk's clock: when it was unpacked, or a job last had or gave up its use.
    last_used_ms: int
    in_use: bool


def socs(root: Path) -> list[str]:
    """The processor types for which a ``kernel_cache`` folder holds kernels; none when there is no such folder.

    Raises:
        InputError: the folder can not be read.
    """
    if not is_there(root):
        return []
    try:
        with os.scandir(root) as rows:
            return sorted(row.name for row in rows if PART.fullmatch(row.name) and row.is_dir(follow_symlinks=False))
    except OSError as error:
        raise folder_error(root, error) from None


def entries(root: Path, soc: str) -> list[LocalEntry]:
    """The entries of one processor type, those used last first.

    Raises:
        InputError: the folder can not be read.
    """
    folder = root / soc
    try:
        names = _operators(folder)
        used = inuse.peek(folder)
        with os.scandir(folder) as scan:
            keys = [row.name for row in scan if _KEY.fullmatch(row.name)]
        rows = [row for key in keys if (row := _entry(folder, key, names.get(key, set()), used)) is not None]
    except OSError as error:
        raise folder_error(folder, error) from None
    return sorted(rows, key=lambda row: (not row.in_use, -row.last_used_ms))


def remove(root: Path, soc: str, chosen: Sequence[LocalEntry]) -> Iterator[LocalEntry]:
    """Remove entries of one processor type, but for those that a live process uses by now.

    Safe to interrupt: an entry is there as a whole or not at all. Yields each entry that was removed.

    Raises:
        FarmError: it can not be known what is in use; nothing more is removed.
    """
    rows = {row.key: row for row in chosen}
    for key in removal.remove(KernelFolder(root, soc).path, list(rows)):
        yield rows[key]


def _operators(folder: Path) -> dict[str, set[str]]:
    """By key: the operators that became it, as jobs call them."""
    in_path = re.compile(rf"/{re.escape(folder.name)}/({_KEY.pattern})/")
    found: dict[str, set[str]] = {}
    for operators in jobfile.read_all(folder / "jobs"):
        for name, files in operators.items():
            for key in {match[1] for path in files.values() if (match := in_path.search(path))}:
                found.setdefault(key, set()).add(name)
    return found


def _entry(folder: Path, key: str, names: set[str], used: frozenset[bytes]) -> LocalEntry | None:
    path = folder / key
    try:
        if not entry.is_ours(path):
            return None
        last_used_ms = entry.last_used_ms(path)
        sizes = entry.sizes_bytes(path)
    except FileNotFoundError:
        return None  # removed a moment ago
    return LocalEntry(
        soc=folder.name,
        key=bytes.fromhex(key),
        path=path,
        operators=tuple(sorted(names)),
        files=len(sizes),
        size_bytes=sum(sizes),
        last_used_ms=last_used_ms,
        in_use=bytes.fromhex(key) in used,
    )
