"""The store in memory: every process sees the same objects, and the same troubles, or some of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from greenlet import GreenletExit

from farm.errors import FarmUnavailable
from farm.store.errors import DiskFull, StoreMissing
from farm.store.store import Store
from tests.sim.scheduler import Process, Scheduler

URL = "sim://store"


class Shelf:
    """What lies in the store, and what is wrong with it now."""

    def __init__(self, scheduler: Scheduler, chance: random.Random) -> None:
        self.scheduler = scheduler
        self.chance = chance
        self.objects: dict[str, bytes] = {}
        #: Told of each object that is about to be deleted.
        self.watch: Callable[[str], None] = lambda path: None
        self.away_until_ms = 0
        #: When it did not answer: from, until.
        self.outages: list[tuple[int, int]] = []
        self.full_until_ms = 0

    def go_away(self, ms: int) -> None:
        """It does not answer for so long."""
        self.away_until_ms = self.scheduler.now_ms + ms
        self.outages.append((self.scheduler.now_ms, self.away_until_ms))

    def open(self, process: Process) -> Store:
        """The store as a process uses it."""
        return Store(URL, _Objects(self, process))


class _Objects:
    """As farm.store.objects.Objects."""

    def __init__(self, shelf: Shelf, process: Process) -> None:
        self._shelf = shelf
        self._process = process

    def get(self, path: str, at_most_bytes: int) -> bytes:
        self._travel()
        if path not in self._shelf.objects:
            raise StoreMissing(f"store {URL}: can not read {path}: there is no such object")
        return self._shelf.objects[path]

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._travel()
        except GreenletExit:
            if self._shelf.chance.random() < 0.3:  # killed in the middle: what is there already has another name
                self._shelf.objects[f"{path}#1"] = data[: len(data) // 2]
            raise
        if self._shelf.scheduler.now_ms < self._shelf.full_until_ms:
            raise DiskFull(f"disk of {URL} is full")
        return self._shelf.objects.setdefault(path, data) is data

    def replace(self, path: str, data: bytes) -> None:
        self._travel()
        self._shelf.objects[path] = data

    def exists(self, path: str) -> bool:
        self._travel()
        return path in self._shelf.objects

    def names(self, folder: str) -> list[str]:
        self._travel()
        above = f"{folder}/" if folder else ""
        return [path.removeprefix(above) for path in self._shelf.objects if path.startswith(above)]

    def delete(self, path: str) -> None:
        self._travel()
        self._shelf.watch(path)
        self._shelf.objects.pop(path, None)

    def _travel(self) -> None:
        scheduler = self._shelf.scheduler
        scheduler.wait(self._shelf.chance.randrange(1, 10))
        if scheduler.now_ms < self._shelf.away_until_ms:
            scheduler.wait(1000)
            raise FarmUnavailable(f"store {URL}: does not answer")
