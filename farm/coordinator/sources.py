"""Deletes sources that no claim can name any more: a whole epoch at a time, once it is closed and no claim carries it.

The order makes it safe, not a lock. That an epoch is closed is read first: from then on no new claim can carry it,
so the epochs that claims carry, which are read afterwards, only grow fewer. A path of a dead epoch is never used
again, so a leader that was paused in between deletes, however late, nothing that is needed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from farm.coordinator.space import CHUNK
from farm.index.index import Index
from farm.index.sources import SourceEpochs
from farm.store.store import Store

logger = logging.getLogger(__name__)

_DELETE_THREADS = 8


class SourceCare:
    """The collection of sources; it remembers since when an epoch was seen to be dead."""

    def __init__(
        self, epochs: SourceEpochs, store: Store, indexes: Callable[[], Sequence[Index]], grace_seconds: float
    ) -> None:
        self._epochs = epochs
        self._store = store
        self._indexes = indexes
        self._grace_seconds = grace_seconds
        self._dead_since: dict[int, float] = {}

    def collect(self, found: Mapping[int, Sequence[str]]) -> Iterator[None]:
        """Delete what is dead of the sources that were found, a chunk a step; a new epoch begins when it is due.

        An epoch goes only when it was dead already a grace ago: a server that was restored from a snapshot of some
        seconds ago has claims that had ended.
        """
        closed_before = self._epochs.closed_before()
        if closed_before in found:
            self._epochs.turn(closed_before)
        closed = {epoch for epoch in found if epoch < closed_before}
        carried = {epoch for index in self._indexes() for epoch in index.source_epochs()} if closed else set()
        yield
        now = time.monotonic()
        self._dead_since = {epoch: self._dead_since.get(epoch, now) for epoch in closed - carried}
        for epoch, since in self._dead_since.items():
            if now - since >= self._grace_seconds:
                yield from self._delete(found[epoch])

    def _delete(self, paths: Sequence[str]) -> Iterator[None]:
        for at in range(0, len(paths), CHUNK):
            with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="farm-sources") as pool:
                list(pool.map(self._store.delete, paths[at : at + CHUNK]))
            yield
        logger.info("%d sources that no claim can name any more are deleted", len(paths))
