from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.embedded.server import Server
from tests.coordinator.desk import Desk


@pytest.fixture
def desk(server: Server) -> Iterator[Desk]:
    """An empty farm; see Desk."""
    desk = Desk(server.url)
    yield desk
    desk.server.close()
