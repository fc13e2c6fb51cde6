"""Ageing by a namespace's own limit and by the farm's: what goes, where it stops, and what is said of the rest."""

from __future__ import annotations

import pytest

from farm.coordinator.age import AgeReport, age, age_all
from farm.coordinator.space import Space
from farm.index import names
from farm.policy.limits import Limits
from tests.coordinator.desk import MEGABYTE, Desk
from tests.lua.world import T0, key, keys

LIMITS = Limits(10 * MEGABYTE, 50, "environment", True)
OFF = Limits(10 * MEGABYTE, 50, "environment", False)


def test_at_its_limit_a_namespace_is_aged_down_to_its_target(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(9), MEGABYTE)
    assert age(space, LIMITS) == AgeReport()
    desk.put(space, [key(9)], MEGABYTE)
    assert age(space, OFF) == AgeReport()
    assert age(space, LIMITS) == AgeReport(5, 5 * MEGABYTE)
    assert desk.keys(space) == {key(n) for n in range(5, 10)}
    assert age(space, LIMITS) == AgeReport()


def test_a_pass_goes_on_over_many_calls_and_ticks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.coordinator.age.CHUNK", 2)
    monkeypatch.setattr("farm.coordinator.age.CALLS_A_TICK", 2)
    space = desk.space()
    desk.put(space, keys(12), MEGABYTE)
    assert age(space, LIMITS) == AgeReport(4, 4 * MEGABYTE)
    assert age(space, LIMITS) == AgeReport(3, 3 * MEGABYTE)
    assert len(desk.keys(space)) == 5


def test_what_is_in_use_or_young_stays_and_is_told_as_overshoot(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(13), MEGABYTE)
    who = desk.join(space)
    space.index.acquire(who, keys(12))
    assert age(space, LIMITS) == AgeReport(1, MEGABYTE, 2 * MEGABYTE)
    space.index.leave(who)
    desk.set(min_idle_seconds=1800)
    assert age(desk.space(), LIMITS) == AgeReport(0, 0, 2 * MEGABYTE)


def test_while_entries_are_held_nothing_goes_and_nothing_is_told(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(12), MEGABYTE)
    space.index.hold(0, 60_000)
    assert age(space, LIMITS) == AgeReport()
    assert len(desk.keys(space)) == 12


def test_when_the_hold_is_over_the_rest_is_told(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(12), MEGABYTE)
    space.index.now_ms = T0
    space.index.acquire(desk.join(space), keys(12))
    space.index.hold(0, 60_000)
    space.index.now_ms = T0 + 59_999
    assert age(space, LIMITS) == AgeReport()
    space.index.now_ms = T0 + 60_000
    assert age(space, LIMITS) == AgeReport(0, 0, 2 * MEGABYTE)


@pytest.fixture
def spaces(desk: Desk) -> list[tuple[Space, Limits]]:
    """Two namespaces that are aged, whose keys were used last in the order of their numbers, and one that is not."""
    desk.set(max_total_size_mb=10, remain_total_size_ratio=50)
    a, b, off = desk.space("a"), desk.space("b"), desk.space("off")
    desk.put(off, [key(99)], 5 * MEGABYTE)
    for n in range(10):
        desk.put((a, b)[n % 2], [key(n)], MEGABYTE)
    for n in range(10):
        index = (a, b)[n % 2].index
        desk.server.zadd(f"{index.prefix}idle:1", {key(n): 1000 + n})
    return [(a, LIMITS), (b, LIMITS), (off, OFF)]


def held(desk: Desk, spaces: list[tuple[Space, Limits]]) -> set[bytes]:
    return {k for space, _ in spaces for k in desk.keys(space)}


def test_the_farm_wide_limit_takes_the_least_recently_used_wherever_it_lies(
    desk: Desk, spaces: list[tuple[Space, Limits]]
) -> None:
    assert age_all([]) == AgeReport()
    assert age_all(spaces) == AgeReport(5, 5 * MEGABYTE)
    assert held(desk, spaces) == {key(99), *(key(n) for n in range(5, 10))}
    assert not desk.server.hexists(names.CHORES, "age_all")
    desk.set(max_total_size_mb=None)
    assert age_all([(desk.space("a"), LIMITS)]) == AgeReport()


def test_below_the_farm_wide_limit_nothing_goes_unless_a_pass_is_under_way(
    desk: Desk, spaces: list[tuple[Space, Limits]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.coordinator.age.CHUNK", 1)
    monkeypatch.setattr("farm.coordinator.age.CALLS_A_TICK", 2)
    first = age_all(spaces)
    assert 0 < first.entries <= 4
    assert desk.server.hexists(names.CHORES, "age_all")
    total = first.entries
    while more := age_all(spaces).entries:
        total += more
    assert total == 5
    assert not desk.server.hexists(names.CHORES, "age_all")
    space = spaces[0][0]
    desk.put(space, keys(4), MEGABYTE)
    assert age_all(spaces) == AgeReport()


def test_a_namespace_with_many_old_entries_does_not_hide_those_of_others(
    desk: Desk, spaces: list[tuple[Space, Limits]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each only a chunk is known: what may be younger than the unknown ones waits for the next call."""
    monkeypatch.setattr("farm.coordinator.age.CHUNK", 2)
    a, b = spaces[0][0], spaces[1][0]
    for n in range(10):  # all of a's are older than any of b's
        index = (a, b)[n % 2].index
        desk.server.zadd(f"{index.prefix}idle:1", {key(n): 1000 + n + 500 * (n % 2)})
    assert age_all(spaces) == AgeReport(5, 5 * MEGABYTE)
    assert desk.keys(a) == set()
    assert len(desk.keys(b)) == 5


def test_overshoot_of_the_farm_is_told_when_all_the_rest_is_in_use_or_young(
    desk: Desk, spaces: list[tuple[Space, Limits]]
) -> None:
    a, b = spaces[0][0], spaces[1][0]
    space_a, space_b = desk.join(a), desk.join(b)
    a.index.acquire(space_a, keys(10))
    b.index.acquire(space_b, keys(10))
    desk.put(a, [key(50)], MEGABYTE)
    desk.set(min_idle_seconds=1800)
    young = [(desk.space("a"), LIMITS), (desk.space("b"), LIMITS)]
    assert age_all(young) == AgeReport(0, 0, MEGABYTE)


def test_nothing_is_aged_where_no_namespace_is(desk: Desk, spaces: list[tuple[Space, Limits]]) -> None:
    assert age_all([(space, OFF) for space, _ in spaces]) == AgeReport()
    desk.server.hset(names.CHORES, "age_all", 1)
    assert age_all([(space, OFF) for space, _ in spaces]) == AgeReport()
