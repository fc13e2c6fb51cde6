"""Folders that the farm makes on a node: 0750, never somebody else's, never reached through a link."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from farm.client.localnames import as_text
from farm.errors import FarmError, InputError, NodeDiskFull
from farm.store.disk import FULL, disk_full

FOLDER_MODE = 0o750
_ELSEWHERE = "choose another folder with --op-compiler-cache-dir or ASCEND_CACHE_PATH"


def make_folders(path: Path) -> None:
    """Make a folder and its missing parents, each 0750; several processes may do so at once.

    Raises:
        InputError: one can not be made; names the cause.
    """
    missing = []
    try:
        while not path.is_dir():
            missing.append(path)
            if path.parent == path:
                break
            path = path.parent
        for folder in reversed(missing):
            with suppress(FileExistsError):
                folder.mkdir(mode=FOLDER_MODE)
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise folder_error(missing[0] if missing else path, error) from None


def own_folder(path: Path) -> None:
    """Make a folder below an existing one, or check that it is one the farm may trust with executable code.

    Raises:
        InputError: it is a link or no folder, belongs to another user, all users may write to it, or this
            user may not; the user chooses another or mends it.
    """
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=FOLDER_MODE)
        state = path.lstat()
    except OSError as error:
        raise folder_error(path, error) from None
    _check_folder(path, state)
    if state.st_mode & stat.S_IWOTH:
        raise InputError(
            f"cache folder {as_text(path)} may be written by every user (mode {state.st_mode & 0o7777:o}), "
            "so its kernels can not be trusted",
            fix=f"chmod o-w {as_text(path)}, or {_ELSEWHERE}",
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
        raise folder_error(path, OSError(number, os.strerror(number)))
    if state.st_uid not in (os.geteuid(), 0) and state.st_uid != _owner_of_new_files(path):
        raise InputError(f"cache folder {as_text(path)} belongs to another user (uid {state.st_uid})", fix=_ELSEWHERE)


def is_there(path: Path) -> bool:
    """Whether there is such a folder, for who only looks: nothing is made, and nobody needs to write to it.

    Raises:
        InputError: it is a link or no folder, or can not be reached; names the cause.
    """
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise folder_error(path, error) from None
    _check_folder(path, state)
    return True


def folder_error(path: Path, error: OSError) -> FarmError:
    """What a user is told when the disk refuses something in a cache folder."""
    if error.errno in FULL:
        return disk_full(path, error.errno, NodeDiskFull)
    if error.errno == errno.ENAMETOOLONG:
        name = max(path.parts, key=lambda part: len(os.fsencode(part)))
        return InputError(
            f"cache folder: the path has {len(os.fsencode(path))} bytes and its longest part, "
            f"{as_text(name)[:16]}..., {len(os.fsencode(name))}; a part may have 255 bytes, a path 4095 "
            "(a Han character takes 3)",
            fix=_ELSEWHERE,
        )
    return InputError(f"cache folder {as_text(path)} can not be used: {error.strerror}", fix=_ELSEWHERE)


def _check_folder(path: Path, state: os.stat_result) -> None:
    if stat.S_ISLNK(state.st_mode):
        raise InputError(f"cache folder {as_text(path)} is a symbolic link", fix=_ELSEWHERE)
    if not stat.S_ISDIR(state.st_mode):
        raise InputError(f"cache folder {as_text(path)} is no folder", fix=_ELSEWHERE)


def _owner_of_new_files(folder: Path) -> int | None:
    """Whom the filesystem gives our files to: a network mount may map this user to another."""
    probe = folder / f".opfarm-owner-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        owner = probe.lstat().st_uid
        probe.unlink()
    except OSError:
        return None
    return owner
