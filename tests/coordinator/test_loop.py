"""The tick: who leads does all jobs, a standby none; gaps hold what lives, a store that is away stops only its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError

from farm.coordinator.chores import Chores
from farm.errors import FarmUnavailable
from farm.index import names
from farm.index.jobs import Want
from farm.index.leader import Leadership
from farm.index.plans import Plans
from farm.index.upkeep import Purged
from farm.store.store import Store
from tests.coordinator.desk import MEGABYTE, QUEUE, Desk
from tests.lua.world import key, keys
from tests.support.kit import until


def unhold(desk: Desk) -> None:
    desk.server.hset(f"{desk.space().index.prefix}meta", mapping={"hold_until": 0, "hold_claims_until": 0})


def test_one_leads_and_another_takes_over_when_it_steps_down(desk: Desk) -> None:
    first, second = desk.coordinator(), desk.coordinator()
    space = desk.space()
    assert first.tick()
    space.index.ask_purge("r")
    assert not second.tick()
    assert space.index.generation() == 1
    assert first.tick()
    assert space.index.ask_purge("r") == Purged(2)
    Leadership(desk.server).step_down(first.name)
    assert second.tick()
    assert not first.tick()


def test_a_coordinator_that_ends_lets_a_standby_lead_at_once_but_a_standby_ends_no_ones_term(desk: Desk) -> None:
    stop = threading.Event()
    stop.set()
    leader, standby = desk.coordinator(), desk.coordinator()
    leader.tick()
    standby.tick()
    standby.run(stop)
    assert Leadership(desk.server).current() is not None
    leader.run(stop)
    assert Leadership(desk.server).current() is None


def test_a_standby_that_ends_begins_no_term(desk: Desk) -> None:
    leader, standby, stop = desk.coordinator(), desk.coordinator(), threading.Event()
    stop.set()
    leader.tick()
    standby.tick()
    desk.server.hset(names.LEADER, "deadline_ms", 0)
    standby.run(stop)
    assert desk.server.hmget(names.LEADER, "name", "term") == [leader.name.encode(), b"1"]


def test_who_leads_again_says_so(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "farm.coordinator.loop")
    first, second = desk.coordinator(), desk.coordinator()
    for leader in (first, second, first):
        desk.server.delete(names.LEADER)
        leader.tick()
        (second if leader is first else first).tick()
    assert ["leading" in text for text in caplog.messages].count(True) == 3


def test_a_tick_does_all_jobs(desk: Desk) -> None:
    desk.set(max_total_size_mb=None)
    coordinator, space = desk.coordinator(ASCEND_MAX_OP_CACHE_SIZE="5"), desk.space()
    coordinator.tick()
    desk.put(space, keys(6), MEGABYTE)
    space.index.claim(desk.join(space), [Want(key(9), b"request", QUEUE)], "n")
    desk.worker(QUEUE)
    Plans(desk.server).begin("id", {}, {}, 0)
    coordinator.tick()
    assert desk.messages.steps == ["id"]
    assert desk.store.exists("default/op_cache.ini")
    assert space.index.stored_bytes() == 2 * MEGABYTE
    assert desk.messages.sent == {QUEUE: 1}
    assert desk.server.hget(f"{space.index.prefix}meta", "limit_bytes") == b"%d" % (5 * MEGABYTE)
    until(lambda: len(bundles(desk)) == 2 or coordinator.tick() is None, 5)
    space.index.raise_to(2)
    until(lambda: not bundles(desk) or coordinator.tick() is None, 5)


def bundles(desk: Desk) -> list[str]:
    return [name for name in desk.store.names() if "-" in name]


def test_the_farm_wide_limit_is_held_and_what_it_leaves_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "farm.coordinator.loop")
    desk.set(max_total_size_mb=5, remain_total_size_ratio=40)
    coordinator, a, b = desk.coordinator(), desk.space("a"), desk.space("b")
    coordinator.tick()
    desk.put(a, keys(3), MEGABYTE)
    desk.put(b, keys(3), MEGABYTE)
    coordinator.tick()
    assert a.index.stored_bytes() + b.index.stored_bytes() == 2 * MEGABYTE
    assert "aged by the farm's limit: 4 entries" in caplog.text
    desk.put(a, [key(n) for n in range(10, 16)], MEGABYTE)
    a.index.acquire(desk.join(a), [key(n) for n in range(10, 16)])
    caplog.clear()
    coordinator.tick()
    coordinator.tick()
    assert ["the farm: 1048576 bytes above" in text for text in caplog.messages].count(True) == 1


def test_overshoot_is_told_once_each_time_that_it_begins(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    coordinator, space = desk.coordinator(ASCEND_MAX_OP_CACHE_SIZE="5"), desk.space()
    coordinator.tick()
    desk.put(space, keys(6), MEGABYTE)
    who = desk.join(space)
    space.index.acquire(who, keys(6))
    for _ in range(3):
        coordinator.tick()
    assert ["above the limit" in text for text in caplog.messages].count(True) == 1
    space.index.leave(who)
    coordinator.tick()
    coordinator.tick()
    who = desk.join(space)
    desk.put(space, [key(n) for n in range(10, 16)], MEGABYTE)
    space.index.acquire(who, [key(n) for n in range(10, 16)])
    coordinator.tick()
    assert ["above the limit" in text for text in caplog.messages].count(True) == 2


def test_a_first_tick_holds_what_is_in_use_and_asks_for_a_rebuild(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chores, "step", lambda chores, held: None)  # a rebuild holds too, some ticks later
    space = desk.space()
    desk.coordinator().tick()
    assert space.index.held_until_ms() == 0
    asked = desk.server.hget(names.CHORES, "rebuild_asked")
    assert asked
    desk.server.delete(names.WATCH)
    desk.put(space, keys(1))
    space.store.mark_generation(space.index.namespace, 4)
    desk.coordinator().tick()  # a standby: nothing
    assert space.index.held_until_ms() == 0
    desk.server.delete(names.LEADER)
    desk.coordinator().tick()
    assert space.index.held_until_ms() > time.time() * 1000
    assert space.index.generation() == 4
    assert desk.server.hget(names.CHORES, "rebuild_asked") != asked


def test_a_pause_holds_but_nothing_is_lost_in_it(desk: Desk) -> None:
    space, coordinator = desk.space(), desk.coordinator()
    coordinator.tick()
    asked = desk.server.hget(names.CHORES, "rebuild_asked")
    coordinator.tick()
    assert space.index.held_until_ms() == 0
    desk.server.hset(names.WATCH, "tick_ms", int(time.time() * 1000) - 60_000)
    space.store.mark_generation(space.index.namespace, 4)
    coordinator.tick()
    assert space.index.held_until_ms() > time.time() * 1000
    assert space.index.generation() == 1
    assert desk.server.hget(names.CHORES, "rebuild_asked") == asked
    unhold(desk)
    coordinator.tick()
    assert space.index.held_until_ms() == 0


def test_a_namespace_that_is_not_open_is_left_alone(desk: Desk) -> None:
    space, coordinator = desk.space(), desk.coordinator()
    coordinator.tick()
    desk.server.delete(f"{space.index.prefix}meta")
    assert coordinator.tick()
    assert not desk.server.exists(f"{space.index.prefix}meta")


def test_while_entries_are_held_no_orphan_is_looked_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[bool] = []
    space, coordinator = desk.space(), desk.coordinator()
    monkeypatch.setattr(coordinator._chores, "step", lambda *, held: steps.append(held))
    coordinator.tick()
    space.index.hold(0, 60_000)
    coordinator.tick()
    assert steps == [False, True]


@pytest.mark.parametrize("method", ["mark_generation", "settings_file", "delete", "names"])
def test_a_store_that_is_away_stops_only_what_needs_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    space, coordinator = desk.space(), desk.coordinator()
    coordinator.tick()
    desk.put(space, keys(2))
    space.index.raise_to(2)
    space.index.ask_purge("r")
    coordinator._chores.want_rebuild()

    def away(*arguments: object) -> None:
        raise FarmUnavailable("the store is away")

    monkeypatch.setattr(Store, method, away)
    desk.join(space, lease_ms=0)
    assert coordinator.tick()
    assert not desk.server.zcard(f"{space.index.prefix}jobs")
    assert coordinator._watch.look(int(time.time() * 1000)) is None


def test_a_server_that_is_away_is_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.set(tick_seconds=0.05)
    coordinator, stop, ticks, waits = desk.coordinator(), threading.Event(), [], []
    monkeypatch.setattr(stop, "wait", waits.append)

    def tick() -> bool:
        ticks.append(1)
        if len(ticks) == 1:
            raise ConnectionError("gone")
        if len(ticks) == 3:
            stop.set()
        return True

    monkeypatch.setattr(coordinator, "tick", tick)
    coordinator.run(stop)
    assert len(ticks) == 3
    assert waits == [0.05]
    assert "trying again" in caplog.text


def test_a_call_makes_it_tick_at_once_and_only_that(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.set(tick_seconds=60)
    coordinator, stop = desk.coordinator(), threading.Event()
    ticks: list[int] = []
    monkeypatch.setattr(coordinator, "tick", lambda: ticks.append(1))
    thread = threading.Thread(target=coordinator.run, args=(stop,))
    thread.start()
    try:
        until(lambda: ticks and desk.server.pubsub_numsub(names.WAKE_CHANNEL)[0][1])
        time.sleep(0.3)  # the answer to its subscription may make it tick once more
        before = len(ticks)
        desk.server.publish(names.WAKE_CHANNEL, "purge")
        until(lambda: len(ticks) > before)
    finally:
        stop.set()
        desk.server.publish(names.WAKE_CHANNEL, "stop")
        thread.join()
    assert len(ticks) == before + 1


def test_what_was_done_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "farm.coordinator")
    space, coordinator = desk.space(), desk.coordinator()

    def logged(word: str) -> Callable[[], bool]:
        return lambda: word in caplog.text or not coordinator.tick()

    coordinator.tick()
    assert "leading" in caplog.text
    caplog.clear()
    coordinator.tick()
    assert not caplog.records
    desk.put(space, keys(1))
    space.index.ask_purge("r")
    desk.join(space, lease_ms=0)
    for word in ("purged", "0 claims queued again, 1 jobs", "drained"):
        until(logged(word), 5)
    space.index.claim(desk.join(space), [Want(key(1), b"request", QUEUE)], "n")
    space.index.take(QUEUE, "w", "d", 0)
    until(logged("1 claims queued again, 0 jobs"), 5)
    space.index.set_limits(MEGABYTE, 50, "environment", True)
    desk.put(space, [key(7), key(8)], 300 * MEGABYTE, space.index.generation())
    until(logged("aged default/a: 2 entries"), 5)
