"""A network filesystem that shows a bundle late: what this node looked for before, it believes to be missing."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from farm.client import fetch
from farm.client.fetch import Fetcher
from farm.index.jobs import Holding
from farm.index.record import Record
from farm.namespace import Namespace, bundle_path
from farm.store.bundle import pack
from farm.store.errors import StoreMissing
from farm.store.store import Store
from tests.support.entries import KEY, bundle, bytes_of, content

NAMESPACE = Namespace("default", "sm_90")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open((tmp_path / "store").as_uri())


@pytest.fixture
def fetcher(tmp_path: Path, store: Store) -> Fetcher:
    return Fetcher(store, tmp_path / "kernel_cache", 1800, pytest.fail)


def published(store: Store, seconds_ago: float = 1) -> Holding:
    data = pack(bundle())
    token = round((time.time() - seconds_ago) * 1_000_000)
    store.put(bundle_path(NAMESPACE, 1, KEY, token), data)
    return Holding(1, KEY, Record(token, len(data), hashlib.sha256(data).digest(), "op", "Add", "host", 7))


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited between two looks."""
    real, slept = time.sleep, []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    return slept


def hide(monkeypatch: pytest.MonkeyPatch, is_hidden: Callable[[], bool]) -> None:
    """The node does not find what is there while that holds."""
    real = obstore.get

    def get(where: object, path: str) -> object:
        if is_hidden():
            raise FileNotFoundError(path)
        return real(where, path)  # type: ignore[call-overload]

    monkeypatch.setattr(obstore, "get", get)


def test_a_folder_that_was_not_there_is_looked_at_again(
    store: Store, fetcher: Fetcher, tmp_path: Path, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does: reading a folder that has changed makes the node forget what it did not find there."""
    held = published(store)
    forgotten: set[Path] = set()
    real = os.scandir

    def scandir(path: Path) -> object:
        forgotten.add(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    above = tmp_path / "store" / "default"
    hide(monkeypatch, lambda: above not in forgotten)
    assert content(fetcher.fetch(NAMESPACE, held)) == bytes_of()
    assert naps == []


def test_what_was_just_published_is_waited_for(store: Store, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    held, visible = published(store), time.monotonic() + 0.6
    hide(monkeypatch, lambda: time.monotonic() < visible)
    assert content(fetcher.fetch(NAMESPACE, held)) == bytes_of()


def test_what_does_not_appear_is_missing_after_a_bounded_time_once(
    store: Store, fetcher: Fetcher, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "VISIBLE_WITHIN_SECONDS", 0.5)
    held = published(store)
    hide(monkeypatch, lambda: True)
    started = time.monotonic()
    with pytest.raises(StoreMissing):
        fetcher.fetch(NAMESPACE, held)
    assert time.monotonic() - started >= 0.5
    assert 0.25 <= sum(naps) <= 0.5
    naps.clear()
    with pytest.raises(StoreMissing):
        fetcher.fetch(NAMESPACE, held)
    assert naps == []


def test_what_was_published_long_ago_is_not_waited_for(
    store: Store, fetcher: Fetcher, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = published(store, seconds_ago=600)
    hide(monkeypatch, lambda: True)
    with pytest.raises(StoreMissing):
        fetcher.fetch(NAMESPACE, held)
    assert naps == []
