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
from contextlib import contextmanager, nullcontext, suppress
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


@contextmanager
def gate(path: Path, *, alone: bool, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[bool]:
    """Pass a gate that many may pass at once, or nobody but one who is alone; its file stays, as does that of its turn.

    Everybody queues for a turn first, and who waits to be alone keeps it: else those who may pass together, each for a
    moment, would keep him out as long as there are enough of them.

    Yields:
        True inside; False when the storage has no locks or others stayed too long.

    Raises:
        InputError: the file is a link or no file, or can not be made.
    """
    deadline = time.monotonic() + patience_seconds
    with _locked(path, shared=not alone, deadline=deadline, turn=path.with_name(f"{path.name}.turn")) as inside:
        yield inside


@contextmanager
def _locked(path: Path, *, shared: bool, deadline: float, turn: Path | None = None) -> Iterator[bool]:
    descriptor = _open(path)
    try:
        with _locked(turn, shared=shared, deadline=deadline) if turn else nullcontext():
            while (inside := try_lock(descriptor, shared)) is False and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        yield bool(inside)
    finally:
        with suppress(OSError):  # said aloud, as a child that was forked meanwhile has the file open too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def work_in(folder: Path) -> bool:
    """Whether a lock on a file in this folder keeps others out, tried with a small file that is removed again.

    Raises:
        OSError: the file can not be made.
    """
    probe = folder / f".opfarm-lock-{os.getpid()}-{os.urandom(8).hex()}"
    descriptors = [os.open(probe, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600) for _ in range(2)]
    try:
        return [try_lock(descriptor) for descriptor in descriptors] == [True, False]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        probe.unlink(missing_ok=True)


def try_lock(descriptor: int, shared: bool = False) -> bool | None:
    """Lock an open file or folder if nobody has: True; False when somebody has; None: no locks here.

    Several may have a shared lock at once, but none beside one that is not.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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
