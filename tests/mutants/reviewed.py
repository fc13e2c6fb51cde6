"""Mutants that no test can notice, each with the reason; the list is read by whoever doubts it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.mutant import Mutant

LIST = Path(__file__).with_name("equivalent.toml")


def reviewed() -> dict[str, str]:
    """The reason of each, by the mutant's name."""
    rows = tomllib.loads(LIST.read_text()).get("equivalent", [])
    return {f"{row['file']}: {row['line']}: {row['change']}": row["why"] for row in rows}


def is_of(name: str, files: Iterable[str]) -> bool:
    """Whether a mutant is one of these files'."""
    return name.partition(": ")[0] in set(files)


def entry(mutant: Mutant) -> str:
    """What to write into the list for a mutant, but for the reason."""
    return (
        f"[[equivalent]]\nfile = {mutant.file!r}\nline = '''{mutant.line}'''\nchange = '''{mutant.change}'''\nwhy = ''"
    )
