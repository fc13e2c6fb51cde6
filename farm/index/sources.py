"""Epochs of sources: which of the store's sources some claim may still name, without a count for each of them.

Sources are put into the epoch in force, under a lease on it, and a claim that is made under that lease carries the
epoch. Once the epoch is over and the last lease on it has ended, no new claim can carry it; once no claim does, all
its sources are garbage for good, and whoever deletes them late deletes nothing that is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import redis

from farm.index import names
from farm.index.scripts import Scripts

#: How long after looking up the epoch its sources may be named by new claims.
SOURCE_LEASE_MS = 900_000


@dataclass(frozen=True, slots=True)
class SourceLease:
    """The epoch in force, and until when (ms of the server's clock) claims may be made with its sources."""

    epoch: int
    until_ms: int


class SourceEpochs:
    """The farm's one number; it follows the server's clock, so that it grows also on a server that lost it."""

    def __init__(self, server: redis.Redis, now_ms: int | None = None) -> None:
        self.scripts = Scripts(server, names.FARM + "meta")
        #: Time under test; None: the server's clock.
        self.now_ms = now_ms

    def lease(self) -> SourceLease:
        """The epoch in force, opened if there is none; safe to repeat. Put sources after this, not before."""
        epoch, now_ms = self._look(0)
        return SourceLease(epoch, now_ms + SOURCE_LEASE_MS)

    def closed_before(self) -> int:
        """Earlier epochs than this are over, and so are all leases on them; 0 for none."""
        epoch, now_ms = self._look(0)
        return epoch if now_ms >= epoch + SOURCE_LEASE_MS else 0

    def turn(self, over: int) -> int:
        """Open the next epoch, if ``over`` is the one in force; twice is as once. Returns the one in force."""
        return self._look(over)[0]

    def _look(self, over: int) -> tuple[int, int]:
        epoch, now_ms = self.scripts.run("source_epoch", over, now_ms=self.now_ms)
        return int(epoch), int(now_ms)
