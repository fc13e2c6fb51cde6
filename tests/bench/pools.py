"""Celery's pools, compared for compiles below a keeper: jobs a second and memory, with two slots.

    python -m tests.bench.pools [seconds a figure]

The rows without Celery say what the keeper costs by itself. The machine's speed wanders: compare within one run.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis
from celery import Celery

from farm.embedded.server import start
from farm.settings import sibling_url
from tests.bench._filled import say
from workers.keeping import Keeping, Limits

SLOTS = 2
WAITING = 4 * SLOTS
POOLS = {"threads": "workers.pool:TaskPool", "prefork": "prefork"}
SOURCE = "#include <algorithm>\n#include <vector>\nvoid f(std::vector<int>& v) { std::sort(v.begin(), v.end()); }\n"

INDEX_URL = os.environ.get("BENCH_INDEX_URL", "")
app = Celery("pools", set_as_current=False)
if INDEX_URL:
    app.conf.update(
        broker_url=sibling_url(INDEX_URL, 1),
        worker_pool=POOLS[os.environ["BENCH_POOL"]],
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
    )


def argv(kind: str, folder: str) -> list[str]:
    """The command of one job."""
    if kind == "true":
        return ["/bin/true"]
    return [
        "g++",
        "-O2",
        "-shared",
        "-fPIC",
        "-x",
        "c++",
        f"{folder}/source.cpp",
        "-o",
        f"{folder}/out-{time.time_ns()}",
    ]


def keep(kind: str, folder: str) -> None:
    """One job below a keeper."""
    env = {"PATH": os.environ["PATH"]}
    ending = Keeping(argv(kind, folder), env=env, cwd=Path(folder), limits=Limits(60)).wait()
    assert ending.code == 0, ending


def bare(kind: str, folder: str) -> None:
    """One job without a keeper."""
    subprocess.run(argv(kind, folder), check=True)


@app.task(name="pools.job")
def job(kind: str, folder: str) -> None:
    """One job below a keeper, counted; while its kind is measured it sends the next, so that some always wait."""
    keep(kind, folder)
    with redis.Redis.from_url(INDEX_URL) as server:
        server.incr(f"done {kind}")
        if server.get("measured") == kind.encode():
            job.apply_async((kind, folder))


def without_celery(run: Callable[[str, str], None], kind: str, folder: str, seconds: float) -> float:
    """Jobs a second in plain threads."""
    end_at, done = time.monotonic() + seconds, itertools.count()

    def work() -> None:
        while time.monotonic() < end_at:
            run(kind, folder)
            next(done)

    with ThreadPoolExecutor(SLOTS) as pool:
        for future in [pool.submit(work) for _ in range(SLOTS)]:
            future.result()
    return next(done) / seconds


def with_celery(server: redis.Redis, kind: str, folder: str, seconds: float) -> float:
    """Jobs a second of the worker that runs."""

    def done() -> int:
        return int(server.get(f"done {kind}") or 0)

    server.set("measured", kind)
    for _ in range(WAITING):
        app.send_task("pools.job", (kind, folder), queue="celery")
    deadline = time.monotonic() + 60
    while done() < WAITING:
        assert time.monotonic() < deadline, "the worker does not work"
        time.sleep(0.01)
    before, started = done(), time.monotonic()
    time.sleep(seconds)
    rate = (done() - before) / (time.monotonic() - started)
    server.delete("measured")
    return rate


def pss_mb(pids: list[int]) -> float:
    """Memory of processes, shared pages counted in proportion."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def with_children(pid: int) -> list[int]:
    """A process of the worker and those that it has forked itself."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], check=False, capture_output=True, text=True)
    return [pid, *map(int, listed.stdout.split())]


def measure_pool(pool: str, url: str, folder: str, seconds: float) -> str:
    """A row of the table."""
    app.conf.broker_url = sibling_url(url, 1)
    worker = subprocess.Popen(
        [
            sys.executable, "-m", "celery", "-q", "-A", "tests.bench.pools", "worker", "-c", str(SLOTS), "-l", "ERROR",
            "--without-gossip", "--without-mingle",
        ],
        env=os.environ | {"BENCH_INDEX_URL": url, "BENCH_POOL": pool, "PYTHONWARNINGS": "ignore"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with redis.Redis.from_url(url) as server:
        server.flushall()
        try:
            rates = {kind: with_celery(server, kind, folder, seconds) for kind in ("true", "gcc")}
            time.sleep(2)  # the last jobs end: the memory is the worker's own
            memory_mb = pss_mb(with_children(worker.pid))
        finally:
            worker.terminate()
            worker.wait(30)
    return row(f"Celery, {pool}, keeper", rates, f"{memory_mb:.0f}")


def row(name: str, rates: dict[str, float], memory_mb: str = "") -> str:
    """A row of the table."""
    return f"{name:28} {rates['gcc']:7.1f} {rates['true']:7.0f} {memory_mb:>7}"


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "source.cpp").write_text(SOURCE)
        say(f"{'':28} {'gcc/s':>7} {'true/s':>7} {'PSS MB':>7}")
        for name, run in (("threads, no keeper", bare), ("threads, keeper", keep)):
            say(row(name, {kind: without_celery(run, kind, folder, seconds) for kind in ("true", "gcc")}))
        server = start(Path(folder, "server"))
        try:
            for pool in POOLS:
                say(measure_pool(pool, server.url, folder, seconds))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
