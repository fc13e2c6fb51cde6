"""Temporary folders beside the entries, on the same filesystem, and the removal of those whose maker died.

The maker holds a lock on the folder itself, and its name says under which running kernel it was made. So whoever
gets that lock under the same kernel knows that the maker is gone. Of another kernel (another node on a shared
disk, or this one before a reboot) nothing is known, so its folders stay for a day. Only what was made here, by
name and content, is ever removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from farm.client import entry, nodelock
from farm.client.localnames import as_text
from farm.client.ownfolder import FOLDER_MODE

log = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMOVE_TRIES = 3
FOREIGN_KERNEL_SECONDS = 86400
_NAME = re.compile(r"\.[0-9a-f]{64}-(?P<kernel>[0-9a-f]{8})-[0-9a-f]{16}\.tmp")
_LOCK_NAME = re.compile(r"\.[0-9a-f]{64}\.lock")


@cache
def kernel() -> str:
    """The running kernel, the same in all containers of a node: file locks are sure to work within it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = os.uname().nodename.encode()
    return hashlib.sha256(boot).hexdigest()[:8]


def new_name(folder: Path, key: bytes) -> Path:
    """A name for a temporary folder that is not taken, except by the greatest of chances."""
    return folder / f".{key.hex()}-{kernel()}-{secrets.token_hex(8)}.tmp"


def lock_name(folder: Path, key: bytes) -> Path:
    """The lock file of a key."""
    return folder / f".{key.hex()}.lock"


@contextmanager
def staging(folder: Path, key: bytes) -> Iterator[Path]:
    """A fresh empty folder that is removed at the end, with whatever then lies at its name."""
    path, descriptor = _make(folder, key)
    try:
        yield path
    finally:
        remove(path)
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a temporary folder; what can not be removed now is left for the next process, with a warning.

    ``.opfarm.json`` goes last, so that what a killed remover leaves is still known to be the farm's.
    """
    for _ in range(_REMOVE_TRIES):
        try:
            _remove(path)
            return
        except FileNotFoundError:
            continue  # nothing is there, or somebody else removes it too
        except OSError as error:
            log.warning("could not remove %s: %s; it will be tried again", as_text(path), error.strerror)
            return


def remove_strays(folder: Path) -> None:
    """Remove what processes that were killed left in the folder; what live ones use stays."""
    with os.scandir(folder) as rows:
        names = [row.name for row in rows if row.name.startswith(".")]
    for name in names:
        if match := _NAME.fullmatch(name):
            _remove_if_dead(folder / name, match["kernel"] == kernel())
        elif _LOCK_NAME.fullmatch(name) and (folder / name).is_file() and not (folder / name).is_symlink():
            with nodelock.hold(folder / name, patience_seconds=0):
                pass  # letting go of a lock removes its file


def _remove(path: Path) -> None:
    descriptor = os.open(path, _FOLDER)
    try:
        with os.scandir(descriptor) as scan:
            rows = list(scan)
        for row in rows:
            if row.is_dir(follow_symlinks=False):
                shutil.rmtree(row.name, dir_fd=descriptor)
            elif row.name != entry.DESCRIPTION:
                os.unlink(row.name, dir_fd=descriptor)
        (path / entry.DESCRIPTION).unlink(missing_ok=True)
        path.rmdir()
    finally:
        os.close(descriptor)


def _make(folder: Path, key: bytes) -> tuple[Path, int]:
    while True:
        path = new_name(folder, key)
        try:
            path.mkdir(mode=FOLDER_MODE)
            descriptor = os.open(path, _FOLDER)
        except (FileExistsError, FileNotFoundError):
            continue  # the name was taken, or a cleaner came between the two steps
        if nodelock.try_lock(descriptor) is not False and nodelock.still_there(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _remove_if_dead(path: Path, same_kernel: bool) -> None:
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError:
        return  # gone, or not a folder and so not ours
    try:
        dead = _is_unlocked(path, descriptor) if same_kernel else _is_old(descriptor)
        if dead and nodelock.still_there(path, descriptor) and (entry.is_ours(path) or not any(path.iterdir())):
            remove(path)
    except OSError as error:
        log.warning("could not look at %s: %s", as_text(path), error.strerror)
    finally:
        os.close(descriptor)


def _is_unlocked(path: Path, descriptor: int) -> bool:
    if not nodelock.try_lock(descriptor):
        return False
    # Where a lock that is held can be had once more, locks say nothing about the maker.
    again = os.open(path, _FOLDER)
    try:
        return nodelock.try_lock(again) is False
    finally:
        os.close(again)


def _is_old(descriptor: int) -> bool:
    return time.time() - os.fstat(descriptor).st_mtime > FOREIGN_KERNEL_SECONDS
