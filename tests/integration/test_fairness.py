"""Whose turn it is: jobs of any size beside each other, urgent ones first, busy workers passed by."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import farm
from farm.client.results import Result
from tests.support.kit import HOST, Kit, op, running, until

LARGE = 5000


def requests(kit: Kit, name: str, count: int, **told: Any) -> list[farm.Request]:
    """Operators of the steerable compiler."""
    ops = [op(kit, f"{name}-{n}", **told) for n in range(count)]
    return farm.load(str(kit.manifest(*ops, name=f"{name}.json")))


@contextmanager
def queued(kit: Kit, name: str, count: int, priority: str = "normal", **told: Any) -> Iterator[list[farm.Request]]:
    """A job that has claimed all its operators and waits for none of them."""
    wanted = requests(kit, name, count, **told)
    with kit.farm().job(name, priority=priority, op_compiler_cache_dir=kit.root / name) as job:
        assert {result.outcome for result in job.compile(wanted, timeout=0)} == {"pending"}
        yield wanted


def order(kit: Kit) -> list[str]:
    """The ids of the compiles that have begun, in their order."""
    return [line.split()[1] for line in kit.counter.read_text().splitlines()] if kit.counter.exists() else []


def test_small_and_urgent_jobs_beside_one_of_thousands(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit, queued(kit, "large", LARGE):
        (worker,) = kit.processes
        for name, priority, limit in (("small", "normal", 10), ("urgent", "urgent", 1)):
            # Nothing is compiled between the look at the order and the claims.
            worker.send_signal(signal.SIGSTOP)
            begun = len(order(kit))
            with queued(kit, name, 5, priority) as wanted:
                worker.send_signal(signal.SIGCONT)
                with kit.job(job_id=name) as member:
                    results = member.compile(wanted)
            assert {result.error for result in results} == {None}
            since = order(kit)[begun:]
            last = max(at for at, id in enumerate(since) if id.startswith(name))
            others = [id for id in since[:last] if not id.startswith(name)]
            assert len(others) <= limit, f"{name} waited for {others}"
        assert len(order(kit)) < LARGE / 10


def test_an_urgent_job_lifts_what_a_bulk_job_has_queued(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit, queued(kit, "bulk", 300, "bulk") as bulk, queued(kit, "normal", 300):
        with kit.farm().job("urgent", priority="urgent", op_compiler_cache_dir=tmp_path / "urgent") as job:
            begun = len(order(kit))
            results = job.compile(bulk[200:205])
        assert [result.outcome for result in results] == ["joined"] * 5
        assert len(order(kit)) - begun < 50


def test_nothing_waits_behind_a_worker_that_is_busy(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit, queued(kit, "long", 1, seconds=100):
        until(lambda: order(kit) == ["long-0"], what="the long compile runs")
        kit.start_worker(slots=1)
        with kit.job() as job:
            results = job.compile(requests(kit, "short", 20), timeout=60)
        assert [result.outcome for result in results] == ["compiled"] * 20
        assert kit.redis().zcard(f"{kit.index().prefix}running") == 1


def test_workers_that_are_stopped_and_replaced_cost_no_attempt(tmp_path: Path) -> None:
    with running(tmp_path, slots=2) as kit:
        got: list[Result] = []
        wanted = requests(kit, "op", 100, seconds=0.05)
        with kit.job() as job:
            client = threading.Thread(target=lambda: got.extend(job.compile(wanted)))
            client.start()
            for _ in range(5):
                begun = len(order(kit))
                until(lambda begun=begun: len(order(kit)) > begun + 3, what="a few compiles have begun")
                old = kit.processes[-1]
                old.send_signal(signal.SIGTERM)
                assert old.wait(10) == 0
                kit.start_worker(slots=2)
            client.join(60)
        assert [result.outcome for result in got] == ["compiled"] * 100
        assert attempts(kit, got) == {1}
        assert kit.compiles() > 100, "some compiles were stopped half-way"


def attempts(kit: Kit, results: list[Result]) -> set[int]:
    """In which attempt each result was made, as its bundle says."""
    from farm.index.stats import list_entries
    from farm.namespace import bundle_path
    from farm.store.bundle import unpack

    store, index = kit.farm().connection.store, kit.index()
    rows = [row for row in list_entries(index, None) if row.key.hex() in {result.key for result in results}]
    assert len(rows) == len(results)
    found = set()
    for row in rows:
        path = bundle_path(index.namespace, row.generation, row.key, row.record.token)
        bundle = unpack(store.get(path), key=row.key, sha256=row.record.sha256, stored_bytes=row.record.stored_bytes)
        found.add(bundle.provenance["attempt"])
    return found


def test_without_a_worker_hits_are_served_and_a_miss_is_told(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit:
        (there,) = requests(kit, "there", 1)
        kit.job().compile([there])
        (worker,) = kit.processes
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)
        kit.start_worker(FARM_ALLOW_ADHOC_COMMANDS="0", **HOST)
        (missing,) = requests(kit, "missing", 1)
        began = time.monotonic()
        with kit.job(folder="elsewhere", no_worker_seconds=1) as job:
            hit, miss = job.compile([there, missing])
        assert 1 <= time.monotonic() - began < 10
        assert (hit.outcome, len(hit.files)) == ("hit", 1)
        assert miss.error
        assert miss.error.failure.kind == "no_worker"
        message, _, offered = miss.error.failure.message.partition("; live workers offer: ")
        assert message.startswith("no worker offered toolchain command 1 (fingerprint ")
        assert message.endswith(" for 1 s")
        assert "host" in offered
        assert "command" not in offered
