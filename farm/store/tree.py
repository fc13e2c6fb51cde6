"""Lists a store's folder as the disk has it: what obstore hides is there, what lies behind symlinks is not.

obstore hides the parts of objects that a killed writer left (``<path>#1``), and follows symlinks, also out of the
store. What is listed here may be deleted, so it is only what lies in the store itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def files_below(root: Path) -> Iterator[str]:
    """The regular files below a folder, as posix paths relative to it, in no order.

    Raises:
        OSError: a folder can not be read; a list with a hole would be taken for the whole.
    """
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            rows = os.scandir(root / folder)
        except FileNotFoundError:
            if not folder:
                raise
            continue  # removed meanwhile
        with rows:
            for row in rows:
                if row.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{row.name}/")
                elif row.is_file(follow_symlinks=False):
                    yield f"{folder}{row.name}"


def look_again(root: Path, path: str) -> None:
    """Read each folder above a path that was not found.

    A network filesystem remembers for up to a minute that a name was not there, also one that has been made since;
    opening its folder has it ask the server.
    """
    for parent in reversed(PurePosixPath(path).parents):
        with suppress(OSError), os.scandir(root / parent) as rows:
            next(rows, None)
