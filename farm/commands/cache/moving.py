"""What export and import share: how far they are, on stderr, and the standard streams in place of a file."""

from __future__ import annotations

import sys
import time
from typing import BinaryIO

from farm.commands.cache.group import size
from farm.errors import InputError

_EVERY_SECONDS = 5.0


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"farm: {text}\n")


class Ticker:
    """Says every few seconds how far a long run is."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _EVERY_SECONDS

    def __call__(self, entries: int, stored_bytes: int) -> None:
        """Say it, if it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            say(f"{entries} entries {self._what}, {size(stored_bytes)}")


def standard(stream: str) -> BinaryIO:
    """``stdin`` or ``stdout`` for an archive. Raises InputError when it is a terminal."""
    file = getattr(sys, stream)
    if file.isatty():
        raise InputError(f"{stream} is a terminal, no place for an archive", fix="give a file, or use a pipe")
    binary: BinaryIO = file.buffer
    return binary
