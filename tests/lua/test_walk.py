"""Random walks over all operations; the invariants are checked after each step. A failing seed is in its test's id."""

from __future__ import annotations

import pytest

from farm.embedded.server import Server
from tests.lua.walk import Walk

STEPS = 250


@pytest.mark.parametrize("seed", range(12))
def test_random_walk(server: Server, seed: int) -> None:
    walk = Walk(server.url, seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.end()
    finally:
        walk.world.redis.close()
