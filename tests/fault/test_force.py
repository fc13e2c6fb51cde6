"""Mode force among jobs that run: it hurts nobody, it costs one purge, and it says so when nobody serves it."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import farm
from farm.namespace import bundle_path
from tests.support.kit import Kit, op, running, until
from tests.support.led import (
    SHORT,
    SHORT_SETTINGS,
    assert_clean,
    entry_paths,
    leader,
    objects,
    put_entries,
    start_leader,
)

FORCING = Path(__file__).parents[1] / "support" / "forcing.py"


class Reader:
    """A job that holds entries and reads their bundles from the store all the time."""

    def __init__(self, kit: Kit, requests: list[farm.Request]) -> None:
        self._store = kit.farm().connection.store
        self.job = kit.job(job_id="J1", **SHORT_SETTINGS)
        self.results = self.job.compile(requests)
        self.errors: list[str] = []
        self.rounds = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        (part,) = self.job._parts.values()
        while not self._stop.is_set():
            for held in list(part.held.values()):
                path = bundle_path(part.namespace, held.generation, held.key, held.record.token)
                try:
                    if hashlib.sha256(self._store.get(path)).digest() != held.record.sha256:
                        self.errors.append(f"{path} has changed")
                except Exception as error:
                    self.errors.append(f"{path}: {error!r}")
            self.rounds += 1
            self._stop.wait(0.02)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.job.close()


def force(kit: Kit, manifest: Path, folder: Path, count: int, rounds: int) -> subprocess.Popen[bytes]:
    folder.mkdir()
    return kit.popen([sys.executable, "-P", str(FORCING), str(count), str(rounds), str(manifest), str(folder)])


def answers(folder: Path) -> list[list[dict]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("force-*.json"))]


def test_force_jobs_of_ten_processes_again_and_again_take_nothing_from_a_job(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        start_leader(kit)
        requests = farm.load(str(kit.manifest(*[op(kit, f"op{n}") for n in range(200)], name="all.json")))
        put_entries(kit, requests)
        reader = Reader(kit, requests)
        assert {result.outcome for result in reader.results} == {"hit"}
        few = kit.manifest(*[op(kit, f"op{n}") for n in range(3)])
        forcing = force(kit, few, tmp_path / "f", 10, 3)
        assert forcing.wait(100) == 0, kit.logs()
        assert {result.outcome for result in reader.job.compile(requests)} == {"hit"}
        assert all(result.files for result in reader.results)
        old = {path for path in entry_paths(kit.index()) if path.split("/")[2] == "1"}
        assert len(old) == 200
        reader.close()
        assert reader.errors == []
        assert reader.rounds > 1
        rows = [row for rows in answers(tmp_path / "f") for row in rows]
        assert len(rows) == 30
        for row in rows:
            assert min(row["tokens"]) >= row["asked_ms"] * 1000
            assert min(row["generations"]) >= row["floor"] > 1
        until(lambda: not objects(kit) & old, 1 + 5, "the old generations are gone")
        assert {path.split("/")[2] for path in entry_paths(kit.index())} <= {str(kit.index().generation())}
        assert_clean(kit)


def test_a_paused_coordinator_serves_ten_requests_with_one_purge(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        paused = start_leader(kit)
        requests = farm.load(str(kit.manifest(op(kit, "one"))))
        put_entries(kit, requests)
        paused.send_signal(signal.SIGSTOP)
        forcing = force(kit, tmp_path / "ops.json", tmp_path / "f", 10, 1)
        index = kit.index()
        until(lambda: kit.redis().xlen(f"{index.prefix}purges") == 10, 30, "ten requests wait")
        paused.send_signal(signal.SIGCONT)
        assert forcing.wait(60) == 0, kit.logs()
        rows = [row for rows in answers(tmp_path / "f") for row in rows]
        assert {row["floor"] for row in rows} == {2}
        assert kit.redis().hget(f"{index.prefix}meta", "purges") == b"1"
        assert [path.name for path in (kit.store / str(index.namespace) / "generations").iterdir()] == ["2"]
        assert kit.compiles() == 1
        assert_clean(kit)


def test_without_a_coordinator_force_fails_in_time_and_enable_works(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        assert leader(kit) is None
        manifest = kit.manifest(op(kit, "one"))
        started = time.monotonic()
        done = kit.submit(manifest, "--mode", "force", FARM_FORCE_TIMEOUT_SECONDS="2")
        assert time.monotonic() - started < 2 + 10
        assert done.returncode == 3
        error = json.loads(done.stdout)["error"]
        assert "coordinator" in error["fix"]
        assert kit.compiles() == 0
        assert kit.submit(manifest).returncode == 0
        assert kit.compiles() == 1
