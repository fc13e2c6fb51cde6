"""Reads the files a manifest names: regular ones only, with a bound, and never waiting for anybody.

A device, pipe, socket, folder, symlink loop or file of procfs is refused before a byte is read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from functools import cache
from io import BufferedReader
from pathlib import Path

from farm.request.values import FieldError, shown

#: A tuning bank or a compiler is smaller; more would keep the submitter waiting for minutes.
MAX_HASHED_BYTES = 16 * 2**30
_PIECE_BYTES = 2**20
_KERNELS = ("/proc", "/sys")
_KERNELS_BELOW = tuple(f"{folder}/" for folder in _KERNELS)

_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist",
    errno.EACCES: "may not be read by this user",
    errno.EPERM: "may not be read by this user",
    errno.ELOOP: "is a loop of symbolic links",
    errno.ENAMETOOLONG: "has a name that is too long",
}
#: The file is simply not there: another place may have it.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


def read_file(path: Path, field: str, limit_bytes: int) -> bytes:
    """The content of a regular file of at most ``limit_bytes``.

    Raises:
        FieldError: absent, unreadable, too large, or not a regular file; the submitter mends the manifest.
    """
    with _open(path, field) as file:
        try:
            data = b"".join(_pieces(file, limit_bytes + 1))
        except OSError as error:
            raise unreadable(path, field, error) from None
    if len(data) > limit_bytes:
        raise FieldError(f"{shown(str(path))} has more than {limit_bytes} bytes", f"valid: up to {limit_bytes}", field)
    return data


def file_sha256(path: Path, field: str) -> bytes:
    """The sha256 of a regular file, read piece by piece; a size that no tool has is refused."""
    with _open(path, field) as file:
        try:
            found = _sha256(file) if os.fstat(file.fileno()).st_size <= MAX_HASHED_BYTES else None
        except OSError as error:
            raise unreadable(path, field, error) from None
    if found is None:
        raise FieldError(f"{shown(str(path))} has more than {MAX_HASHED_BYTES // 2**30} GiB", "", field)
    return found


def check_not_kernels(path: Path, found: os.stat_result, field: str) -> None:
    """Refuse what procfs or sysfs (or what is mounted in them) makes up while it is read.

    It is called a regular file of no size, yet may have no end, wait for somebody, or differ at each reading.

    Raises:
        FieldError: it is one of those; the submitter names a file on a disk.
    """
    real = os.path.realpath(path)
    if found.st_dev in _kernels_devices() or real.startswith(_KERNELS_BELOW):
        raise FieldError(f"{shown(str(path))} is made up by the kernel", "name a file or folder on a disk", field)


def is_present(path: Path) -> bool:
    """Whether something other than a folder has this name; it may still turn out to be unreadable."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except ValueError:
        return False
    except OSError as error:
        return error.errno not in _ABSENT


def unreadable(path: Path, field: str, error: OSError) -> FieldError:
    """The refusal of a path that the system would not open."""
    words = _WORDS.get(error.errno or 0, f"can not be read: {error.strerror}")
    return FieldError(f"{shown(str(path))} {words}", "", field)


def _open(path: Path, field: str) -> BufferedReader:
    try:
        _check_regular(path, path.stat(), field)
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise unreadable(path, field, error) from None
    except ValueError:  # a NUL in the name
        raise FieldError(f"{shown(str(path))} is not a file name", "", field) from None
    try:
        _check_regular(path, os.fstat(file.fileno()), field)  # it may have been replaced since
    except BaseException:
        file.close()
        raise
    return file


def _pieces(file: BufferedReader, limit_bytes: int) -> Iterator[bytes]:
    """The file's first bytes: a single read of so many would reserve memory for all of them, for every header."""
    while piece := file.read(min(_PIECE_BYTES, limit_bytes)):
        limit_bytes -= len(piece)
        yield piece


def _sha256(file: BufferedReader) -> bytes | None:
    """None: more bytes than allowed, whatever the size was said to be."""
    total, left_bytes = hashlib.sha256(), MAX_HASHED_BYTES
    while piece := file.read(_PIECE_BYTES):
        left_bytes -= len(piece)
        if left_bytes < 0:
            return None
        total.update(piece)
    return total.digest()


@cache
def _kernels_devices() -> frozenset[int]:
    """The device numbers of the kernel's own file systems, which may be mounted elsewhere too."""
    # A bare chroot has plain folders of these names, on the disk of all the rest.
    return frozenset(Path(folder).stat().st_dev for folder in _KERNELS if os.path.ismount(folder))


def _check_regular(path: Path, found: os.stat_result, field: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise FieldError(f"{shown(str(path))} is {kind}", "name a regular file", field)
    check_not_kernels(path, found, field)
