"""Small files in a node's folders that appear whole or not at all, however many processes write them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Put a file in place of the one that is there; the last writer wins."""
    with _beside(path, data) as beside:
        beside.replace(path)


def create(path: Path, data: bytes, mode: int) -> None:
    """Make a file that is not there, with exactly this mode.

    Raises:
        FileExistsError: something is there; it is not touched.
    """
    with _beside(path, data) as beside:
        beside.chmod(mode)
        path.hardlink_to(beside)


@contextmanager
def _beside(path: Path, data: bytes) -> Iterator[Path]:
    beside = path.with_name(f".{path.stem}-{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o640), "wb") as file:
            file.write(data)
        yield beside
    finally:
        beside.unlink(missing_ok=True)
