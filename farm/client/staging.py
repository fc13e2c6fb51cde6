"""Temporary folders beside the entries, on the same filesystem, and the removal of those whose maker died.

The maker holds a lock on the folder itself. So whoever gets that lock knows that the maker is gone, and only
folders that were made here, by name and content, are removed.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.client import entry, nodelock
from farm.client.localnames import as_text
from farm.client.ownfolder import FOLDER_MODE

log = logging.getLogger(__name__)

_NAME = re.compile(r"\.[0-9a-f]{64}-[0-9a-f]{16}\.tmp")
_LOCK_NAME = re.compile(r"\.[0-9a-f]{64}\.lock")


def new_name(folder: Path, key: bytes) -> Path:
    """A name for a temporary folder that is not taken, except by the greatest of chances."""
    return folder / f".{key.hex()}-{secrets.token_hex(8)}.tmp"


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
        os.close(descriptor)
        remove(path)


def remove(path: Path) -> None:
    """Remove a temporary folder; what can not be removed now is left for the next process, with a warning."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("could not remove %s: %s; it will be tried again", as_text(path), error.strerror)


def remove_strays(folder: Path) -> None:
    """Remove what processes that were killed left in the folder; what live ones use stays."""
    with os.scandir(folder) as rows:
        names = [row.name for row in rows if row.name.startswith(".")]
    for name in names:
        if _NAME.fullmatch(name):
            _remove_if_dead(folder / name)
        elif _LOCK_NAME.fullmatch(name) and (folder / name).is_file() and not (folder / name).is_symlink():
            with nodelock.hold(folder / name, patience_seconds=0):
                pass  # letting go of a lock removes its file


def _make(folder: Path, key: bytes) -> tuple[Path, int]:
    while True:
        path = new_name(folder, key)
        try:
            path.mkdir(mode=FOLDER_MODE)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileExistsError, FileNotFoundError):
            continue  # the name was taken, or a cleaner came between the two steps
        if nodelock.try_lock(descriptor) is not False and nodelock.still_there(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _remove_if_dead(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone, or not a folder and so not ours
    try:
        dead = nodelock.try_lock(descriptor)
        if (
            dead
            and nodelock.still_there(path, descriptor)
            and (entry.is_ours(path) or not any(path.iterdir()))
        ):
            remove(path)
    except OSError as error:
        log.warning("could not look at %s: %s", as_text(path), error.strerror)
    finally:
        os.close(descriptor)
