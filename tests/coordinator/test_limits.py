"""The limits of a cache as the leader reads them: files before the environment, and nothing that is half written."""

from __future__ import annotations

import logging

import pytest

from farm.coordinator.limits import CacheLimits
from farm.coordinator.outage import Outage
from farm.errors import FarmUnavailable
from farm.index.inforce import in_force
from farm.policy.textfile import MAX_BYTES
from farm.store.errors import StoreDamaged
from farm.store.store import Store
from tests.coordinator.desk import MEGABYTE, Desk

INI = "default/op_cache.ini"
TEXT = b"[op_compiler_cache]\nmax_op_cache_size = 7\nremain_cache_size_ratio = 30\n"


def write(desk: Desk, data: bytes) -> None:
    desk.store.delete(INI)
    desk.store.put(INI, data)


@pytest.fixture
def limits(desk: Desk, caplog: pytest.LogCaptureFixture) -> CacheLimits:
    caplog.set_level(logging.INFO, "farm.coordinator")
    return CacheLimits(desk.server, desk.store, {"ASCEND_MAX_OP_CACHE_SIZE": "9"}, Outage())


def size(limits: CacheLimits) -> tuple[int, str]:
    now = limits.of("default")
    return now.limit_bytes // MEGABYTE, now.origin


def test_a_file_is_made_where_there_is_none_and_sets_nothing(desk: Desk, limits: CacheLimits) -> None:
    limits.read(["default"])
    assert desk.store.exists(INI)
    assert size(limits) == (9, "environment")


def test_the_first_look_counts_and_a_change_when_two_looks_agree(desk: Desk, limits: CacheLimits) -> None:
    write(desk, TEXT)
    limits.read(["default"])
    assert size(limits) == (7, "op_cache.ini")
    write(desk, b"")
    limits.read(["default"])
    assert size(limits) == (7, "op_cache.ini")
    write(desk, TEXT.replace(b"7", b"8"))
    limits.read(["default"])
    assert size(limits) == (7, "op_cache.ini")
    limits.read(["default"])
    assert size(limits) == (8, "op_cache.ini")


def test_a_change_and_each_fault_are_told_once(
    desk: Desk, limits: CacheLimits, caplog: pytest.LogCaptureFixture
) -> None:
    write(desk, TEXT.replace(b"30", b"300"))
    for _ in range(3):
        limits.read(["default"])
    assert [row.levelname for row in caplog.records] == ["WARNING"]
    write(desk, TEXT)
    for _ in range(3):
        limits.read(["default"])
    assert [row.levelname for row in caplog.records] == ["WARNING", "INFO"]
    assert "limits of cache default are now" in caplog.messages[-1]
    write(desk, TEXT.replace(b"30", b"400"))
    for _ in range(3):
        limits.read(["default"])
    assert [row.levelname for row in caplog.records].count("WARNING") == 2
    assert any("400" in line for line in caplog.messages)


def test_a_file_that_is_too_large_sets_nothing_and_one_that_is_away_counts_as_it_was(
    desk: Desk, limits: CacheLimits, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(desk, TEXT + b"#" * MAX_BYTES)
    limits.read(["default"])
    assert size(limits) == (9, "environment")
    assert "it sets nothing: keep only the settings in it" in caplog.text
    write(desk, TEXT)
    limits.read(["default"])
    limits.read(["default"])

    def away(store: Store, path: str, generated: bytes, at_most_bytes: int) -> bytes:
        raise FarmUnavailable("the store is away")

    monkeypatch.setattr(Store, "settings_file", away)
    caplog.clear()
    for _ in range(3):
        limits.read(["default"])
    assert size(limits) == (7, "op_cache.ini")
    assert len(caplog.records) == 1


def test_an_outage_is_told_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "farm.coordinator")
    outage = Outage()

    def attempt(fails: bool) -> None:
        with outage.noticed("sweep"):
            if fails:
                raise FarmUnavailable("the store is away")

    for fails in (False, True, True, False, False, True):
        attempt(fails)
    assert [row.levelname for row in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_fault_of_the_environment_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    CacheLimits(desk.server, desk.store, {"ASCEND_MAX_OP_CACHE_SIZE": "many"}, Outage())
    assert "ASCEND_MAX_OP_CACHE_SIZE" in caplog.text


def test_what_mends_an_unreadable_file_is_told(
    desk: Desk, limits: CacheLimits, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(store: Store, path: str, generated: bytes, at_most_bytes: int) -> bytes:
        raise StoreDamaged("it is a folder", fix="move what lies there")

    monkeypatch.setattr(Store, "settings_file", refused)
    limits.read(["default"])
    assert "it is a folder; it sets nothing: move what lies there" in caplog.text


def test_faults_can_be_asked_for_until_they_are_mended(desk: Desk, limits: CacheLimits) -> None:
    write(desk, b"[op_compiler_cache]\nmax_op_cache_size=80%\nremain_cache_size_ratio=50\n")
    limits.read(["default"])
    (told,) = in_force(desk.server).faults["default"]
    assert "line 2: '80%'" in told
    write(desk, TEXT)
    limits.read(["default"])
    limits.read(["default"])
    assert in_force(desk.server).faults == {}
