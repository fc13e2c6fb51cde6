"""Words of a command line with placeholders: ``--soc_version={soc}``; a brace of its own is written twice."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from farm.request.values import printable, shown

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def placeholders(word: str, known: Collection[str]) -> set[str]:
    """The placeholders of a word.

    Raises:
        ValueError: one is not known, or a brace stands alone; says what is valid.
    """
    found = set()
    for token in _TOKEN.finditer(word):
        if token[0] in "{}":
            raise ValueError(f"a single {token[0]} in {shown(word)}: write {token[0] * 2} for the character itself")
        if token[1] is None:
            continue
        if token[1] not in known:
            valid = " ".join(f"{{{name}}}" for name in known) or "none here"
            raise ValueError(f"unknown placeholder {printable(token[0])} in {shown(word)}; valid: {valid}")
        found.add(token[1])
    return found


def fill(word: str, values: Mapping[str, str]) -> str:
    """The word with each placeholder replaced once: what is put in for one is not searched for others."""
    return _TOKEN.sub(lambda token: token[0][0] if token[1] is None else values[token[1]], word)
