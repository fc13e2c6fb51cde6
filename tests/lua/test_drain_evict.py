"""drain, evict, limits: to a stated target and never past it; what is pinned, held or used of late stays."""

from __future__ import annotations

import pytest

from farm.index.stats import LimitsInForce, read_stats
from farm.index.upkeep import Evicted
from tests.lua.test_purges import fill
from tests.lua.world import LEASE, World, key, keys

HALF_HOUR = 1_800_000
SIZE = 1000


def evicted(world: World, target: int, **more: int) -> int:
    return world.index.evict(target, HALF_HOUR, **more).entries


def test_evict_stops_at_the_target_and_takes_the_oldest_first(world: World) -> None:
    for n in range(5):
        world.idle(key(n))
        world.pass_time(1000)
    world.pass_time(HALF_HOUR)
    assert world.index.evict(2500, HALF_HOUR) == Evicted(3, 3 * SIZE, 2 * SIZE)
    assert {k for _, k in world.snapshot().idle} == {key(3), key(4)}
    world.resend_unchanged("evict")
    assert evicted(world, 2000) == 0
    assert evicted(world, 1999) == 1
    world.resend_unchanged("evict")
    world.pass_time(HALF_HOUR)
    world.resend_unchanged("evict")


def test_exactly_30_minutes_idle_goes(world: World) -> None:
    world.idle(key(1))
    world.pass_time(HALF_HOUR - 1)
    assert evicted(world, 0) == 0
    world.pass_time(1)
    assert evicted(world, 0) == 1


def test_a_pinned_entry_never_goes(world: World) -> None:
    who = world.join()
    world.compiled(who, *keys(3))
    world.pass_time(HALF_HOUR * 9)
    assert evicted(world, 0) == 0
    assert len(world.snapshot().entries) == 3


def test_a_hold_stops_evict_drain_sweep_and_orphans(world: World) -> None:
    world.idle(*keys(4))
    world.index.drop(1, key(0), world.snapshot().entries[1, key(0)].token)
    world.index.raise_to(2)
    world.idle(key(9))
    world.pass_time(HALF_HOUR)
    world.index.hold(20_000, LEASE)
    assert evicted(world, 0) == 0
    assert world.index.drain() == 0
    assert world.index.mark_deleting(60_000) == []
    world.resend_unchanged("evict", "drain", "mark_deleting")
    world.pass_time(LEASE)
    assert evicted(world, 0) == 1
    assert world.index.drain() == 3
    assert len(world.index.mark_deleting(60_000)) == 1


def test_a_pass_begins_at_the_limit_and_goes_on_below_it(world: World) -> None:
    world.idle(*keys(10))
    world.pass_time(HALF_HOUR)

    def call(limit_bytes: int) -> int:
        return world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=limit_bytes).entries

    assert call(10 * SIZE + 1) == 0
    assert [call(10 * SIZE) for _ in range(4)] == [2, 2, 1, 0]
    world.idle(*[key(n) for n in range(20, 24)])
    world.pass_time(HALF_HOUR)
    assert call(10 * SIZE) == 0
    world.resend_unchanged("evict")


def test_a_target_alone_begins_no_pass(world: World) -> None:
    world.idle(*keys(3))
    world.pass_time(HALF_HOUR)
    assert evicted(world, 0, limit=1) == 1
    assert not world.redis.hexists(f"{world.index.prefix}meta", "ageing_pass")


def test_a_pass_ends_when_nothing_is_left_that_may_go(world: World) -> None:
    world.idle(*keys(3))
    world.pass_time(HALF_HOUR)
    world.idle(*[key(n) for n in range(10, 20)])
    assert world.index.evict(0, HALF_HOUR, limit_bytes=13 * SIZE).entries == 3
    world.pass_time(HALF_HOUR)
    assert world.index.evict(0, HALF_HOUR, limit_bytes=13 * SIZE).entries == 0


def test_the_same_limits_read_again_end_no_pass(world: World) -> None:
    world.index.set_limits(10 * SIZE, 50, "default", True)
    world.idle(*keys(10))
    world.pass_time(HALF_HOUR)
    for _ in range(2):
        assert world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=10 * SIZE).entries == 2
        world.index.set_limits(10 * SIZE, 50, "default", True)


def test_ageing_switched_off_ends_a_pass(world: World) -> None:
    world.index.set_limits(10 * SIZE, 50, "default", True)
    world.idle(*keys(10))
    world.pass_time(HALF_HOUR)
    assert world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=10 * SIZE).entries == 2
    for ageing in (False, True):
        world.index.set_limits(10 * SIZE, 50, "default", ageing)
    world.pass_time(HALF_HOUR)
    assert world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=10 * SIZE).entries == 0


def test_the_limits_in_force_are_shown(world: World) -> None:
    world.index.set_limits(10 * SIZE, 70, "environment", True)
    assert read_stats(world.index).limits == LimitsInForce(10 * SIZE, 70, "environment", True)


@pytest.mark.parametrize("ageing", [False, True])
def test_other_limits_end_a_pass(world: World, ageing: bool) -> None:
    world.index.set_limits(10 * SIZE, 50, "default", True)
    world.idle(*keys(10))
    world.pass_time(HALF_HOUR)
    assert world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=10 * SIZE).entries == 2
    world.index.set_limits(20 * SIZE, 50, "default", ageing)
    world.resend_unchanged("limits")
    assert world.index.evict(5 * SIZE, HALF_HOUR, 2, limit_bytes=20 * SIZE).entries == 0


def test_ageing_switched_on_starts_everyones_half_hour(world: World) -> None:
    world.index.set_limits(SIZE, 50, "environment", False)
    world.idle(*keys(3))
    assert set(world.snapshot().idle.values()) == {0}
    world.pass_time(HALF_HOUR * 9)
    world.index.set_limits(SIZE, 50, "environment", True)
    world.resend_unchanged("limits")
    assert evicted(world, 0) == 0
    world.pass_time(HALF_HOUR - 1)
    assert evicted(world, 0) == 0
    world.pass_time(1)
    world.resend_unchanged("limits")
    assert evicted(world, 0) == 3


def test_evict_does_what_one_call_may(world: World) -> None:
    world.idle(*keys(9))
    world.pass_time(HALF_HOUR)
    assert [evicted(world, 0, limit=4) for _ in range(4)] == [4, 4, 1, 0]
    assert world.redis.hget(f"{world.index.prefix}meta", "evictions") == b"9"


def test_drain_takes_idle_entries_of_retired_generations_only(world: World) -> None:
    world.idle(*keys(5))
    assert world.index.drain() == 0
    world.index.raise_to(2)
    world.idle(key(7))
    world.index.raise_to(3)
    world.idle(key(8))
    assert [world.index.drain(limit=4) for _ in range(3)] == [4, 2, 0]
    world.resend_unchanged("drain")
    assert set(world.snapshot().entries) == {(3, key(8))}
    assert len(world.snapshot().tombs) == 6


def test_a_job_may_still_hold_and_use_what_is_being_drained(world: World) -> None:
    world.idle(*keys(6))
    who = world.join()
    world.index.acquire(who, keys(3))
    world.index.raise_to(2)
    assert world.index.drain() == 3
    assert world.index.drain() == 0
    world.end(who)
    assert not world.snapshot().entries
    assert world.index.drain() == 0
    world.resend_unchanged("drain")


def test_generations_that_are_only_pinned_do_not_hide_later_ones(world: World) -> None:
    world.watched = False
    for n in range(120):
        who = world.join(f"job {n}")
        world.compiled(who, key(1))
        world.index.raise_to(n + 2)
    world.idle(key(2))
    world.index.raise_to(200)
    assert [world.index.drain() for _ in range(3)] == [0, 1, 0]


def test_commands_of_evict_and_drain_depend_on_the_batch_only(world: World) -> None:
    costs = []
    for count in (1_000, 100_000):
        fill(world, count)
        world.pass_time(HALF_HOUR)
        world.redis.config_resetstat()
        assert evicted(world, 0, limit=250) == 250
        world.index.raise_to(2)
        assert world.index.drain(250) == 250
        costs.append(sum(row["calls"] for row in world.redis.info("commandstats").values()))
        world.redis.flushall()
        world.index.open(1)
    assert abs(costs[0] - costs[1]) <= 6
    assert costs[1] < 250 * 2 * 8
