"""A compiler's own headers: their digest, and whether they are still what it stands for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workers.toolchains.hashing import tree_sha256

_Stamp = tuple[int, ...]


class Headers:
    """What some include folders held when this was made."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read it all; what can not be read counts by its name."""
        self.folders = tuple(folders)
        # The stamps first: a change in between is then seen later, and not never.
        self._stamps = dict(_stamps(self.folders))
        self.sha256 = tree_sha256(self.folders)

    def change(self, read: Iterable[Path]) -> str | None:
        """What is no longer as it was, in words, after a compile that read these headers.

        Folders tell by their times what was added, removed or replaced; only of files written in place those that
        were read matter. All is read again only where one of these differs.
        """
        before = self._stamps
        looked_at = (*(name for name in before if name.endswith("/")), *map(str, read))
        differing = next((name for name in looked_at if _stamp(name) != before.get(name)), None)
        if differing is None:
            return None
        now = dict(_stamps(self.folders))
        if tree_sha256(self.folders) != self.sha256:
            return f"{differing} (headers of the compiler) has changed since the worker started"
        self._stamps = now
        return None


def _stamps(folders: Sequence[Path]) -> Iterator[tuple[str, _Stamp]]:
    """Everything below the folders; names of folders end with a slash."""
    for top in folders:
        if not any(other in top.parents for other in folders):
            for folder, _, names in os.walk(top):
                for name in (f"{folder}/", *(f"{folder}/{name}" for name in names)):
                    yield name, _stamp(name)


def _stamp(name: str) -> _Stamp:
    try:
        found = Path(name).stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
