"""Lists a store's folder as the disk has it: what obstore hides is there, what lies behind symlinks is not.

obstore hides the parts of objects that a killed writer left (``<path>#1``), and follows symlinks, also out of the
store. What is listed here may be deleted, so it is only what lies in the store itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


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
