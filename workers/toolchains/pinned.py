"""Files and folders that a fingerprint stands for: their content, and whether it is still the same.

A fingerprint is made once, when the worker starts. What it stands for may be changed while the worker runs (a
package upgraded, a tuning bank tuned further); a kernel made from that must not go under the old fingerprint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class _Pin:
    path: Path
    stamp: str
    sha256: str


class Pinned:
    """What some paths held when this was made."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read it all.

        Raises:
            OSError: a path is missing or something in it can not be read.
        """
        # The stamp first: a change in between is then seen later, and not never.
        self._pins = [_Pin(path, _stamp(path), content_sha256(path)) for path in paths]

    @property
    def sha256s(self) -> tuple[str, ...]:
        """The content's digest, one a path."""
        return tuple(pin.sha256 for pin in self._pins)

    def change(self) -> str | None:
        """What is no longer as it was, in words; content is read again only where size or times differ."""
        for pin in self._pins:
            try:
                stamp = _stamp(pin.path)
                if stamp != pin.stamp and content_sha256(pin.path) != pin.sha256:
                    return f"{pin.path} has changed since the worker started"
                pin.stamp = stamp
            except OSError as error:
                return f"{pin.path} can no longer be read: {error.strerror or error}"
        return None


def content_sha256(path: Path) -> str:
    """Hex sha256 of a file's content, or of all in a folder by relative name and content.

    Where the path leads, times, owners and modes count for nothing. Links are followed; one that leads nowhere
    counts by its text, a folder met a second time and what is no file (a socket) by their names.

    Raises:
        OSError: something can not be read.
    """
    if not path.is_dir():
        return _file_sha256(path)
    total = hashlib.sha256()
    for name, found in _walk(path):
        total.update(f"{len(os.fsencode(name))} ".encode() + os.fsencode(name))
        if found is not None and found.is_file():
            total.update(b" file " + _file_sha256(found).encode())
        elif found is not None and found.is_symlink():
            total.update(b" link " + hashlib.sha256(os.fsencode(found.readlink())).hexdigest().encode())
    return total.hexdigest()


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> str:
    """Changes whenever a file below the path does; costs no reading."""
    total = hashlib.sha256()
    for name, found in _walk(path):
        if found is not None:
            stat = found.stat() if found.exists() else found.lstat()
            numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            total.update(os.fsencode(f"{name}\0{numbers}\n"))
    return total.hexdigest()


def _walk(top: Path) -> Iterator[tuple[str, Path | None]]:
    """Everything below a folder in a fixed order, links followed; None stands for a folder met before."""
    if not top.is_dir():
        yield "", top
        return
    met: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(top, onerror=_raise, followlinks=True):
        stat = Path(folder).stat()
        if (stat.st_dev, stat.st_ino) in met:
            folders.clear()
            yield Path(folder).relative_to(top).as_posix(), None
            continue
        met.add((stat.st_dev, stat.st_ino))
        folders.sort()
        for name in sorted(names):
            yield Path(folder, name).relative_to(top).as_posix(), Path(folder, name)


def _raise(error: OSError) -> None:
    raise error
