"""Long work: one at a time, asked for in the index, a little of it a tick."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from farm.coordinator import chores as module
from farm.coordinator.chores import Chores, ask_rebuild
from farm.coordinator.sources import SourceCare
from farm.coordinator.space import Space
from farm.errors import FarmUnavailable
from farm.index import names
from farm.index.index import Index
from farm.index.sources import SOURCE_LEASE_MS, SourceEpochs
from farm.namespace import Namespace
from farm.store.inventory import Inventory, take_inventory
from farm.store.store import Store
from tests.coordinator.desk import Desk
from tests.lua.world import key


class Work:
    """The chores of one leader."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.epochs = SourceEpochs(desk.server)
        self.care = SourceCare(self.epochs, desk.store, self.indexes, 0)
        self.chores = Chores(desk.server, desk.store, self.space, self.care)

    def space(self, namespace: Namespace) -> Space:
        return self.desk.space(namespace.soc, namespace.cache, listed=False)

    def indexes(self) -> Sequence[Index]:
        return [Index(self.desk.server, Namespace("default", "a"))]

    def done(self) -> str | None:
        found = self.desk.server.hget(names.CHORES, "rebuild_done")
        return found.decode() if found else None

    def step(self, held: bool = False) -> None:
        """Until nothing is under way."""
        self.chores.step(held)
        while self.chores._work:
            self.chores.step(held)


@pytest.fixture
def work(desk: Desk) -> Work:
    return Work(desk)


def test_a_rebuild_is_done_once_for_each_ask_by_whoever_leads(desk: Desk, work: Work) -> None:
    space = desk.space()
    desk.bundle(space, key(1))
    desk.bundle(space, key(2), damaged=True)
    desk.server.delete(names.NAMESPACES)
    work.step()
    assert desk.keys(space) == set()
    ask = ask_rebuild(desk.server)
    work.step()
    assert work.done() == ask
    assert desk.keys(space) == {key(1)}
    assert desk.server.smembers(names.NAMESPACES) == {b"default/a"}
    figures = desk.server.hmget(names.CHORES, "rebuild_adopted", "rebuild_dropped", "rebuild_damaged")
    assert figures == [b"1", b"0", b"1"]
    space.index.hold(0, 0)
    desk.bundle(space, key(3))
    Work(desk).step(held=True)
    assert desk.keys(space) == {key(1)}, "it was done already"
    work.chores.want_rebuild()
    Work(desk).step(held=True)
    assert desk.keys(space) == {key(1), key(3)}


def test_a_rebuild_reports_what_it_dropped(desk: Desk, work: Work) -> None:
    space = desk.space()
    desk.bundle(space, key(7))
    at = desk.put(space, [key(1)])[0]
    desk.store.delete(desk.path(space, at))
    ask_rebuild(desk.server)
    work.step()
    assert desk.server.hget(names.CHORES, "rebuild_dropped") == b"1"


def test_the_search_for_orphans_waits_its_time_and_for_the_end_of_a_hold(desk: Desk, work: Work) -> None:
    space = desk.space()
    desk.bundle(space, key(1))
    work.step()
    assert space.index.mark_deleting(0) == []
    work.chores._next_search = time.monotonic()
    work.step(held=True)
    assert space.index.mark_deleting(0) == []
    work.step()
    assert len(space.index.mark_deleting(0)) == 1
    desk.bundle(space, key(2))
    work.step()
    assert len(space.index.mark_deleting(0)) == 1, "the next one is due in an hour"


def test_after_a_rebuild_what_is_nobodys_is_searched_for_at_once(desk: Desk, work: Work) -> None:
    space = desk.space()
    desk.bundle(space, key(1), damaged=True)
    ask_rebuild(desk.server)
    work.step()
    desk.server.hset(f"{space.index.prefix}meta", "hold_until", 0)
    work.step()
    assert len(space.index.mark_deleting(0)) == 1


def test_the_search_collects_sources_of_closed_epochs(desk: Desk, work: Work) -> None:
    data = b"int main;" * 1000
    desk.space()
    desk.store.put_source(hashlib.sha256(data).digest(), 5, data)
    work.epochs.now_ms = 10
    work.epochs.lease()
    work.epochs.now_ms = 10 + SOURCE_LEASE_MS
    work.chores._next_search = time.monotonic()
    work.step()
    assert desk.store.names() == []


def test_a_chore_that_can_not_go_on_begins_anew(desk: Desk, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    space = desk.space()
    desk.bundle(space, key(1))
    ask = ask_rebuild(desk.server)

    def away(store: Store, path: str) -> bytes:
        raise FarmUnavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "get", away)
        with pytest.raises(FarmUnavailable):
            work.step()
    assert work.done() is None
    work.step()
    work.step()
    assert work.done() == ask
    assert desk.keys(space) == {key(1)}


def test_a_tick_does_only_as_much_as_its_time_allows(desk: Desk, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STORE_SECONDS_A_TICK", 0)
    desk.bundle(desk.space(), key(1))
    ask = ask_rebuild(desk.server)
    work.chores.step(False)
    assert work.chores._work is not None
    assert work.done() is None
    monkeypatch.setattr(module, "STORE_SECONDS_A_TICK", 5)
    work.step()
    assert work.done() == ask


def test_what_is_under_way_goes_on_in_the_next_tick(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STORE_SECONDS_A_TICK", 0.001)
    begun: list[int] = []

    def slow() -> Iterator[None]:
        begun.append(1)
        for _ in range(3):
            time.sleep(0.002)
            yield

    monkeypatch.setattr(work.chores, "_next_work", lambda held: slow())
    work.step()
    assert begun == [1]


def test_the_store_is_listed_beside_the_ticks(desk: Desk, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(store: Store) -> Inventory:
        gate.wait(30)
        return take_inventory(store)

    monkeypatch.setattr(module, "take_inventory", slow)
    monkeypatch.setattr(module, "STORE_SECONDS_A_TICK", 0.01)
    desk.bundle(desk.space(), key(1))
    ask = ask_rebuild(desk.server)
    work.chores.step(False)
    work.chores.step(False)
    assert work.done() is None
    gate.set()
    work.step()
    assert work.done() == ask


def test_what_the_search_condemned_is_told(
    desk: Desk, work: Work, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("farm.coordinator.rebuild.CHUNK", 2)
    caplog.set_level(logging.INFO, "farm.coordinator.chores")
    space = desk.space()
    desk.put(space, [key(9)])
    for n in range(3):
        desk.bundle(space, key(n))
    for _ in range(2):
        work.chores._next_search = time.monotonic()
        work.step()
    assert caplog.messages == ["default/a: 3 objects that nothing knows are condemned"]


def test_a_leader_is_called_to_a_rebuild(desk: Desk) -> None:
    with desk.server.pubsub(ignore_subscribe_messages=True) as calls:
        calls.subscribe(names.WAKE_CHANNEL)
        calls.get_message(timeout=1)
        ask_rebuild(desk.server)
        assert calls.get_message(timeout=1)
