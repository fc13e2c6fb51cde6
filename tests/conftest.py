"""What all tests share: an environment without the caller's settings, and one real server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from farm.embedded.server import Server, start

#: Helpers that assert; named here, before any other part of the tests can import them.
pytest.register_assert_rewrite("tests.lua.world", "tests.lua.walk")

FOREIGN = ("FARM_", "ASCEND_", "CELERY_", "SLURM_", "TORCHELASTIC_")


def pytest_configure() -> None:
    """Before any module is imported: what the caller has set must not change a result."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]


@pytest.fixture(scope="session")
def session_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The one server of the run; a test asks for ``server``, which is empty."""
    server = start(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def server(session_server: Server) -> Server:
    """The real server, without any data; ``server.url`` is the index URL."""
    with redis.Redis.from_url(session_server.url) as client:
        client.flushall()
    return session_server
