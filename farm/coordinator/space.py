"""One namespace under the coordinator's care, and what all its jobs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.registry import Registry
from farm.settings import Settings
from farm.store.store import Store

#: Entries, keys or notices that one call handles, and calls of one job in one tick: about 20 ms of the server's
#: time at most, so that others' asks in between hardly wait.
CHUNK = 250
CALLS_A_TICK = 20
#: Of each job that talks to the store, in one tick: the leader's lease must outlast the tick.
STORE_SECONDS_A_TICK = 0.5


@dataclass(frozen=True)
class Space:
    """One namespace, as the jobs of a tick see it."""

    index: Index
    store: Store
    registry: Registry
    settings: Settings
    #: Sends compile messages: queue and how many.
    send: Callable[[str, int], None]
    #: Whether no message of a queue waits at the broker.
    is_drained: Callable[[str], bool]

    @property
    def rules(self) -> RetryRules:
        """How attempts are counted and failures told."""
        return RetryRules.of(self.settings)


def hold(space: Space) -> None:
    """Judge nobody in this namespace for one lease of what could not be renewed."""
    settings = space.settings
    space.index.hold(round(settings.claim_lease_seconds * 1000), round(settings.job_lease_seconds * 1000))
