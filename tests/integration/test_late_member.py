"""A member that was silent longer than its lease: what it held may have been deleted, which the index has forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.client.link import Link
from farm.client.part import Part
from farm.index.jobs import Holding, Member
from farm.index.outcomes import Hit
from farm.namespace import bundle_path
from tests.fault.test_ageing import Led, led

LEASE_MS = 300


@pytest.fixture
def farm_(tmp_path: Path) -> Iterator[Led]:
    with led(tmp_path) as made:
        yield made


def holding(farm_: Led, keys: list[bytes]) -> Part:
    """A member that holds entries."""
    who = Member("late", "m", "enable", 1, b"{}", LEASE_MS)
    part = Part(farm_.index(), farm_.connection.store, Link("", 1, pytest.fail), who)
    part.join()
    for key, answer in zip(keys, part.acquire(keys), strict=True):
        assert isinstance(answer, Hit)
        part.hold(Holding(answer.generation, key, answer.record))
    return part


def delete(farm_: Led, part: Part, key: bytes) -> None:
    """The job has ended, its entry was evicted and swept."""
    index, one = part.index, part.held[key]
    index.end_lapsed()
    while index.bury():
        pass
    index.drop(one.generation, key, one.record.token)
    paths = index.mark_deleting(0)
    assert paths == [bundle_path(part.namespace, one.generation, key, one.record.token)]
    farm_.connection.store.delete(paths[0])
    index.swept(paths)


def test_it_brings_back_what_is_there_and_nothing_that_was_deleted(farm_: Led) -> None:
    gone, there = farm_.put(1, 2)
    part = holding(farm_, [gone, there])
    time.sleep(LEASE_MS / 1000 + 0.05)  # what is awaited is the end of its lease
    delete(farm_, part, gone)
    part.heartbeat()
    assert farm_.keys() == {there}
    assert set(part.held) == {there}
    part.leave()


def test_within_its_lease_it_need_not_look(farm_: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after every short outage: nothing was deleted, and a look at thousands of bundles takes a while."""
    keys = farm_.put(1, 2)
    part = holding(farm_, keys)
    monkeypatch.setattr(farm_.connection.store, "exists", pytest.fail)
    farm_.connection.server.flushall()
    part.heartbeat()
    assert farm_.keys() == set(keys)
    part.leave()
