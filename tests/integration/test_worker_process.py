"""The worker as a process: what it refuses, which queues it serves, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import farm
from farm.errors import FarmRefused
from farm.index.registry import Worker
from farm.settings import Settings
from tests.support.kit import CELERY, Kit, op, processes_with, until
from workers.toolchains import Found
from workers.worker import CompileWorker


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    """A farm without workers, whose workers have their scratch space below the test's folder."""
    kit = Kit(tmp_path)
    (tmp_path / "tmp").mkdir()
    kit.env["TMPDIR"] = str(tmp_path / "tmp")
    kit.start_server()
    yield kit
    kit.close()


def start(kit: Kit, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    return kit.popen([*CELERY, "worker", "-c", "1", "-l", "INFO", *options], **environment)


def refused(kit: Kit, *options: str, **environment: str) -> str:
    """What a worker says that does not start."""
    assert start(kit, *options, **environment).wait(30) == 3
    assert "Traceback" not in kit.logs()
    return kit.logs()


def workers(kit: Kit) -> list[Worker]:
    return kit.farm().connection.registry.workers()


def scratch(kit: Kit) -> list[Path]:
    return list((kit.root / "tmp").glob("opfarm-*/worker-*"))


def test_another_pool_is_refused(kit: Kit) -> None:
    assert "Error: compile workers bring their own pool of threads (leave -P (--pool) out)" in refused(
        kit, "-P", "solo"
    )


def test_a_machine_without_any_toolchain_is_refused_with_the_reasons(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found((), {"host": "neither CXX is set nor is g++ on PATH", "command": "it is not allowed"})
    monkeypatch.setattr("workers.toolchains.find", lambda settings: found)
    settings = Settings.read({"FARM_INDEX_URL": kit.env["FARM_INDEX_URL"]}, **kit.settings())
    with pytest.raises(FarmRefused, match=r"no toolchain \(host: neither CXX is set .*; command: it is not allowed\)"):
        CompileWorker(settings, lambda namespace, queue: None, lambda queue: True)


def test_queues_of_other_machines_are_refused(kit: Kit) -> None:
    assert "or use: compile.cuda." in refused(kit, "-Q", "compile.host.000000000000")


def test_a_farm_that_is_not_there_is_told(kit: Kit) -> None:
    assert "127.0.0.1:1" in refused(kit, FARM_INDEX_URL="redis://127.0.0.1:1/0")


def test_a_store_that_can_not_be_written_is_told(kit: Kit) -> None:
    (kit.root / "file").write_text("")
    assert str(kit.root / "file") in refused(kit, FARM_STORE_URL=f"file://{kit.root}/file/store")


def test_a_scratch_folder_of_somebody_else_is_refused(kit: Kit) -> None:
    base = kit.root / "tmp" / "opfarm-0"
    base.symlink_to(kit.root)
    assert "scratch folder" in refused(kit)


def test_a_worker_serves_its_toolchains_and_no_other_queue(kit: Kit) -> None:
    start(kit, CXX="no-such-compiler")
    (row,) = until(lambda: workers(kit), what="registered")
    assert queue_of(row, "host") == ""
    assert queue_of(row, "command")
    assert row.slots == 1
    until(lambda: "toolchain host is not offered: CXX=no-such-compiler" in kit.logs(), what="the reason is logged")
    banner = kit.logs().partition("[queues]")[2].partition("[tasks]")[0]
    assert banner.count("exchange=") == len(row.queues)


def queue_of(row: Worker, toolchain: str) -> str:
    return next((queue for queue in row.queues if queue.startswith(f"compile.{toolchain}.")), "")


def test_queues_can_be_left_out_or_chosen(kit: Kit) -> None:
    first = kit.start_worker()
    (row,) = workers(kit)
    kit.kill(first)
    cuda = queue_of(row, "cuda")
    start(kit, "-Q", cuda, "-n", "a@%h")
    start(kit, "-X", cuda, "-n", "b@%h")
    rest = tuple(queue for queue in row.queues if queue != cuda)
    assert cuda and rest
    until(lambda: {worker.queues for worker in workers(kit)} >= {(cuda,), rest}, what="both registered")


def test_a_worker_for_other_work_is_none_of_ours(kit: Kit) -> None:
    start(kit, "-Q", "farm.jobs")
    until(lambda: "ready." in kit.logs(), 30, "the worker is ready")
    assert workers(kit) == []
    assert scratch(kit) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_an_idle_worker_leaves_nothing_behind(number: signal.Signals, kit: Kit) -> None:
    worker = kit.start_worker()
    assert len(scratch(kit)) == 1
    worker.send_signal(number)
    worker.wait(10)
    assert workers(kit) == []
    assert scratch(kit) == []
    assert "Traceback" not in kit.logs()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_busy_worker_gives_its_claim_back(number: signal.Signals, kit: Kit) -> None:
    worker = kit.start_worker(1)
    first = kit.root / "first"
    requests = farm.load(str(kit.manifest(op(kit, "long", seconds=600, once=str(first)))))
    results: list[farm.Result] = []
    with kit.job() as job:
        thread = threading.Thread(target=lambda: results.extend(job.compile(requests)))
        thread.start()
        until(first.exists, what="it compiles")
        worker.send_signal(number)
        worker.wait(10)
        assert not processes_with(str(kit.root / "tmp")), "the compiler was left"
        assert scratch(kit) == []
        claims = [kit.redis().hgetall(name) for name in kit.redis().keys(f"{kit.index().prefix}c:*")]
        assert [(claim[b"state"], claim[b"attempt"]) for claim in claims] == [(b"queued", b"0")]
        kit.start_worker(1)
        thread.join(20)
        assert [result.outcome for result in results] == ["compiled"]


def test_a_compile_leaves_nothing_where_the_worker_was_started(kit: Kit) -> None:
    kit.start_worker()
    one = op(kit, "messy")
    one["source"] = {
        "text": "mkdir kernel_meta; echo x > kernel_meta/x; echo x > $HOME/.cache; cp kernel_meta/x $1/a.o"
    }
    one["options"] = {"argv": ["sh", "{source}", "{out}"], "outputs": ["*.o"]}
    before = {path for path in kit.root.rglob("*") if path.parts[len(kit.root.parts)] not in ("data", "store")}
    with kit.job() as job:
        assert [result.outcome for result in job.compile(farm.load(str(kit.manifest(one))))] == ["compiled"]
    made = {path.relative_to(kit.root).parts[0] for path in kit.root.rglob("*") if path not in before}
    assert made <= {"kernels", "ops.json", "store", "data"}
