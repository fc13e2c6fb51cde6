"""What each entry of a kernel folder measures, remembered in one file so that only new entries are measured.

A row is the entry's inode, which is another one when the entry was replaced, and its bytes: those of its files as
``local ls`` counts them. The file may be lost or damaged at any time; then all entries are measured.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from farm.client import entry, smallfile

_KEY = re.compile(r"[0-9a-f]{64}")


def measure(folder: Path, remembered: Path) -> dict[str, int]:
    """The farm's entries in the folder of a processor type: key in hex to bytes. By one process at a time."""
    known = _read(remembered)
    rows: dict[str, tuple[int, int]] = {}
    with os.scandir(folder) as scan:
        for row in scan:
            if _KEY.fullmatch(row.name):
                match known.get(row.name):
                    case [inode, int(size)] if inode == row.inode():
                        rows[row.name] = inode, size
                    case _ if (measured := _size_bytes(folder / row.name)) is not None:
                        rows[row.name] = row.inode(), measured
    if {key: [*row] for key, row in rows.items()} != known:
        smallfile.replace(remembered, json.dumps(rows).encode())
    return {key: size for key, (_, size) in rows.items()}


def _size_bytes(path: Path) -> int | None:
    """None: it is not the farm's, or was removed a moment ago."""
    try:
        return sum(entry.sizes_bytes(path)) if entry.is_ours(path) else None
    except FileNotFoundError:
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        rows = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}
