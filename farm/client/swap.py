"""Puts one folder in the place of another so that no reader ever finds the name empty, where Linux can."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: The filesystem (or the C library) has no exchange.
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def swap(new: Path, old: Path, aside: Path) -> None:
    """Make ``new`` appear as ``old``; what was there lies at ``new`` or at ``aside`` afterwards.

    One step where the filesystem can exchange two names; else two, between which ``old`` is missing: a reader
    then finds no entry, never half of one.

    Raises:
        OSError: as of rename; ENOTEMPTY when somebody else put a folder there between the two steps.
    """
    if not _exchange(new, old):
        old.rename(aside)
        new.rename(old)


def _exchange(new: Path, old: Path) -> bool:
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), os.fspath(old))
