"""Who leads the farm's coordinators: a lease in the index, renewed every tick, with a term for each new leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from farm.index import names
from farm.index.scripts import Scripts


@dataclass(frozen=True, slots=True)
class Leader:
    """The coordinator that leads, until when (ms of the server's clock), and in which term."""

    name: str
    deadline_ms: int
    term: int


class Leadership:
    """The leader's lease. Nothing depends on there being only one: it saves work, and readers a muddle."""

    def __init__(self, server: redis.Redis, now_ms: int | None = None) -> None:
        self.server: Any = server
        self.scripts = Scripts(server, names.FARM + "meta")
        self.now_ms = now_ms

    def lead(self, candidate: str, lease_ms: int) -> Leader:
        """Become the leader or stay it, if nobody else's lease runs; safe to repeat. Returns who leads now."""
        name, deadline_ms, term = self.scripts.run("lead", candidate, lease_ms, now_ms=self.now_ms)
        return Leader(name.decode(), int(deadline_ms), int(term))

    def step_down(self, candidate: str) -> None:
        """Let a standby take over at once; safe to repeat."""
        self.scripts.run("lead", candidate, 0, now_ms=self.now_ms)

    def current(self) -> Leader | None:
        """Who leads; None when nobody's lease runs."""
        name, deadline_ms, term = self.server.hmget(names.LEADER, "name", "deadline_ms", "term")
        if name is None or int(deadline_ms) <= self._now():
            return None
        return Leader(name.decode(), int(deadline_ms), int(term))

    def _now(self) -> int:
        if self.now_ms is not None:
            return self.now_ms
        seconds, microseconds = self.server.time()
        return int(seconds) * 1000 + int(microseconds) // 1000
