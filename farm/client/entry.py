"""One entry on a node's disk: a folder of read-only files and ``.opfarm.json``, which says what they must be.

``.opfarm.json`` is written first, so a folder without it was not made by the farm, however the writer ended. The
time of that file is the entry's last use: access times are not kept on every disk, and any reader moves them.
Nothing here follows a symbolic link.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from farm.client.localnames import on_disk
from farm.client.ownfolder import FOLDER_MODE
from farm.store.bundle import FILES_CAP, Bundle
from farm.store.filenames import check_names

DESCRIPTION = ".opfarm.json"
DESCRIPTION_VERSION = 1

_DESCRIPTION_CAP_BYTES = 4096 * FILES_CAP
_CHUNK_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocked by a FIFO that somebody put in place of a file.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write(folder: Path, bundle: Bundle, bundle_sha256: bytes) -> None:
    """Write all files of a bundle into an empty folder that nobody else knows of."""
    rows = {
        file.name: {"mode": file.mode, "size_bytes": len(file.data), "sha256": file.sha256().hex()}
        for file in bundle.files
    }
    description = {
        "version": DESCRIPTION_VERSION,
        "key": bundle.key.hex(),
        "bundle_sha256": bundle_sha256.hex(),
        "files": rows,
    }
    text = json.dumps(description, ensure_ascii=False, sort_keys=True)
    _write_file(folder / DESCRIPTION, text.encode(), 0o444)
    for file in bundle.files:
        path = folder / on_disk(file.name)
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        _write_file(path, file.data, file.mode)


def is_right(folder: Path, key: bytes, bundle_sha256: bytes) -> list[str] | None:
    """Check a whole entry, every byte of it.

    Returns:
        The names of its files; None when it is absent, of another bundle, or damaged in any way.
    """
    try:
        return _checked(folder, key, bundle_sha256)
    except OSError as error:
        if error.errno != errno.ESTALE:
            return None
    try:
        # A network filesystem replaced what we had open: open it anew, once.
        return _checked(folder, key, bundle_sha256)
    except OSError:
        return None


def is_ours(folder: Path) -> bool:
    """Whether the farm made this folder; False for links, files, and folders of others.

    Raises:
        FileNotFoundError: nothing is there.
    """
    if not stat.S_ISDIR(folder.lstat().st_mode):
        return False
    try:
        return stat.S_ISREG((folder / DESCRIPTION).lstat().st_mode)
    except FileNotFoundError:
        folder.lstat()
        return False


def mark_used(folder: Path) -> None:
    """Note that the entry is used now; one that is gone, or another user's, can not be marked."""
    with suppress(OSError):
        descriptor = os.open(folder, _FOLDER)
        try:
            os.utime(DESCRIPTION, dir_fd=descriptor, follow_symlinks=False)
        finally:
            os.close(descriptor)


def last_used_ms(folder: Path) -> int:
    """When the entry was last used, by the clock of its disk, in ms since 1970.

    Raises:
        FileNotFoundError: nothing is there.
    """
    return os.stat(f"{folder}/{DESCRIPTION}", follow_symlinks=False).st_mtime_ns // 1_000_000  # noqa: PTH116 - fast


def sizes_bytes(folder: Path) -> list[int]:
    """The size of each file of an entry, but for its description.

    Raises:
        FileNotFoundError: it was removed a moment ago.
    """
    return [size for path, size in _files(folder) if path != folder / DESCRIPTION]


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    with os.scandir(folder) as rows:
        for row in rows:
            if row.is_dir(follow_symlinks=False):
                yield from _files(folder / row.name)
            else:
                yield folder / row.name, row.stat(follow_symlinks=False).st_size


def _checked(folder: Path, key: bytes, bundle_sha256: bytes) -> list[str] | None:
    descriptor = os.open(folder, _FOLDER)
    try:
        rows = _rows(descriptor, key, bundle_sha256)
        if rows is None or check_names(rows) or not all(_same(descriptor, *row) for row in rows.items()):
            return None
        return list(rows)
    finally:
        os.close(descriptor)


def _rows(folder: int, key: bytes, bundle_sha256: bytes) -> dict[str, Any] | None:
    with os.fdopen(_open_below(folder, DESCRIPTION), "rb") as file:
        # A read of so many bytes would reserve memory for all of them.
        text = file.read(min(_DESCRIPTION_CAP_BYTES, os.fstat(file.fileno()).st_size))
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match description:
        case {"version": 1, "key": found_key, "bundle_sha256": found_sha256, "files": dict(rows)}:
            same = (found_key, found_sha256) == (key.hex(), bundle_sha256.hex())
            return rows if same else None
    return None


def _same(folder: int, name: str, row: Any) -> bool:
    match row:
        case {"size_bytes": int(size_bytes), "sha256": str(sha256)}:
            pass
        case _:
            return False
    with os.fdopen(_open_below(folder, name), "rb", buffering=0) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_size != size_bytes:
            return False
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == sha256


def _open_below(folder: int, name: str) -> int:
    """Open a file below an open folder without following a link in any part of its name."""
    *parts, last = on_disk(name).split("/")
    here = os.dup(folder)
    try:
        for part in parts:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return os.open(last, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _write_file(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fchmod(file.fileno(), mode)
