"""Celery's pools, compared for compiles below a keeper: jobs a second and memory, with two slots.

    python -m tests.bench.pools [seconds a figure]

For ``g++ -O2`` and for ``/bin/true``: jobs a second, and processor milliseconds a job with all that it takes. The
second is nearly the same on a busy machine. The rows without Celery say what the keeper costs by itself.
"""

from __future__ import annotations

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
KINDS = ("gcc", "true")
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


def argv(kind: str) -> list[str]:
    """The command of one job."""
    if kind == "true":
        return ["/bin/true"]
    return f"g++ -O2 -shared -fPIC -x c++ source.cpp -o out-{time.time_ns()}".split()


def keep(kind: str, folder: str) -> None:
    """One job below a keeper."""
    env = {"PATH": os.environ["PATH"]}
    ending = Keeping(argv(kind), env=env, cwd=Path(folder), limits=Limits(60)).wait()
    assert ending.code == 0, ending


def bare(kind: str, folder: str) -> None:
    """One job without a keeper."""
    subprocess.run(argv(kind), cwd=folder, check=True)


@app.task(name="pools.job")  # type: ignore[untyped-decorator]
def job(kind: str, folder: str) -> None:
    """One job below a keeper, counted; while its kind is measured it sends the next, so that some always wait."""
    keep(kind, folder)
    with redis.Redis.from_url(INDEX_URL) as server:
        server.incr(f"done {kind}")
        if server.get("measured") == kind.encode():
            job.apply_async((kind, folder))


class Meter:
    """Jobs a second and processor time a job between now and then."""

    def __init__(self, done: Callable[[], int], pids: list[int]) -> None:
        self.done, self.pids = done, pids
        self.start = self.read()

    def read(self) -> tuple[float, int, float]:
        """Time, jobs done, processor seconds of the processes and their ended children."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
        return time.monotonic(), self.done(), ticks / os.sysconf("SC_CLK_TCK")

    def figures(self) -> tuple[float, float]:
        """Jobs a second, processor milliseconds a job."""
        seconds, jobs, cpu = (now - then for now, then in zip(self.read(), self.start, strict=True))
        return jobs / seconds, 1000 * cpu / max(1, jobs)


def without_celery(run: Callable[[str, str], None], kind: str, folder: str, seconds: float) -> tuple[float, float]:
    """The figures of plain threads."""
    end_at = time.monotonic() + seconds
    ended: list[float] = []

    def work() -> None:
        while time.monotonic() < end_at:
            run(kind, folder)
            ended.append(time.monotonic())

    meter = Meter(lambda: len(ended), [os.getpid()])
    with ThreadPoolExecutor(SLOTS) as pool:
        for future in [pool.submit(work) for _ in range(SLOTS)]:
            future.result()
    return meter.figures()


def with_celery(server: redis.Redis, pid: int, kind: str, folder: str, seconds: float) -> tuple[float, float]:
    """The figures of the worker that runs."""

    def done() -> int:
        return int(server.get(f"done {kind}") or 0)

    server.set("measured", kind)
    for _ in range(WAITING):
        app.send_task("pools.job", (kind, folder), queue="celery")
    deadline = time.monotonic() + 60
    while done() < WAITING:
        assert time.monotonic() < deadline, "the worker does not work"
        time.sleep(0.01)
    meter = Meter(done, with_children(pid))
    time.sleep(seconds)
    figures = meter.figures()
    server.delete("measured")
    return figures


def pss_mb(pids: list[int]) -> float:
    """Memory of processes, shared pages counted in proportion."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def with_children(pid: int) -> list[int]:
    """A worker and the processes of its pool: those of its children that stay."""
    looks = []
    for _ in range(5):
        command = ["ps", "-o", "pid=", "--ppid", str(pid)]
        looks.append(set(subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()))
        time.sleep(0.5)
    return [pid, *map(int, set.intersection(*looks))]


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
            figures = {kind: with_celery(server, worker.pid, kind, folder, seconds) for kind in KINDS}
            time.sleep(2)  # the last jobs end: the memory is the worker's own
            memory_mb = pss_mb(with_children(worker.pid))
        finally:
            worker.terminate()
            worker.wait(30)
    return row(f"Celery, {pool}, keeper", figures, f"{memory_mb:.0f}")


def row(name: str, figures: dict[str, tuple[float, float]], memory_mb: str = "") -> str:
    """A row of the table."""
    columns = "".join(f"{rate:9.1f} {cpu_ms:7.1f}" for rate, cpu_ms in figures.values())
    return f"{name:24}{columns} {memory_mb:>8}"


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "source.cpp").write_text(SOURCE)
        say(f"{'':24}" + "".join(f"{kind + '/s':>9} {'CPU ms':>7}" for kind in KINDS) + f" {'PSS MB':>8}")
        for name, run in (("threads, no keeper", bare), ("threads, keeper", keep)):
            say(row(name, {kind: without_celery(run, kind, folder, seconds) for kind in KINDS}))
        server = start(Path(folder, "server"))
        try:
            for pool in POOLS:
                say(measure_pool(pool, server.url, folder, seconds))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
