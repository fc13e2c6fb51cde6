"""Cases of ``tests/CASES.md`` that need a whole farm, on one that all of them share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

import farm
from farm.celery import COMPILE_TASK, create
from farm.client.results import Result
from farm.index.stats import read_stats
from tests.fault.test_recovery import purge
from tests.fault.test_workers import Submission, command_queue, compiling
from tests.support.kit import CELERY, Kit, op, running, until
from tests.support.led import SHORT, SHORT_SETTINGS, assert_clean, entry_paths, put_entries, start_leader


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    with running(tmp_path_factory.mktemp("farm"), **SHORT) as kit:
        start_leader(kit)
        yield kit


def load(kit: Kit, *ops: dict[str, Any]) -> list[farm.Request]:
    return farm.load(str(kit.manifest(*ops)))


def outcomes(results: list[Result]) -> set[str]:
    return {result.outcome for result in results}


def test_a_purge_while_it_is_compiled(kit: Kit) -> None:
    """The compile goes on, serves who asked before the purge, and nobody who asks after it."""
    gate = kit.root / "purged.gate"
    one = op(kit, "purged", gate=str(gate), stamp="before")
    before = Submission(kit, kit.manifest(one), **SHORT_SETTINGS)
    compiling(kit, "purged")
    generation = purge(kit)
    after = Submission(kit, kit.manifest(one), **SHORT_SETTINGS)
    until(lambda: kit.redis().exists(f"{kit.index().prefix}queue:{command_queue(kit)}") or kit.compiles("purged") == 2)
    gate.touch()
    assert outcomes(before.join(20)) == outcomes(after.join(20)) == {"compiled"}
    assert kit.compiles("purged") == 2
    assert {path.split("/")[2] for path in entry_paths(kit.index())} <= {str(generation - 1), str(generation)}
    assert_clean(kit)


def test_what_the_compiler_refuses_is_told_to_all_who_wait_and_compiled_once(kit: Kit) -> None:
    gate = kit.root / "refused.gate"
    one = op(kit, "refused", gate=str(gate), exit=1, say="op.cpp:7:1: error: no such thing\n")
    waiting = [Submission(kit, kit.manifest(one), folder=f"waits{n}", **SHORT_SETTINGS) for n in range(16)]
    until(lambda: len(kit.redis().smembers(only(kit, "w:*"))) == 16, what="all wait")
    gate.touch()
    failures = [result.error.failure for one in waiting for result in one.join(20) if result.error]
    assert len(failures) == 16
    assert {failure.kind for failure in failures} == {"rejected"}
    assert all("op.cpp:7:1: error: no such thing" in failure.message for failure in failures)
    assert kit.compiles("refused") == 1


def only(kit: Kit, pattern: str) -> bytes:
    """The one key of the index that fits; an empty name when there is none yet."""
    found: list[bytes] = kit.redis().keys(kit.index().prefix + pattern)
    assert len(found) <= 1
    return found[0] if found else b""


class Marks:
    """What runs when it is unpickled makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickled_message_is_not_read_and_the_worker_goes_on(kit: Kit) -> None:
    marker, queue = kit.root / "unpickled", command_queue(kit)
    with kombu.Connection(kit.farm().connection.addresses.broker_url) as connection:
        headers = {"task": COMPILE_TASK, "id": "evil", "lang": "py"}
        body = ([Marks(marker)], {}, {})
        connection.Producer().publish(body, routing_key=queue, serializer="pickle", headers=headers)
    until(lambda: "pickle" in kit.logs(), what="the worker has seen it")
    with kit.job("after-pickle", **SHORT_SETTINGS) as job:
        assert outcomes(job.compile(load(kit, op(kit, "after-pickle")))) == {"compiled"}
    assert not marker.exists()


def test_celerys_revoke_with_terminate_takes_no_compile_away(kit: Kit) -> None:
    """A message decides nothing, also not the end of a compile: `job cancel` does that."""
    gate = kit.root / "revoked.gate"
    waiting = Submission(kit, kit.manifest(op(kit, "revoked", gate=str(gate))), **SHORT_SETTINGS)
    compiling(kit, "revoked")
    control = create(kit.farm().connection.addresses).control
    (active,) = control.inspect(timeout=5, limit=1).active().values()
    control.revoke([task["id"] for task in active], terminate=True, signal="SIGKILL", reply=True, limit=1)
    gate.touch()
    assert outcomes(waiting.join(20)) == {"compiled"}
    assert kit.compiles("revoked") == 1


def test_workers_of_one_celery_name_do_not_disturb_each_other(kit: Kit) -> None:
    """Two machines were given the same name; each claim says which process has it."""
    twins = [
        kit.popen([*CELERY, "worker", "-c", "1", "-n", "twin@same", "-l", "INFO", "--without-gossip"]) for _ in range(2)
    ]
    try:
        until(lambda: len(kit.farm().connection.registry.workers()) == 3, 30, "all are there")
        gate = kit.root / "twins.gate"
        ops = [op(kit, f"twin{n}", gate=str(gate)) for n in range(4)]
        waiting = Submission(kit, kit.manifest(*ops), **SHORT_SETTINGS)
        until(lambda: sum(kit.compiles(f"twin{n}") for n in range(4)) == 4, what="all four slots compile")
        twins[0].kill()
        gate.touch()
        assert outcomes(waiting.join(20)) == {"compiled"}
        assert sum(kit.compiles(f"twin{n}") for n in range(4)) == 5, "what the dead one had, once again"
    finally:
        for twin in twins:
            twin.kill()
            twin.wait()


def test_an_emptied_index_is_rebuilt_from_the_store(kit: Kit) -> None:
    """Nothing is compiled again, sizes are right, and a force at once hurts nobody who holds entries."""
    requests = load(kit, *[op(kit, f"stored{n}") for n in range(100)])
    put_entries(kit, requests, generation=kit.index().generation() or 1)
    holder = kit.job(job_id="holder", **SHORT_SETTINGS)
    held = holder.compile(requests[:10])
    assert outcomes(held) == {"hit"}
    entries, size = len(entry_paths(kit.index())), read_stats(kit.index()).stored_bytes
    kit.redis().flushall()
    until(lambda: len(entry_paths(kit.index())) == entries, 20, "all are known again")
    assert read_stats(kit.index()).stored_bytes == size
    with kit.job("reader", **SHORT_SETTINGS) as reader:
        assert outcomes(reader.compile(requests)) == {"hit"}
    kit.redis().flushall()
    with kit.farm(**SHORT_SETTINGS).job("forces", mode="force", op_compiler_cache_dir=kit.root / "f") as forcing:
        assert outcomes(forcing.compile(requests[:1])) == {"compiled"}
    again = holder.compile(requests[:10])
    assert outcomes(again) == {"hit"}
    assert [result.files for result in again] == [result.files for result in held]
    assert sum(kit.compiles(f"stored{n}") for n in range(100)) == 1
    holder.close()
    assert_clean(kit)


#: Kinds of keys that stay when nobody works: of a namespace, of the farm, and Celery's (one a queue).
FOR_EVER = {
    "meta", "generations", "e", "near", "idle", "purges", "purge_log",
    "identity", "namespaces", "toolchains", "first_seen", "workers", "worker_leases", "watch", "chores", "leader",
    "source_epoch", "served", "slots", "in_force",
}  # fmt: skip
OF_CELERY = re.compile(r"_kombu\.binding.*|unacked_mutex")


def test_what_lives_for_ever_on_the_server_is_a_short_list(kit: Kit) -> None:
    """Last: jobs, failures, purges and lost data have been here. No key grows with work done, none holds kernels."""
    with kit.job("last", **SHORT_SETTINGS) as job:
        job.compile(load(kit, op(kit, "last")))
    until(lambda: kept_for_ever(kit) <= FOR_EVER, 20, f"only these stay: {kept_for_ever(kit)}")
    assert {"meta", "e", "idle"} <= kept_for_ever(kit)
    assert kit.redis().xlen(f"{kit.index().prefix}purges") == 0
    for database in range(3):
        with kit.redis() as server:
            server.select(database)
            stored = {name: server.dump(name) or b"" for name in server.scan_iter()}
            assert all(len(value) < 1 << 20 for value in stored.values())
            assert not any(b"k" * 64 in value for value in stored.values())


def kept_for_ever(kit: Kit) -> set[str]:
    """The kinds of keys without a time to live, in all databases, but for Celery's."""
    found = set()
    for database in range(3):
        with kit.redis() as server:
            server.select(database)
            found |= {kind(name.decode(errors="replace")) for name in server.scan_iter() if server.pttl(name) == -1}
    return {name for name in found if not OF_CELERY.fullmatch(name)}


def kind(name: str) -> str:
    """What follows the namespace, up to the first colon; of others' keys, the name."""
    return name.partition("}:")[2].partition(":")[0] if name.startswith("opfarm:") else name
