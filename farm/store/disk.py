"""Which disk a path lies on and what is left of it, so that an error about space names the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeVar

from farm.errors import FarmError

T = TypeVar("T", bound=FarmError)

#: No space, over quota, file larger than the filesystem allows.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def mount_point(path: Path) -> Path:
    """The folder where the filesystem that holds (or would hold) the path is mounted."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    path = path.resolve()
    while not path.is_mount():
        path = path.parent
    return path


def disk_full(path: Path, errno_: int, kind: type[T]) -> T:
    """The error, of that kind, for a write below ``path`` that failed with ENOSPC or EDQUOT."""
    disk = mount_point(path)
    if errno_ == errno.EDQUOT:
        what = f"the quota on disk {disk} is used up"
    else:
        left = os.statvfs(disk)
        what = f"disk {disk} is full ({left.f_bavail * left.f_frsize >> 20} MB"
        what += f" and {left.f_favail} inodes left)" if left.f_files else " left)"
    return kind(f"{what}, writing to {path}", fix=f"free space on {disk} or choose another folder")
