"""Writes a file that is complete or not there, whatever happens meanwhile."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from farm.errors import FarmError, InputError, NodeDiskFull
from farm.store.disk import FULL, disk_full


@contextmanager
def whole_file(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file to be written that gets its name when the block ends well, on the disk for good; else nothing is left.

    A process that is killed leaves a file whose name begins with ``.<name>.``.

    Raises:
        InputError: a file of that name is there and shall stay, or none can be made there.
        FarmError: it can not be written to its end; NodeDiskFull names the disk.
    """
    _refuse_existing(path, overwrite)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        file = temporary.open("xb")
    except OSError as error:
        raise InputError(f"can not write {path}: {error.strerror}", fix="give a file in a folder of yours") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _refuse_existing(path, overwrite)
        temporary.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(path, error.errno, NodeDiskFull) from None
        raise FarmError(f"can not write {path}: {error.strerror}", fix="see what is wrong with its disk") from None
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is there and is no regular file", fix="give another name, or - for a pipe")
    if not overwrite and os.path.lexists(path):
        raise InputError(f"{path} is there already", fix="give another name, or --overwrite")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
