"""Where sources lie in the store: content addressed, and apart by the epoch in which they were put."""

from __future__ import annotations

import re

FOLDER = "sources"
_PATH = re.compile(rf"{FOLDER}/[0-9a-f]{{64}}-([1-9][0-9]{{0,17}})(#[0-9]+)?", re.ASCII)


def source_path(sha256: bytes, epoch: int) -> str:
    """The path of a source, relative to the store's root; never used again once its epoch is over."""
    return f"{FOLDER}/{sha256.hex()}-{epoch}"


def epoch_of(path: str) -> int | None:
    """The epoch of a source, or of what a killed writer left of one (``#``); None for anything else."""
    found = _PATH.fullmatch(path)
    return int(found[1]) if found else None
