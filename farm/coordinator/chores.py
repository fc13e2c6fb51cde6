"""Long work in short steps: rebuilds, and the search for orphans and old sources, one at a time."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from farm.coordinator import rebuild
from farm.coordinator.rebuild import RebuildReport
from farm.coordinator.sources import SourceCare
from farm.coordinator.space import STORE_SECONDS_A_TICK, Space
from farm.index import names
from farm.namespace import Namespace
from farm.store.inventory import Inventory, take_inventory
from farm.store.store import Store

logger = logging.getLogger(__name__)

ORPHANS_EVERY_SECONDS = 3600.0
_LIST_SECONDS_A_STEP = 0.1


class Chores:
    """At most one rebuild or search under way, a few steps of it a tick."""

    def __init__(self, server: Any, store: Store, space: Callable[[Namespace], Space], sources: SourceCare) -> None:
        self._server = server
        self._store = store
        self._space = space
        self._sources = sources
        self._work: Iterator[None] | None = None
        self._next_search = time.monotonic() + ORPHANS_EVERY_SECONDS

    def want_rebuild(self) -> None:
        """Ask for a rebuild of everything, as soon as no other work is under way; outlives this leader."""
        self._server.hset(names.CHORES, "rebuild_asked", secrets.token_hex(8))

    def step(self, held: bool) -> None:
        """Do a little of what there is to do; while entries are held, nothing is called an orphan."""
        if self._work is None:
            self._work = self._next_work(held)
        until = time.monotonic() + STORE_SECONDS_A_TICK
        while self._work is not None and time.monotonic() < until:
            try:
                next(self._work)
            except StopIteration:
                self._work = None

    def _next_work(self, held: bool) -> Iterator[None] | None:
        asked, done = self._server.hmget(names.CHORES, "rebuild_asked", "rebuild_done")
        if asked != done:
            return self._rebuild(asked)
        if not held and time.monotonic() >= self._next_search:
            self._next_search = time.monotonic() + ORPHANS_EVERY_SECONDS
            return self._search()
        return None

    def _inventory(self) -> Generator[None, None, Inventory]:
        """List the store beside the ticks: a million objects take longer than a leader's lease."""
        with ThreadPoolExecutor(1, thread_name_prefix="farm-list") as pool:
            listing = pool.submit(take_inventory, self._store)
            while not wait([listing], _LIST_SECONDS_A_STEP).done:
                yield
        return listing.result()

    def _rebuild(self, ask: bytes) -> Iterator[None]:
        total = RebuildReport()
        inventory = yield from self._inventory()
        for namespace, shelf in inventory.shelves.items():
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
        self._server.hset(names.CHORES, "rebuild_done", ask)
        self._next_search = time.monotonic()  # what is neither an entry nor anybody's by now is an orphan

    def _search(self) -> Iterator[None]:
        inventory = yield from self._inventory()
        for namespace, shelf in inventory.shelves.items():
            total = 0
            for condemned in rebuild.condemn_orphans(self._space(namespace), shelf):
                total += condemned
                yield
            if total:
                logger.info("%s: %d objects that nothing knows are condemned", namespace, total)
        yield from self._sources.collect(inventory.sources)


def ask_rebuild(server: Any) -> str:
    """Ask the leader for a rebuild. Returns the id by which its end is known."""
    ask = secrets.token_hex(8)
    server.hset(names.CHORES, "rebuild_asked", ask)
    server.publish(names.WAKE_CHANNEL, "rebuild")
    return ask
