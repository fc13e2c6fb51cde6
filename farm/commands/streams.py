"""The standard streams of a command, whatever they are: the work does not depend on who can read along."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_LAST_STANDARD = 2


class _Lossy(io.FileIO):
    """What can not be written here is lost, and nothing else is."""

    def write(self, data: ReadableBuffer, /) -> int:
        """All of it, as far as the writer can tell; a pipe that is full for now (None) is no better than none."""
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes


def settle() -> None:
    """Make the streams usable: a closed stdin is empty, a closed stdout has no reader, and stderr never fails.

    Names that the terminal's locale has no letters for are shown with escapes on stdout, too.
    """
    _take_standard_numbers()
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - as long as the process
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = open(writer, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - likewise
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is sys.__stderr__:  # not yet, and nobody else has put another one there
        number = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
        encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
        buffer = io.BufferedWriter(_Lossy(number, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=True)


def _take_standard_numbers() -> None:
    """A file that is opened later must not become a standard stream of this process or of its children."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(number, True)
    os.close(number)
