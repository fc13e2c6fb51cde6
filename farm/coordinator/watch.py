"""Notices gaps in which nobody could renew a lease: then everything that lives is held for a while.

A gap is more than 10 s between two ticks (the server was away, or this process was), another run of the server,
or a leader before us whose lease ended long ago. So an outage of any length costs no one an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GAP_MS = 10_000


@dataclass(slots=True)
class Watch:
    """What the last tick of any leader saw; kept in the index, so that a standby sees the gap too."""

    server: Any
    row: str
    _run_id: str = ""

    def look(self, now_ms: int) -> str | None:
        """Say what kind of gap lies between the last tick and this one; None when there is none."""
        run_id = self._run_id = self.server.info("server")["run_id"]
        before_ms, before_run = self.server.hmget(self.row, "tick_ms", "run_id")
        if before_ms is None:
            return "first tick"
        if before_run.decode() != run_id:
            return "another run of the server"
        if now_ms - int(before_ms) > GAP_MS:
            return f"no tick for {(now_ms - int(before_ms)) / 1000:.0f} s"
        return None

    def seen(self, now_ms: int) -> None:
        """This tick was made; called when the hold, if one was needed, is written.

        With the run that it looked at: a server that was restarted meanwhile is still to be noticed. A leader that
        was paused in its tick does not turn time back for the one that took over.
        """
        before_ms = int(self.server.hget(self.row, "tick_ms") or 0)
        self.server.hset(self.row, mapping={"tick_ms": max(now_ms, before_ms), "run_id": self._run_id})
