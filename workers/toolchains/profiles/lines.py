"""On which line of a TOML file a key stands; tomllib tells lines of syntax errors only."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence

#: Lists and tables inside each other; a profile uses three. tomllib calls itself for each.
MAX_DEPTH = 64

_TOKEN = re.compile(
    r'#[^\n]*|"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|[\[{\]}\n]',
    re.DOTALL,
)


def beginnings(text: str) -> list[int]:
    """How many lines stand before each place where a statement may begin, and how many there are in all.

    Raises:
        ValueError: lists or tables are nested too deep to be read.
    """
    counts, depth, line = [0], 0, 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth > MAX_DEPTH:
            raise ValueError(f"line {line + 1} is nested more than {MAX_DEPTH} levels deep")
        line += token.count("\n")
        if token == "\n" and depth == 0:
            counts.append(line)
    return [*counts, text.count("\n") + 1]


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, counted from 1, on which the statement begins that brings the thing at ``path``.

    Of a list's items it is the list's, of what is not there that of the last table or key that is. The file is one
    that tomllib reads. Found by reading its beginnings: the shortest that holds the key ends with the key.
    """
    lines, counts = [f"{line}\n" for line in text.split("\n")], beginnings(text)
    document = tomllib.loads(text)
    there = [step for at, step in enumerate(path) if isinstance(step, str) and _holds(document, path[: at + 1])]

    def holds(count: int) -> bool:
        return _holds(tomllib.loads("".join(lines[:count])), there)

    return counts[max(0, bisect_left(counts, True, key=holds) - 1)] + 1


def _holds(document: object, path: Sequence[str | int]) -> bool:
    for step in path:
        if isinstance(step, int):
            continue
        if not isinstance(document, dict) or step not in document:
            return False
        document = document[step]
    return True
