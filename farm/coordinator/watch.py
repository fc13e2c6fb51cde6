"""Notices gaps in which nobody could renew a lease: then everything that lives is held for a while.

A gap is more than 10 s between two ticks (the server was away, or this process was), another run of the server,
or a leader before us whose lease ended long ago. So an outage of any length costs no one an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

GAP_MS = 10_000
#: A tick that takes longer is a gap anyway.
_TICK_AT_MOST_MS = 60_000


@dataclass(slots=True)
class Watch:
    """What the last tick of any leader saw; kept in the index, so that a standby sees the gap too."""

    server: Any
    row: str
    #: Of one leader: what the tick that it is in looked at.
    own_row: str
    _now_ms: int = 0

    def look(self, now_ms: int) -> str | None:
        """Say what kind of gap lies between the last tick and this one; None when there is none."""
        run_id, self._now_ms = self.server.info("server")["run_id"], now_ms
        before_ms, before_run = self.server.hmget(self.row, "tick_ms", "run_id")
        with self.server.pipeline() as both:
            both.hset(self.own_row, mapping={"tick_ms": now_ms, "run_id": run_id})
            both.pexpire(self.own_row, _TICK_AT_MOST_MS)
            both.execute()
        if before_ms is None:
            return "first tick"
        if before_run.decode() != run_id:
            return "another run of the server"
        if now_ms - int(before_ms) > GAP_MS:
            return f"no tick for {(now_ms - int(before_ms)) / 1000:.0f} s"
        return None

    def seen(self) -> None:
        """This tick was made; called when the hold, if one was needed, is written.

        What it looked at takes the place of what the last one did, if it is still there: a server that was restarted
        or emptied meanwhile is still to be noticed. A leader that was paused in its tick does not turn time back for
        the one that took over.
        """
        if int(self.server.hget(self.row, "tick_ms") or 0) > self._now_ms:
            return
        try:
            with self.server.pipeline() as both:
                both.rename(self.own_row, self.row)
                both.persist(self.row)
                both.execute()
        except ResponseError:  # emptied: the next tick is a first one
            return
