"""A fresh folder for each compile, laid out from the request, and gone afterwards.

<tmp>/opfarm-<uid>/                 mode 0700, refused when it is someone else's
  lock                              held for moments: making a worker's folder, removing strays
  <worker>/lock                     held as long as the worker lives
  <worker>/<compile>/src/d/d/source.cpp   as many d as the longest run of leading ".." needs
                     src/d/d/...          the files beside the source, under their own names
                     inc0 inc1 ...        the include folders, in search order
                     out/                 what the compiler is to leave
                     tmp/                 its HOME and TMPDIR
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from farm.errors import FarmRefused, InputError
from farm.request.model import Blob, Source

_SUFFIX = re.compile(r"(\.[A-Za-z0-9_+-]{1,32}){0,4}")
#: GCC's ``#pragma once`` takes equal files with the same second of modification for one file, so the clock would
#: decide what is compiled: every file has a second of its own, the same each time.
_FIRST_MTIME = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where one compile finds its source and leaves its files."""

    root: Path
    source: Path
    include_dirs: tuple[Path, ...]
    out: Path
    tmp: Path

    @classmethod
    def lay_out(cls, root: Path, source: Source) -> Scratch:
        """Write a request's files below ``root``, whatever their names try.

        Raises:
            InputError: a name leads out of the folder, or a file's content is not at hand.
            OSError: the disk's own (full, read-only).
        """
        if not _SUFFIX.fullmatch(source.suffix):
            raise InputError(f"source suffix {source.suffix!r} is not one", fix="use one like .cpp")
        depth = max((_climbs(name) for name in source.files), default=0)
        taken = {word for name in source.files for part in name.split("/") for word in (part, part.split(".")[0])}
        top = root / "src"
        folder = top.joinpath(*[_unused("d", taken)] * depth)
        main = folder / (_unused("source", taken) + source.suffix)
        include_dirs = tuple(root / f"inc{number}" for number in range(len(source.include_dirs)))
        times = itertools.count(_FIRST_MTIME)
        _write(folder, top, {main.name: source.main, **dict(sorted(source.files.items()))}, times)
        for include_dir, files in zip(include_dirs, source.include_dirs, strict=True):
            _write(include_dir, include_dir, dict(sorted(files.items())), times)
        for made in (root / "out", root / "tmp"):
            made.mkdir()
        return cls(root, main, include_dirs, root / "out", root / "tmp")


def _climbs(name: str) -> int:
    """How many levels above its own folder a relative name begins."""
    parts = PurePosixPath(name).parts
    return next((number for number, part in enumerate(parts) if part != ".."), len(parts))


def _unused(stem: str, taken: Iterable[str]) -> str:
    """A name of our own that no file of the request has; the same request always gives the same one."""
    while stem in taken:
        stem += "_"
    return stem


def _write(folder: Path, top: Path, files: Mapping[str, Blob], times: Iterator[int]) -> None:
    """Write files under names relative to ``folder``, none of them outside ``top``; each takes a time of its own."""
    folder.mkdir(parents=True)
    for name, blob in files.items():
        path = Path(os.path.normpath(folder / name))
        inner = PurePosixPath(name).parts[_climbs(name) :]
        if name.startswith("/") or "\0" in name or ".." in inner or top not in path.parents:
            raise InputError(
                f"file name {name!r} of the source leads out of its folder",
                fix="use relative names, with .. only at the beginning",
            )
        if blob.data is None:
            raise InputError(f"the content of {name!r} is not at hand", fix="submit the request again")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(blob.data)
            os.utime(path, (time := next(times), time))
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"file name {name!r} of the source clashes with another", fix="rename it") from None


class ScratchArea:
    """One worker's part of the machine's scratch space; held until closed or the worker dies."""

    def __init__(self, folder: Path, lock_fd: int) -> None:
        self.folder = folder
        self._lock_fd = lock_fd
        self._opening = threading.Lock()

    @classmethod
    def open(cls, parent: Path | None = None) -> ScratchArea:
        """Make this worker's folder and remove those of workers that have died.

        Raises:
            FarmRefused: the parent folder can not be used, or is somebody else's; the operator sets TMPDIR.
        """
        return cls(*_open((parent or Path(tempfile.gettempdir())) / f"opfarm-{os.getuid()}"))

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """An empty folder for one compile, removed whatever happens in it.

        Raises:
            OSError: the disk's own.
            FarmRefused: somebody took the place of the folder that was removed below the worker.
        """
        try:
            root = self._folder()
        except FileNotFoundError:  # a cleaner of temporary files came by; the compiles of other threads fail
            self._open_again()
            root = self._folder()
        try:
            yield root
        finally:
            remove_tree(root)

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="compile-", dir=self.folder))

    def _open_again(self) -> None:
        with self._opening:
            if not self.folder.exists():  # else another thread was faster
                folder, lock_fd = _open(self.folder.parent)
                os.close(self._lock_fd)
                self.folder, self._lock_fd = folder, lock_fd

    def close(self) -> None:
        """Remove all of it; safe to repeat."""
        if self._lock_fd >= 0:
            remove_tree(self.folder)
            os.close(self._lock_fd)
            self._lock_fd = -1


def _open(base: Path) -> tuple[Path, int]:
    """A worker's folder below ``base``, and the lock that it is held by."""
    try:
        _claim_base(base)
        base = base.resolve()
        with _locked(base / "lock"):
            _remove_strays(base)
            folder = Path(tempfile.mkdtemp(prefix="worker-", dir=base))
            lock_fd = _try_lock(folder / "lock")
    except OSError as error:
        raise _unusable(base, error.strerror or str(error)) from None
    assert lock_fd is not None
    return folder, lock_fd


def remove_tree(folder: Path) -> None:
    """Remove a folder, also what a compiler made unwritable; what stays is removed at the next start."""
    shutil.rmtree(folder, ignore_errors=True)
    for opened, _, _ in os.walk(folder):  # whatever is left: parents before children, links not followed
        Path(opened).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _claim_base(base: Path) -> None:
    """A name that others can guess: it must be a real folder of ours that nobody else can write to."""
    with suppress(FileExistsError):
        base.mkdir(mode=0o700, parents=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise _unusable(base, f"it is not a folder of user {os.getuid()} with mode 0700")


def _unusable(base: Path, why: str) -> FarmRefused:
    return FarmRefused(
        f"scratch folder {base} can not be used: {why}",
        fix="remove it, or set TMPDIR to a local folder that the worker can write to",
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _try_lock(path: Path) -> int | None:
    """The lock's descriptor, or None while its worker lives."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _remove_strays(base: Path) -> None:
    """Folders whose worker no longer holds its lock; only called below the base's own lock."""
    for folder in base.glob("worker-*"):
        lock_fd = _try_lock(folder / "lock")
        if lock_fd is not None:
            remove_tree(folder)
            os.close(lock_fd)
