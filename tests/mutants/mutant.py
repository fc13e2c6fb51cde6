"""One small change to one file of the farm, after which some test must fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is replaced where. Its name, ``file: line: change``, outlives edits elsewhere in the file."""

    file: str
    start: int
    end: int
    new: str
    line: str
    change: str

    @property
    def name(self) -> str:
        """By which a reviewed list and the memory of earlier runs know it."""
        return f"{self.file}: {self.line}: {self.change}"

    def write(self, root: Path, text: str) -> None:
        """Put the changed file into a copy of the farm."""
        (root / self.file).write_text(text[: self.start] + self.new + text[self.end :])


def mutant(file: str, text: str, start: int, end: int, new: str, change: str) -> Mutant:
    """A change of ``text[start:end]``; its line is the one in which it begins."""
    first = text.rfind("\n", 0, start) + 1
    line = text[first : (text.find("\n", start) + len(text) + 1) % (len(text) + 1)]
    return Mutant(file, start, end, new, line.strip(), change)


def quoted(text: str) -> str:
    """A piece of source as one short line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
