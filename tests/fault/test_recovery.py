"""The index's server comes back with all its data, without any, or as it was a while ago; and everybody is killed."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import farm
from farm.index.upkeep import Purged
from farm.store.bundle import identify
from tests.fault.test_workers import Submission, command_queue, compiling
from tests.support.kit import Kit, op, running, until
from tests.support.led import (
    SHORT,
    SHORT_SETTINGS,
    assert_clean,
    entry_paths,
    leader,
    objects,
    start_coordinator,
    start_leader,
)


class Loss:
    """A server that comes back; ``remember`` is called at the moment to which it falls back."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    def start(self) -> None:
        self.kit.start_server()

    def remember(self) -> None:
        """By default it forgets everything."""

    def lose(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to end."""


class Flushed(Loss):
    """All data is gone; the server goes on."""

    def lose(self) -> None:
        self.kit.redis().flushall()


class Wiped(Loss):
    """Its data folder was removed; it starts on an empty one, and the operator has the cache rebuilt at once."""

    def lose(self) -> None:
        self.kit.kill_server()
        shutil.rmtree(self.kit.root / "data")
        (self.kit.root / "data").mkdir()
        self.kit.start_server()
        until(lambda: leader(self.kit), what="the coordinator leads again")
        self.kit.celery("cache", "rebuild").check_returncode()
        assert objects(self.kit) == entry_paths(self.kit.index())


class Restored(Loss):
    """It is restored from a copy that is some seconds old."""

    def remember(self) -> None:
        shutil.copytree(self.kit.root / "data", self.kit.root / "copy")

    def lose(self) -> None:
        self.kit.kill_server()
        shutil.rmtree(self.kit.root / "data")
        (self.kit.root / "copy").rename(self.kit.root / "data")
        self.kit.start_server()


class FailedOver(Loss):
    """A replica that missed the last seconds takes its place, and its address."""

    def start(self) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.kit.start_server("--port", str(self.port), "--bind", "127.0.0.1")
        self.replica = Kit(self.kit.root / "replica")
        self.replica.start_server("--replicaof", "127.0.0.1", str(self.port), "--repl-diskless-sync-delay", "0")

    def remember(self) -> None:
        marker = f"marker {time.time_ns()}"
        self.kit.redis().set("marker", marker)
        until(lambda: self.replica.redis().get("marker") == marker.encode(), what="the replica has followed")
        self.replica.redis().replicaof("NO", "ONE")

    def lose(self) -> None:
        self.kit.kill_server()
        self.replica.socket.rename(self.kit.socket)

    def close(self) -> None:
        self.replica.close()


def purge(kit: Kit) -> int:
    """An operator's purge: the generation that it opened."""
    index, name = kit.index(), f"operator {time.time_ns()}"
    answer = until(lambda: isinstance(a := index.ask_purge(name), Purged) and a, 20, "purged")
    return answer.generation


@pytest.mark.parametrize("how", [Flushed, Wiped, Restored, FailedOver])
def test_a_server_that_lost_data_costs_no_job_an_entry(tmp_path: Path, how: Callable[[Kit], Loss]) -> None:
    kit = Kit(tmp_path)
    kit.env |= SHORT
    loss = how(kit)
    try:
        loss.start()
        kit.start_worker(2)
        start_leader(kit)
        ops = {name: op(kit, name) for name in ("old", "new", "purged")}
        load = {name: farm.load(str(kit.manifest(one, name=f"{name}.json"))) for name, one in ops.items()}
        holder = kit.job(job_id="holder", **SHORT_SETTINGS)
        with kit.job(**SHORT_SETTINGS) as other:
            other.compile(load["purged"])
        first = holder.compile(load["old"])[0]
        loss.remember()
        second = holder.compile(load["new"])[0]
        generation = purge(kit)
        assert generation == 2
        waiting = Submission(
            kit, kit.manifest(op(kit, "slow", seconds=3), op(kit, "slow2", seconds=4)), **SHORT_SETTINGS
        )
        compiling(kit, "slow")
        loss.lose()
        # What was purged does not come back; what is held is there, under the same bytes.
        index = kit.index()
        until(lambda: index.generation() >= generation, 15, "the purge is known again")
        results = waiting.join(60)
        assert [result.outcome for result in results] == ["compiled"] * 2
        until(lambda: len(held_tokens(kit, holder)) == 2, 15, "what is held is known again")
        for result, before in zip(holder.compile([*load["old"], *load["new"]]), [first, second], strict=True):
            assert result.outcome == "hit"
            assert result.files == before.files
        time.sleep(1.5)  # longer than the grace: what could be lost is lost by now
        for path in bundles_of(kit, holder):
            identify(path.read_bytes(), key=bytes.fromhex(path.name.partition("-")[0]))
        with kit.job(**SHORT_SETTINGS) as other:
            assert other.compile(load["purged"])[0].outcome == "compiled"
        holder.close()
        assert_no_attempt_was_charged(kit)
        assert_clean(kit)
    except BaseException:
        print(kit.logs())  # noqa: T201
        raise
    finally:
        kit.close()
        loss.close()


def held_tokens(kit: Kit, job: farm.Job) -> list[int]:
    """The tokens that the index has for what a job holds, pinned."""
    (part,) = job._parts.values()
    index, found = kit.index(), []
    for held in list(part.held.values()):
        (token,) = index.known_tokens(held.generation, [held.key])
        if token == held.record.token and kit.redis().hget(f"{index.prefix}i:{held.generation}", held.key):
            found.append(token)
    return found


def bundles_of(kit: Kit, job: farm.Job) -> list[Path]:
    (part,) = job._parts.values()
    rows = list(part.held.values())
    assert rows
    return [
        kit.store / str(part.namespace) / str(row.generation) / f"{row.key.hex()}-{row.record.token}" for row in rows
    ]


def assert_no_attempt_was_charged(kit: Kit) -> None:
    for name in objects(kit):
        path = kit.store / name
        bundle, _ = identify(path.read_bytes(), key=bytes.fromhex(path.name.partition("-")[0]))
        assert bundle.provenance["attempt"] == 1, name


def test_an_outage_longer_than_all_leases_costs_nothing(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT, FARM_RECONNECT_SECONDS="60") as kit:
        start_leader(kit)
        holder = kit.job(job_id="holder", **SHORT_SETTINGS)
        held = holder.compile(farm.load(str(kit.manifest(op(kit, "held")))))[0]
        waiting = Submission(kit, kit.manifest(op(kit, "slow", seconds=9)), **SHORT_SETTINGS)
        compiling(kit, "slow")
        kit.kill_server()
        time.sleep(8)  # what is awaited is the outage itself: longer than the job's and the claim's lease
        kit.start_server()
        assert [result.outcome for result in waiting.join(60)] == ["compiled"]
        assert kit.compiles("slow") == 1
        again = holder.compile(farm.load(str(kit.manifest(op(kit, "held")))))[0]
        assert (again.outcome, again.files) == ("hit", held.files)
        assert kit.compiles() == 2
        holder.close()
        assert_no_attempt_was_charged(kit)
        assert_clean(kit)


def test_all_killed_with_50_claims_out_then_50_results(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, **SHORT) as kit:
        workers = [kit.start_worker(2), kit.start_worker(2)]
        first = start_leader(kit)
        told = {"seconds": 600, "once": str(tmp_path / "first")}
        ops = [op(kit, "long", **told), *[op(kit, f"op{n}") for n in range(49)]]
        for worker in workers:
            kit.kill(worker, signal.SIGSTOP)
        waiting = Submission(kit, kit.manifest(*ops), **SHORT_SETTINGS)
        until(lambda: kit.redis().hget(f"{kit.index().prefix}meta", "misses") == b"50", what="claimed")
        kit.kill(workers[0], signal.SIGCONT)
        compiling(kit, "long")
        for process in (*workers, first):
            kit.kill(process)
        start_leader(kit)
        until(lambda: not kit.redis().zcard(f"{kit.index().prefix}running"), 15, "dead workers' claims are queued")
        kit.start_worker(2)
        assert [result.outcome for result in waiting.join(90)] == ["compiled"] * 50
        assert_clean(kit)


def test_celerys_own_purge_with_50_claims_queued_costs_none(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        start_leader(kit)
        kit.kill(kit.processes[0], signal.SIGSTOP)
        waiting = Submission(kit, kit.manifest(*[op(kit, f"op{n}") for n in range(50)]), **SHORT_SETTINGS)
        until(lambda: kit.redis().hget(f"{kit.index().prefix}meta", "misses") == b"50", what="claimed")
        kit.celery("purge", "-f", "-Q", command_queue(kit)).check_returncode()
        kit.kill(kit.processes[0], signal.SIGCONT)
        assert [result.outcome for result in waiting.join(90)] == ["compiled"] * 50
        assert kit.compiles() == 50


def test_an_operator_that_kills_its_worker_fails_after_3_attempts_and_others_go_on(tmp_path: Path) -> None:
    environment = SHORT | {"FARM_CLAIM_LEASE_SECONDS": "2"}
    with running(tmp_path, workers=0, **environment) as kit:
        start_coordinator(kit)
        worker = kit.start_worker(1)
        poison = kit.manifest(op(kit, "poison", kills_worker=True), name="poison.json")
        doomed = Submission(kit, poison, job_id="doomed", **SHORT_SETTINGS)
        others = Submission(kit, kit.manifest(*[op(kit, f"op{n}") for n in range(3)]), **SHORT_SETTINGS)
        for _ in range(3):
            until(lambda w=worker: w.poll() is not None or not doomed._thread.is_alive(), 20, "it kills its worker")
            if worker.poll() is not None:
                worker = kit.start_worker(1)
        doomed._thread.join(20)
        error = doomed.results[0].error
        assert error is not None
        assert error.failure.kind == "transient"
        assert error.failure.message.count("attempt ") == 3
        assert error.failure.message.count("worker lost") == 3
        late = kit.job(job_id="doomed", **SHORT_SETTINGS)
        started = time.monotonic()
        told = late.compile(farm.load(str(poison)))[0].error
        assert time.monotonic() - started < 2
        assert told is not None
        assert told.failure.message == error.failure.message
        late.close()
        doomed.join(1)
        assert [result.outcome for result in others.join(30)] == ["compiled"] * 3
        assert kit.compiles("poison") == 3


def test_what_is_not_the_farms_is_never_touched(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, **SHORT) as kit:
        kit.farm()
        name = "ab" * 32 + "-1700000000000000"
        outside = tmp_path / "outside"
        foreign = [
            "README", "default/notes.txt", "default/test-soc/1/README", "default/test-soc/1/deep/er/file",
            f"default/test-soc/01/{name}", f"default/test-soc/1/{name}.bak", "default/test-soc/generations/x",
            f"team/farm/default/soc/1/{name}", f"default/test-soc/00/{name}", f"default/test-soc/1/{'AB' * 32}-17",
            f"sources/{'ab' * 32}", f"sources/{'ab' * 32}-5/a", f"sources/{'AB' * 32}-5", "sources/op.cu",
        ]  # fmt: skip
        for path in [*(kit.store / each for each in foreign), outside / "1" / name, outside / name]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("not yours")
        (kit.store / "default" / "linked").symlink_to(outside)
        (kit.store / "default" / "test-soc" / "1" / f"{'cd' * 32}-17").symlink_to(outside / name)
        (kit.store / "empty" / "folder").mkdir(parents=True)
        before = tree(tmp_path, kit)
        orphan = kit.store / "default" / "test-soc" / "1" / name
        orphan.write_text("a worker that died between putting and publishing")
        leftover = orphan.with_name(f"{'ef' * 32}-1700000000000001#1")
        leftover.write_text("a worker that died while putting")
        old_sources = [kit.store / "sources" / f"{'cd' * 32}-{end}" for end in ("5", "5#1")]
        for path in old_sources:
            path.write_text("of an epoch that ended long ago")
        kit.redis().set("opfarm:{farm}:source_epoch", 1000)
        kit.redis().sadd("opfarm:{farm}:namespaces", "default/test-soc")
        kit.index().open(1)
        start_leader(kit)
        from farm.coordinator.chores import ask_rebuild

        ask_rebuild(kit.redis())
        until(lambda: not orphan.exists() and not leftover.exists(), 25, "orphans go")
        limits = kit.store / "default" / "op_cache.ini"  # the farm's own, made where there is none
        until(limits.exists, what="the coordinator has made it")
        ask_rebuild(kit.redis())  # the next search comes after it
        until(lambda: not any(path.exists() for path in old_sources), 25, "sources that no claim can name go")
        time.sleep(0.5)
        assert tree(tmp_path, kit) == before | {str(limits): limits.read_text()}


def tree(root: Path, kit: Kit) -> dict[str, str]:
    found = {}
    for top in (kit.store, root / "outside"):
        for path in top.rglob("*"):
            if "farm.selftest" not in path.parts:
                found[str(path)] = path.read_text() if path.is_file() else f"-> {path.is_symlink()}"
    return found
