"""A lock among the processes of one node, kept by the kernel, so that it ends with its holder.

It saves work (one fetch per node) and is not what keeps the cache right: where the storage has no working
locks, or a holder was stopped, the others go on without it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from farm.client.localnames import as_text
from farm.client.ownfolder import folder_error
from farm.errors import InputError

#: A holder fetches one bundle; whoever takes longer is stopped or lost, and is not waited for.
PATIENCE_SECONDS = 60.0

_POLL_SECONDS = 0.01
_NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def hold(path: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[bool]:
    """Hold the lock named by a file, which is there only as long as somebody holds or wants it.

    Yields:
        True with the lock; False without, when the storage has none or the holder kept it too long.

    Raises:
        InputError: the file is a link or no file, or can not be made.
    """
    descriptor = _acquire(path, time.monotonic() + patience_seconds)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            # Before the lock is given up: a waiter that gets it next sees that its file has gone.
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder if nobody has: True; False when somebody has; None: no locks here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS_HERE:
            return None
        raise
    return True


def still_there(path: Path, descriptor: int) -> bool:
    """Whether the path still names what was opened (and locked) at it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _acquire(path: Path, deadline: float) -> int | None:
    while True:
        descriptor = _open(path)
        locked: bool | None = False
        try:
            while not (locked := try_lock(descriptor)):
                if locked is None or time.monotonic() >= deadline:
                    return None
                time.sleep(_POLL_SECONDS)
            if locked := still_there(path, descriptor):
                return descriptor
        finally:
            if not locked:
                os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            raise InputError(
                f"lock file {as_text(path)} is a link or a folder, so it is not the farm's",
                fix="find out who made it and remove it",
            ) from None
        raise folder_error(path, error) from None
