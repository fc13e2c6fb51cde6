"""What a toolchain is: it says which command to run for a request, and what that must leave.

Running it, its limits and the judgement of what came out are the runner's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from farm.index.outcomes import Failure
from farm.request.model import Request
from farm.request.options import OptionSpec
from workers.scratch import Scratch


def no_objection() -> Failure | None:
    """The review of a command that leaves nothing to check."""
    return None


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a compiler: what is executed, and which files it must leave in the out folder."""

    argv: tuple[str, ...]
    #: The whole environment; nothing of the worker's own is added.
    env: Mapping[str, str]
    cwd: Path
    #: Patterns below the out folder, each of which must match a file.
    outputs: tuple[str, ...]
    #: Asked after a run that went well: anything that shaped the output and is not in the key?
    review: Callable[[], Failure | None] = no_objection
    #: A wall-clock limit of its own, which holds when it is less than the worker's.
    timeout_seconds: float | None = None


class Toolchain(Protocol):
    """One compiler as this worker has it."""

    @property
    def name(self) -> str:
        """The toolchain's name in requests, for example ``host``."""

    @property
    def version(self) -> str:
        """For people, and to find the highest one."""

    @property
    def fingerprint(self) -> str:
        """64 hex digits: sha256 over everything in it that shapes the output."""

    @property
    def socs(self) -> tuple[str, ...]:
        """The processor types it compiles for; empty: any name."""

    @property
    def schema(self) -> Mapping[str, OptionSpec]:
        """The options it understands."""

    def command(self, request: Request, scratch: Scratch) -> Command | Failure:
        """What to run for a request whose files lie in ``scratch``; a Failure when it must not be run."""
