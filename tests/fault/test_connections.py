"""Connections to the server are cut or stall in mid submission, and it takes no writes for a while."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import redis

from tests.fault.test_workers import Submission
from tests.support.kit import Kit, op, running, until
from tests.support.led import SHORT, SHORT_SETTINGS, assert_clean, start_leader

OPERATORS = 6
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    """One farm for all; each test leaves it well."""
    # A claim outlasts the longest stall here: of one that does not, somebody else may take it.
    with running(tmp_path_factory.mktemp("farm"), **SHORT | {"FARM_CLAIM_LEASE_SECONDS": "15"}) as kit:
        start_leader(kit)
        yield kit


def submission(kit: Kit, name: str) -> Submission:
    """A job that waits for several compiles, one of which is under way."""
    ops = [op(kit, f"{name}{n}", gate=str(kit.root / f"{name}.gate")) for n in range(OPERATORS)]
    submitted = Submission(kit, kit.manifest(*ops), **SHORT_SETTINGS)
    until(lambda: compiles(kit, name), what="it compiles")
    return submitted


def compiles(kit: Kit, name: str) -> int:
    return sum(kit.compiles(f"{name}{n}") for n in range(OPERATORS))


def check_end(kit: Kit, name: str, submitted: Submission) -> None:
    """All was compiled, once, and nothing is left behind."""
    assert [result.outcome for result in submitted.join(60)] == ["compiled"] * OPERATORS
    assert compiles(kit, name) == OPERATORS
    assert_clean(kit)


def test_every_connection_is_cut_again_and_again(kit: Kit) -> None:
    submitted = submission(kit, "cut")
    (kit.root / "cut.gate").touch()
    cuts = 0
    while submitted._thread.is_alive() and cuts < 40:
        with kit.redis() as admin:
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        cuts += 1
        submitted._thread.join(0.1)
    assert cuts > 1, "it was over before anything was cut"
    check_end(kit, "cut", submitted)


def test_a_server_that_hangs_longer_than_a_call_may_take(kit: Kit) -> None:
    submitted = submission(kit, "hung")
    with kit.redis() as admin:
        admin.execute_command("CLIENT", "PAUSE", "6000", "ALL")
    (kit.root / "hung.gate").touch()
    check_end(kit, "hung", submitted)


@contextmanager
def out_of_memory(kit: Kit) -> Iterator[None]:
    """The server has reached maxmemory and evicts nothing, as it must."""
    with kit.redis() as admin:
        assert admin.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        admin.config_set("maxmemory", str(MEGABYTE))
        yield
        admin.config_set("maxmemory", "0")


@contextmanager
def no_snapshot(kit: Kit) -> Iterator[None]:
    """A snapshot has failed (its folder is gone), and the server is set to take no writes then."""
    with kit.redis() as admin:
        shutil.rmtree(kit.root / "data")
        admin.config_set("save", "3600 1")
        admin.bgsave()
        until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", what="the snapshot fails")
        yield
        admin.config_set("stop-writes-on-bgsave-error", "no")


@pytest.mark.parametrize("how", [out_of_memory, no_snapshot])
def test_a_server_that_takes_no_writes_costs_nothing_but_time(
    kit: Kit, how: Callable[[Kit], AbstractContextManager[None]]
) -> None:
    """Last in the file: a server whose folder is gone keeps no promise to come back."""
    name = how.__name__
    submitted = submission(kit, name)
    entries_before = kit.redis().hlen(f"{kit.index().prefix}e:1")
    with how(kit):
        with kit.redis() as client, pytest.raises(redis.RedisError):
            client.set("refused", "x")
        (kit.root / f"{name}.gate").touch()
        submitted._thread.join(1.5)
        assert submitted._thread.is_alive(), "nobody is told of a failure that passes"
        assert kit.redis().hlen(f"{kit.index().prefix}e:1") == entries_before, "nothing was evicted meanwhile"
    started = time.monotonic()
    check_end(kit, name, submitted)
    assert time.monotonic() - started < 60
