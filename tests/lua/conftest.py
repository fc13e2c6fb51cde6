from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from farm.embedded.server import Server

if TYPE_CHECKING:
    from tests.lua.world import World


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    """An empty namespace on the real server; see World."""
    from tests.lua.world import World

    world = World(server.url)
    yield world
    world.redis.close()
