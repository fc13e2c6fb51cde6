"""drain over many retired generations: in bounded calls, none forgotten, and 0 only when there is nothing for now."""

from __future__ import annotations

from farm.namespace import BundleId
from tests.lua.world import World, key, record_of


def enter(world: World, generation: int, *which: bytes) -> None:
    """Idle entries of that generation, which becomes the current one."""
    token = generation * 1000
    world.index.adopt((BundleId(generation, k, token + n), record_of(token + n)) for n, k in enumerate(which))


def pinned(world: World, generations: range) -> list[bytes]:
    """An entry in each of these generations that one job holds."""
    who = world.join("holder")
    for g in generations:
        enter(world, g, key(1000 + g))
        world.index.acquire(who, [key(1000 + g)])
    return [key(1000 + g) for g in generations]


def listed(world: World) -> set[int]:
    return {int(g) for g in world.redis.zrange(f"{world.index.prefix}generations", 0, -1)}


def test_a_call_takes_its_chunk_from_as_many_generations_as_it_needs(world: World) -> None:
    for g in (1, 2, 3):
        enter(world, g, key(10), key(11), key(12))
    world.index.raise_to(4)
    assert [world.index.drain(4) for _ in range(4)] == [4, 4, 1, 0]


def test_generations_without_entries_are_listed_no_more(world: World) -> None:
    for g in (1, 2):
        enter(world, g, key(10), key(11))
    world.index.acquire(world.join(), [key(10)])
    world.index.raise_to(3)
    world.index.drain()
    assert listed(world) == {2}


def test_a_hundred_generations_are_no_end(world: World) -> None:
    world.watched = False
    for g in range(1, 102):
        enter(world, g, key(10))
    world.index.raise_to(200)
    assert [world.index.drain(2) for _ in range(52)] == [2] * 50 + [1, 0]
    assert listed(world) == set()


def test_behind_a_hundred_pinned_ones_each_call_does_something_until_all_is_done(world: World) -> None:
    world.watched = False
    pinned(world, range(1, 101))
    for g in (101, 102, 103):
        enter(world, g, key(10))
    world.index.raise_to(200)
    assert [world.index.drain(1) for _ in range(5)] == [0, 1, 1, 1, 0]


def test_those_that_were_passed_over_are_looked_at_again(world: World) -> None:
    world.watched = False
    pinned(world, range(1, 121))
    world.index.raise_to(200)
    assert world.index.drain() == 0
    world.end(world.join("holder"))
    world.index.open(200)
    enter(world, 5, key(10))
    assert sum(world.index.drain() for _ in range(4)) == 1
