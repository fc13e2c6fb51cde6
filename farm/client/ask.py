"""One key that a submission asks for: which operators want it, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from farm.client.part import Part
from farm.client.results import OperatorError, Outcome, Result
from farm.index.jobs import Scope
from farm.index.outcomes import Failure
from farm.index.registry import Offer
from farm.request.model import Request


@dataclass(eq=False)
class Ask:
    """A key, wanted by one or more operators of the submission; lives as long as the call to compile."""

    part: Part
    key: bytes
    request: Request
    offer: Offer
    #: Positions of the operators in the submission; several when they are the same but for their names.
    positions: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    outcome: Outcome = "hit"
    files: Mapping[str, Path] | None = None
    compile_seconds: float | None = None
    error: OperatorError | None = None
    #: Bundles of this key that were bad or gone: it is compiled again once, not for ever.
    bad_bundles: int = 0

    @property
    def scope(self) -> Scope:
        """Whose key it is: the namespace's, or the job's own."""
        return "private" if self.request.job_options.private else "shared"

    @property
    def done(self) -> bool:
        """Whether it has its answer."""
        return self.files is not None or self.error is not None

    def fail(self, failure: Failure, remembered: bool = False) -> None:
        """The final answer is a failure."""
        self.outcome, self.error = "failed", OperatorError(failure, remembered)

    def results(self) -> list[tuple[int, Result]]:
        """One result for each operator, with its position in the submission."""
        outcome: Outcome = self.outcome if self.done else "pending"
        seconds = self.compile_seconds
        return [
            (
                at,
                Result(name, self.key.hex(), self.request.soc, outcome, self.files or {}, seconds, self.error),
            )
            for at, name in zip(self.positions, self.names, strict=True)
        ]
