"""What runs before this one have found: it only saves time, and may be thrown away (``make clean``)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Judge:
    """A test: how long it takes, what it runs, and whether it is any good as a judge."""

    seconds: float = 0.0
    reached: list[str] = field(default_factory=list)
    passes: bool = True


class Memory:
    """Who killed a mutant, and what tests reach, as long as neither they nor the farm's Python has changed."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.killers: dict[str, str] = self._rows.setdefault("killers", {})
        shared = [*Path("farm").rglob("*.py"), *Path("tests/support").rglob("*.py"), *_helpers(Path("tests/lua"))]
        self._common = kind.encode() + _digest(sorted(shared))

    def judge(self, test: str) -> Judge | None:
        """What is known of a test, if it is still so."""
        row = self._rows.get("tests", {}).get(test)
        return Judge(**row["judge"]) if row and row["of"] == self._of(test) else None

    def keep(self, judges: dict[str, Judge]) -> None:
        """Remember; a test that failed is asked again."""
        good = {test: judge for test, judge in judges.items() if judge.passes}
        self._rows.setdefault("tests", {}).update(
            {test: {"of": self._of(test), "judge": asdict(judge)} for test, judge in good.items()}
        )
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(self._rows, indent=0))

    def _of(self, test: str) -> str:
        file = Path(test.partition("::")[0])
        return (self._common + _digest([file, *sorted(_helpers(file.parent))])).hex()


def _helpers(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*.py") if not one.name.startswith("test_")]


def _digest(files: Iterable[Path]) -> bytes:
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.digest()[:8]
