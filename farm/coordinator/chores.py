"""Long work in short steps: rebuilds and the search for orphans share one listing of the store, one at a time."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from farm.coordinator import rebuild
from farm.coordinator.rebuild import RebuildReport
from farm.coordinator.space import Space
from farm.index import names
from farm.namespace import Namespace
from farm.store.inventory import take_inventory
from farm.store.store import Store

logger = logging.getLogger(__name__)

ORPHANS_EVERY_SECONDS = 3600.0
_STEPS_A_TICK = 4


class Chores:
    """At most one rebuild or search under way, a few steps of it a tick."""

    def __init__(self, server: Any, store: Store, space: Callable[[Namespace], Space]) -> None:
        self._server = server
        self._store = store
        self._space = space
        self._work: Iterator[None] | None = None
        self._rebuild_wanted = False
        self._next_search = time.monotonic() + ORPHANS_EVERY_SECONDS

    def want_rebuild(self) -> None:
        """Ask for a rebuild of everything, as soon as no other work is under way."""
        self._rebuild_wanted = True

    def step(self, held: bool) -> None:
        """Do a little of what there is to do; while entries are held, nothing is called an orphan."""
        if self._work is None:
            self._work = self._next_work(held)
        for _ in range(_STEPS_A_TICK):
            if self._work is None:
                return
            try:
                next(self._work)
            except StopIteration:
                self._work = None

    def _next_work(self, held: bool) -> Iterator[None] | None:
        asked, done = self._server.hmget(names.CHORES, "rebuild_asked", "rebuild_done")
        if self._rebuild_wanted or (asked and asked != done):
            self._rebuild_wanted = False
            return self._rebuild(asked)
        if not held and time.monotonic() >= self._next_search:
            self._next_search = time.monotonic() + ORPHANS_EVERY_SECONDS
            return self._search()
        return None

    def _rebuild(self, ask: bytes | None) -> Iterator[None]:
        total = RebuildReport()
        for namespace, shelf in take_inventory(self._store).items():
            self._server.sadd(names.NAMESPACES, str(namespace))
            report = RebuildReport()
            yield from rebuild.rebuild(self._space(namespace), shelf, report)
            total.adopted += report.adopted
            total.dropped_rows += report.dropped_rows
            total.damaged += report.damaged
            logger.info(
                "rebuilt %s: %d bundles adopted, %d rows without bundle dropped, %d bundles damaged",
                namespace, report.adopted, report.dropped_rows, len(report.damaged),
            )  # fmt: skip
        figures = {"rebuild_adopted": total.adopted, "rebuild_dropped": total.dropped_rows}
        figures["rebuild_damaged"] = len(total.damaged)
        self._server.hset(names.CHORES, mapping=figures)
        if ask:
            self._server.hset(names.CHORES, "rebuild_done", ask)

    def _search(self) -> Iterator[None]:
        for namespace, shelf in take_inventory(self._store).items():
            condemned = rebuild.condemn_orphans(self._space(namespace), shelf)
            if condemned:
                logger.info("%s: %d objects that nothing knows are condemned", namespace, condemned)
            yield


def ask_rebuild(server: Any) -> str:
    """Ask the leader for a rebuild. Returns the id by which its end is known."""
    ask = secrets.token_hex(8)
    server.hset(names.CHORES, "rebuild_asked", ask)
    server.publish(names.WAKE_CHANNEL, "rebuild")
    return ask
