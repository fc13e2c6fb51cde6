"""What happened, a line for each call and event; its hash says whether two runs were the same."""

from __future__ import annotations

import hashlib
from typing import Any

import redis

from tests.sim.scheduler import Process, Scheduler
from tests.sim.server import SimServer

_TAIL_LINES = 60
_ABOUT_LINES = 60


class Trace:
    """The lines of a run: virtual seconds, who, what, with which keys, and what came of it."""

    def __init__(self, scheduler: Scheduler, keep: bool = True) -> None:
        self._scheduler = scheduler
        self._keep = keep
        self.lines: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)

    def digest(self) -> str:
        """The same for the same seed."""
        return self._hash.hexdigest()

    def event(self, who: str, text: str) -> None:
        """Something happened that is no call."""
        if self._keep:
            line = f"{self._scheduler.now_ms / 1000:10.3f} {who:<12} {text}"
            self.lines.append(line)
            self._hash.update(line.encode())

    def call(self, process: Process, calls: list[tuple[Any, ...]], server: SimServer, said: Any) -> None:
        """Calls that travelled together."""
        if not self._keep:
            return
        names = [server.name_of(call) for call in calls]
        what = names[0] if len(names) == 1 else f"{len(names)} x {names[0]}"
        with_what = [_short(argument) for call in calls[:3] for argument in call[4:-1]] if names[0].islower() else []
        if what.startswith(("X", "TIME")) and isinstance(said, list):  # of the server's own clock, which is not ours
            said = [len(said[0])]
        came = f"!! {said}" if isinstance(said, Exception) else f"-> {_short(said[0] if len(said) == 1 else said)}"
        self.event(process.name, f"{what} {' '.join(filter(None, with_what))[:200]} {came[:120]}")

    def tail(self, about: str = "") -> str:
        """The last lines, and before them those about a key or a job."""
        found = [line for line in self.lines[:-_TAIL_LINES] if about and about in line][-_ABOUT_LINES:]
        head = [f"... about {about}:", *found, "... the last lines:"] if found else []
        return "\n".join(head + self.lines[-_TAIL_LINES:])


def _short(value: Any) -> str:
    """Enough of a value to recognise it by: of a key, the digits that messages show."""
    match value:
        case bytes() if b":" in value[:12] and len(value) > 32:
            head, _, key = value.partition(b":")
            return f"{head.decode(errors='replace')}:{key.hex()[:12]}"
        case bytes() if len(value) == 32:
            return value.hex()[:12]
        case bytes() if len(value) > 60:
            return f"<{len(value)}>"
        case bytes():
            return value.decode(errors="replace")
        case str():
            return value if len(value) < 60 else f"<{len(value)}>"
        case list() | tuple():
            return "[" + " ".join(_short(one) for one in value[:6]) + "]"
        case dict():
            return f"{{{len(value)}}}"
        case set():
            return f"{{{len(value)}}}"
        case redis.ResponseError():
            return str(value)
        case _:
            return str(value)
