"""On which line of a TOML file a key stands; tomllib tells lines of syntax errors only."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, counted from 1, on which the statement begins that brings the thing at ``path``.

    Of a list's items it is the list's, of what is not there that of the last table or key that is. The file is one
    that tomllib reads. Found by reading its beginnings: the shortest that holds the key ends with the key.
    """
    lines = [f"{line}\n" for line in text.split("\n")]
    document = tomllib.loads(text)
    there = [step for at, step in enumerate(path) if isinstance(step, str) and _holds(document, path[: at + 1])]
    without, holding = 0, len(lines)  # beginnings of so many lines, one without and one with the key
    while (middle := _readable_between(lines, without, holding)) is not None:
        if _holds(_read(lines[:middle]), there):
            holding = middle
        else:
            without = middle
    return without + 1


def _readable_between(lines: Sequence[str], low: int, high: int) -> int | None:
    """The number of lines nearest to the middle whose beginning does not end within a value."""
    nearest = sorted(range(low + 1, high), key=lambda count: abs(2 * count - low - high))
    return next((count for count in nearest if _read(lines[:count]) is not None), None)


def _read(lines: Sequence[str]) -> dict[str, object] | None:
    try:
        return tomllib.loads("".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _holds(document: object, path: Sequence[str | int]) -> bool:
    for step in path:
        if isinstance(step, int):
            continue
        if not isinstance(document, dict) or step not in document:
            return False
        document = document[step]
    return True
