"""What each entry of a kernel folder measures, remembered in one file so that only new entries are measured.

A row is ``{"<key> <inode>": bytes}``: an entry that was replaced has another inode; its bytes are those of its files,
as ``local ls`` counts them. The file may be lost or damaged at any time; then all entries are measured.
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
    rows: dict[str, int] = {}
    with os.scandir(folder) as scan:
        for row in scan:
            if not _KEY.fullmatch(row.name):
                continue
            name = f"{row.name} {row.inode()}"
            size = known.get(name)
            if type(size) is not int:
                size = _size_bytes(folder / row.name)
            if size is not None:
                rows[name] = size
    if rows != known:
        smallfile.replace(remembered, json.dumps(rows).encode())
    return {name.partition(" ")[0]: size for name, size in rows.items()}


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
