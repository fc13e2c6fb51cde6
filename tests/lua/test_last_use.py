"""Every way in which a job comes by an entry counts as a use of it: what is read is never taken for idle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from farm.index.jobs import Holding
from tests.lua.world import World, key

MINUTE = 60_000
HALF_HOUR = 30 * MINUTE
HOT, COLD = key(1), key(2)


def asks(world: World, hot: Holding) -> None:
    """acquire, and leave."""
    who = world.join("reader")
    world.index.acquire(who, [HOT])
    world.end(who)


def claims(world: World, hot: Holding) -> None:
    """claim of what another job has had compiled meanwhile."""
    who = world.join("reader")
    world.claim(who, HOT)
    world.end(who)


def announces(world: World, hot: Holding) -> None:
    """A member comes back with what it held."""
    who = world.join("reader")
    world.index.announce(who, [hot])
    world.end(who)


def holds(world: World, hot: Holding) -> None:
    """A job that lives the whole time, and only says so."""
    who = world.join("holder")
    world.index.acquire(who, [HOT])
    world.index.heartbeat(who)


@pytest.mark.parametrize("read", [asks, claims, announces, holds])
def test_what_is_read_every_five_minutes_stays_and_what_came_later_goes(
    world: World, read: Callable[[World, Holding], None]
) -> None:
    (hot,) = world.idle(HOT)
    world.pass_time(MINUTE)
    world.idle(COLD)
    for _ in range(8):
        world.pass_time(5 * MINUTE - 1000)
        read(world, hot)
    assert world.index.evict(0, HALF_HOUR).entries == 1
    assert [k for _, k in world.snapshot().entries] == [HOT]


def test_a_look_is_no_use(world: World) -> None:
    """What lists and explains does not keep an entry, or reports would keep everything."""
    world.idle(HOT)
    with world.unchanged():
        list(world.index.entries())
        world.index.known_tokens(1, [HOT])
    world.pass_time(HALF_HOUR)
    assert world.index.evict(0, HALF_HOUR).entries == 1
