"""Random walks with a leader at work; no job loses a bundle, and in the end nothing lies about."""

from __future__ import annotations

import pytest

from farm.embedded.server import Server
from tests.lua.upkeep import UpkeepWalk

STEPS = 200


@pytest.mark.parametrize("seed", range(8))
def test_random_walk_with_upkeep(server: Server, seed: int) -> None:
    walk = UpkeepWalk(server.url, seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.end()
    finally:
        walk.world.redis.close()
