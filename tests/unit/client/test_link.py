"""Calls that are tried again: of the index, and of the store that a member needs to join and to claim."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from farm.client.link import Link
from farm.client.part import Part
from farm.embedded.server import Server
from farm.errors import FarmUnavailable
from farm.index.index import Index
from farm.index.jobs import Member
from farm.namespace import Namespace
from farm.store.errors import DiskFull
from farm.store.store import Store


class Failing:
    """Raises some errors first."""

    def __init__(self, call: Callable[..., Any], *errors: Exception) -> None:
        self.call, self.errors = call, list(errors)

    def __call__(self, *arguments: Any) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return self.call(*arguments)


def test_a_store_that_is_away_for_a_moment_is_waited_for_as_the_server_is() -> None:
    said: list[str] = []
    link = Link("redis://here", 5, said.append)
    away = Failing(lambda: 7, FarmUnavailable("store: gone"), redis.ConnectionError("gone"), redis.TimeoutError())
    assert link.call(away) == 7
    assert link.reconnects == 1
    assert said == ["farm lost (store: gone); trying for 5 s", "farm is back"]


def test_a_full_disk_is_told_at_once_and_an_outage_when_the_time_is_over() -> None:
    link = Link("redis://here", 60, print)
    began = time.monotonic()
    with pytest.raises(DiskFull, match="disk /mnt is full"):
        link.call(Failing(int, DiskFull("disk /mnt is full")))
    link.reconnect_seconds = 0
    with pytest.raises(FarmUnavailable, match="store: gone"):
        link.call(Failing(int, FarmUnavailable("store: gone")))
    assert time.monotonic() - began < 10


def test_who_was_paused_for_all_the_time_that_it_may_try_tries_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def pause() -> int:
        nonlocal now
        now += 200
        raise FarmUnavailable("store: gone")

    def next_try() -> int:
        return tries.pop(0)()

    tries = [pause, lambda: 7]
    assert Link("redis://here", 60, print).call(next_try) == 7
    tries = [pause, pause, lambda: 7]
    with pytest.raises(FarmUnavailable, match="store: gone"):
        Link("redis://here", 60, print).call(next_try)
    assert len(tries) == 1


def test_a_member_joins_and_puts_sources_although_the_store_was_away_for_a_moment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open("memory://")
    for name in ("largest_generation", "put_source"):
        monkeypatch.setattr(store, name, Failing(getattr(store, name), FarmUnavailable("store: gone")))
    with redis.Redis.from_url(server.url) as client:
        part = Part(
            Index(client, Namespace("default", "soc")), store, Link("redis://here", 5, print),
            Member("job", "member", "enable", 1, b"{}", 60_000),
        )  # fmt: skip
        part.join()
        assert part.who.incarnation
        digest = hashlib.sha256(b"source").digest()
        part.put_source(digest, 1, b"source")
        assert store.get_source(digest, 1) == b"source"
