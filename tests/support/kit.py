"""A real farm for a test: server, store, Celery workers and clients as processes that it may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import farm
from farm.embedded.child import start_child
from farm.embedded.server import find_binary
from farm.index.index import Index
from farm.namespace import Namespace
from tests.support import forked

FAKECC = Path(__file__).with_name("fakecc.py")
SOC = "test-soc"
#: Workers start in half the time when they have no C++ compiler to hash; ``running(..., **HOST)`` gives it to them.
NO_HOST, HOST = {"CXX": "none"}, {"CXX": ""}
CELERY = [sys.executable, "-P", "-m", "celery", "-A", "farm"]


def until(condition: Callable[[], Any], seconds: float = 20, what: str = "") -> Any:
    """Await a condition; its value, or a failed test when the time is over."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        time.sleep(0.02)
    return value


class Kit:
    """One farm below one folder. Everything that it starts ends with it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # A unix socket's path must be short; pytest's folders are not.
        self._runtime = tempfile.TemporaryDirectory(prefix="of")
        self.socket = Path(self._runtime.name) / "s"
        self.store = root / "store"
        self.counter = root / "compiles"
        self.server: subprocess.Popen[bytes] | None = None
        self.processes: list[subprocess.Popen[bytes]] = []
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FARM_", "CELERY_"))},
            "FARM_INDEX_URL": f"unix://{self.socket}?db=0",
            "FARM_STORE_URL": f"file://{self.store}",
            "FARM_STATE_DIR": str(root / "state"),
            "FARM_ALLOW_ADHOC_COMMANDS": "1",
            **NO_HOST,
            "HOME": str(root / "home"),
            "PYTHONUNBUFFERED": "1",
        }
        (root / "home").mkdir(parents=True, exist_ok=True)
        (root / "data").mkdir(exist_ok=True)

    # -- the server ------------------------------------------------------------------------------------

    def start_server(self, *options: str) -> None:
        """Start (again) on the same data, with an append-only file."""
        self.socket.unlink(missing_ok=True)
        self.server = start_child(
            [
                find_binary(), "--port", "0", "--unixsocket", str(self.socket), "--save", "",
                "--dir", str(self.root / "data"), "--appendonly", "yes", "--appendfsync", "everysec", *options,
            ],
            cwd=self.root,
        )  # fmt: skip
        until(self._answers, what="server answers")

    def _answers(self) -> bool:
        try:
            return bool(self.redis().ping())
        except redis.RedisError:
            return False

    def kill_server(self) -> None:
        """kill -9."""
        assert self.server
        self.server.kill()
        self.server.wait()

    def redis(self) -> Any:
        """A client of the index's database."""
        return redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0), socket_timeout=5)

    def index(self, soc: str = SOC, cache: str = "default") -> Index:
        """The index of the test's namespace."""
        return Index(self.redis(), Namespace(cache, soc))

    # -- processes -------------------------------------------------------------------------------------

    def popen(self, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start a process of the farm; stdout and stderr go to a file that failed tests show."""
        with (self.root / f"log-{len(self.processes)}").open("ab") as log:
            process = forked.Forked(
                command, cwd=self.root, env=self.env | environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def start_worker(self, slots: int = 2, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker and wait until it has registered."""
        before = self._workers()
        name = f"w{len(self.processes)}@%h"
        worker = self.popen(
            [*CELERY, "worker", "-c", str(slots), "-n", name, "-l", "INFO", "--without-gossip", "--without-mingle"],
            **environment,
        )
        until(
            lambda: self._workers() - before or worker.poll() is not None,
            30,
            "worker registers",
        )
        assert worker.poll() is None, self.logs()
        return worker

    def _workers(self) -> set[str]:
        return {worker.id for worker in self.farm().connection.registry.workers()}

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        """Send a signal to that one process, not to what is below it."""
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()

    def logs(self) -> str:
        """What all processes have printed."""
        texts = {log.name: log.read_text(errors="replace")[-4000:] for log in sorted(self.root.glob("log-*"))}
        return "\n".join(f"--- {name}\n{text}" for name, text in texts.items())

    def close(self) -> None:
        """End everything."""
        for process in [*self.processes, *([self.server] if self.server else [])]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        self._runtime.cleanup()

    # -- clients ---------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What farm.connect needs to find this farm."""
        return {"store_url": self.env["FARM_STORE_URL"], "state_dir": self.root / "state"}

    def farm(self, **settings: Any) -> farm.Farm:
        """A client in this process."""
        return farm.connect(self.env["FARM_INDEX_URL"], **self.settings() | settings)

    def job(self, folder: str = "kernels", job_id: str | None = None, **settings: Any) -> farm.Job:
        """A member of a job in this process, with its own cache folder below the test's."""
        return self.farm(**settings).job(job_id, op_compiler_cache_dir=self.root / folder)

    def manifest(self, *ops: dict[str, Any], name: str = "ops.json") -> Path:
        """Write a manifest."""
        path = self.root / name
        path.write_text(json.dumps({"version": 1, "soc": SOC, "ops": list(ops)}))
        return path

    def celery(self, *words: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``celery -A farm WORDS`` to its end."""
        return forked.run(
            [*CELERY, *words], timeout, env=self.env | environment, cwd=self.root, stdin=subprocess.DEVNULL, text=True
        )

    def submit(self, manifest: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``submit --json`` to its end, with a cache folder of its own unless one is given."""
        folder = [] if "--op-compiler-cache-dir" in options else ["--op-compiler-cache-dir", str(self.root / "kernels")]
        return self.celery("submit", str(manifest), "--json", *folder, *options, timeout=150, **environment)

    def compiles(self, id: str | None = None) -> int:
        """How often the compiler ran (for one operator), counted by the compiler itself."""
        if not self.counter.exists():
            return 0
        return sum(id is None or line.split()[1] == id for line in self.counter.read_text().splitlines())


def op(kit: Kit, id: str, **told: Any) -> dict[str, Any]:
    """An operator compiled by the steerable compiler, which counts its runs."""
    source = {"counter": str(kit.counter), "id": id, **told}
    return {
        "name": id, "type": "Fake", "toolchain": "command", "source": {"text": json.dumps(source)},
        "options": {
            "argv": [sys.executable, "-I", "-S", str(FAKECC), "{source}", "{out}"],
            "outputs": sorted(told.get("files", {"kernel.o": 100})),
        },
    }  # fmt: skip


@contextmanager
def running(root: Path, workers: int = 1, slots: int = 2, **environment: str) -> Iterator[Kit]:
    """A farm with that many workers."""
    kit = Kit(root)
    kit.env |= environment
    try:
        kit.start_server()
        for _ in range(workers):
            kit.start_worker(slots)
        yield kit
    except BaseException:
        sys.stderr.write(kit.logs())
        raise
    finally:
        kit.close()


def processes_with(text: str) -> list[int]:
    """The processes whose command line contains a text (zombies have none)."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in line:
                found.append(int(folder.name))
    return found


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and not yet waited for."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in lists for child in text.split()]
