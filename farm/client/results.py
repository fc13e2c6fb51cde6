"""What a submission gets back: one result an operator, and the progress on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from farm.index.outcomes import Failure

Outcome = Literal["hit", "compiled", "joined", "failed", "pending"]


@dataclass(frozen=True)
class OperatorError:
    """Why an operator has no kernel; ``remembered`` when an earlier submission ran into it."""

    failure: Failure
    remembered: bool = False

    def to_json(self) -> dict[str, Any]:
        """As it stands in a command's JSON (docs/running.md)."""
        return {
            "kind": self.failure.kind,
            "message": self.failure.message,
            "log_tail": self.failure.log_tail,
            "remembered": self.remembered,
        }


@dataclass(frozen=True)
class Result:
    """One operator's answer: files by name in the node's cache folder, or an error; never an exception."""

    name: str
    key: str
    soc: str
    outcome: Outcome
    files: Mapping[str, Path] = field(default_factory=dict)
    #: Of the compile that made it, whoever asked for that.
    compile_seconds: float | None = None
    error: OperatorError | None = None

    def to_json(self) -> dict[str, Any]:
        """The form of an element of ``ops`` in submit's JSON."""
        return {
            "name": self.name,
            "key": self.key,
            "soc": self.soc,
            "outcome": self.outcome,
            "files": {name: str(path) for name, path in self.files.items()},
            "compile_seconds": self.compile_seconds,
            "error": self.error.to_json() if self.error else None,
        }


@dataclass(frozen=True)
class Progress:
    """A moment of a submission; ``result`` is the operator that was just answered, if one was."""

    total: int
    counts: Mapping[Outcome, int]
    #: Names of operators that are being compiled now.
    compiling: tuple[str, ...] = ()
    result: Result | None = None
    #: Something the user should see: the farm was lost, a bundle was bad, a toolchain has no worker.
    notice: str | None = None


def count(results: list[Result]) -> dict[Outcome, int]:
    """How many results there are of each outcome."""
    counts: dict[Outcome, int] = {"hit": 0, "compiled": 0, "joined": 0, "failed": 0, "pending": 0}
    for result in results:
        counts[result.outcome] += 1
    return counts
