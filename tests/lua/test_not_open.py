"""A namespace that lost its meta, and is not open again yet: late calls find nothing to do, and invent nothing."""

from __future__ import annotations

import pytest

from farm.index.jobs import Member
from farm.index.outcomes import NotOpen
from farm.index.upkeep import Evicted, Raised
from farm.namespace import BundleId
from tests.lua.world import LEASE, RULES, World, key, record_of


@pytest.fixture
def lost(world: World) -> World:
    """A namespace at generation 2, then the server came back empty."""
    world.idle(key(1))
    world.index.raise_to(2)
    world.lose()
    return world


def test_a_late_call_of_a_leader_finds_nothing_to_do(lost: World) -> None:
    index = lost.index
    with lost.unchanged():
        assert index.raise_to(2) == Raised(0, 0, 0)
        assert index.drain() == 0
        assert index.evict(0, 0) == Evicted(0, 0, 0)
        assert index.adopt([(BundleId(1, key(1), 5), record_of(5))]) == 0
        assert index.reserve(1, [key(1)], 1000) == []
        assert (index.reclaim(RULES), index.end_lapsed(), index.mark_deleting(0)) == ([], 0, [])
        assert (index.purge_queue(), index.tell(), index.bury()) == ((0, 0), 0, 0)


def test_a_generation_is_invented_by_nobody(lost: World) -> None:
    lost.index.raise_to(2)
    assert isinstance(lost.index.join(Member("job", "m", "enable", 1, b"{}", LEASE)), NotOpen)
    assert lost.index.generation() == 0
