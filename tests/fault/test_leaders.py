"""The leader is killed, or paused past its lease, at every step of its work; another takes over."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from pathlib import Path

import pytest

from farm.client.link import Link
from farm.client.part import Part
from farm.coordinator.chores import ask_rebuild
from farm.failpoint import VARIABLE
from farm.index import names
from farm.index.jobs import Holding, Member, Want
from farm.index.outcomes import Hit
from farm.index.upkeep import Purged
from farm.namespace import bundle_path
from farm.request.wire import pack as pack_request
from farm.store.bundle import identify
from tests.support.kit import Kit, running, until
from tests.support.led import SHORT, assert_clean, leader, objects, put_bundles, start_coordinator
from tests.unit.workers.requests import shell

POINTS = [
    "purge.before_marker", "purge.after_marker", "purge.after_raise", "reap.after_reclaim", "drain.after_chunk",
    "age.after_evict", "sweep.after_mark", "sweep.after_delete",
]  # fmt: skip
REBUILD_POINTS = ["rebuild.after_hold", "rebuild.after_drop", "rebuild.after_chunk", "orphans.after_chunk"]
TIMES = SHORT | {
    "FARM_JOB_LEASE_SECONDS": "2", "FARM_MIN_IDLE_SECONDS": "0", "ASCEND_MAX_OP_CACHE_SIZE": "1",
    "FARM_TICK_SECONDS": "0.05",
}  # fmt: skip


def state(pid: int) -> str:
    """R, S, T (stopped), or X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


class Life:
    """A job that holds entries and reads them, while others fill the cache and have it purged."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.index, self.store = kit.index(), kit.farm().connection.store
        # Longer than any stall of this process on a busy machine; what is judged by the settings' lease are the holds.
        who = Member("J1", "m", "enable", 1, b"{}", 20_000)
        self.part = Part(self.index, self.store, Link("", 10, lambda text: None), who)
        self.part.join()
        self.request = pack_request(shell(""), lambda blob: True)
        held = self.put(20)
        for key, answer in zip(held, self.part.acquire(held), strict=True):
            assert isinstance(answer, Hit)
            self.part.hold(Holding(answer.generation, key, answer.record))
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.rebuilds = False
        self._next_rebuild = 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(step,)) for step in (self._hold, self._work)]
        for thread in self._threads:
            thread.start()

    def put(self, count: int, size_bytes: int = 100) -> list[bytes]:
        rows = [(secrets.token_bytes(32), self.request) for _ in range(count)]
        put_bundles(self.kit, rows, size_bytes, self.index.generation() or 1)
        return [key for key, _ in rows]

    def _run(self, step) -> None:
        while not self._stop.is_set():
            try:
                step()
            except Exception as error:
                self.errors.append(repr(error))
            self._stop.wait(0.1)

    def _hold(self) -> None:
        self.part.heartbeat()
        for held in list(self.part.held.values()):
            path = bundle_path(self.index.namespace, held.generation, held.key, held.record.token)
            identify(self.store.get(path), key=held.key)

    def _work(self) -> None:
        """Enough to age; something to drain, to sweep and to reap; an object nobody knows; a row without bundle."""
        self.put(12, 100_000)
        self.part.claim([Want(secrets.token_bytes(32), self.request, "compile.none")], secrets.token_hex(8))
        self.index.take("compile.none", "dies at once", secrets.token_hex(8), 1)
        if self.rebuilds:
            (lost,) = self.put(1)
            for path in (self.kit.store / "default/test-soc").glob(f"*/{lost.hex()}-*"):
                path.unlink()
            orphan = bundle_path(self.index.namespace, 1, secrets.token_bytes(32), time.time_ns() // 1000)
            self.store.put(orphan, b"nobody knows this")
            if time.monotonic() > self._next_rebuild:  # a rebuild holds; the search for orphans comes after the hold
                ask_rebuild(self.kit.redis())
                self._next_rebuild = time.monotonic() + 4
            self._stop.wait(0.5)
        else:
            self.asked.append(secrets.token_hex(8))
            self.index.ask_purge(self.asked[-1])

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_leader_lost_at_any_step_costs_nothing(tmp_path: Path, how: str) -> None:
    with running(tmp_path, workers=0, **TIMES) as kit:
        life = Life(kit)
        try:
            pass_through(kit, how, POINTS)
            life.rebuilds = True
            for point in REBUILD_POINTS:
                pass_through(kit, how, [point])
        finally:
            life.close()
        start_coordinator(kit)
        assert life.errors == []
        check_end(kit, life)


def pass_through(kit: Kit, how: str, points: list[str]) -> None:
    """Each leads in its turn, until its point is reached."""
    life_ends = time.monotonic() + 10 * len(points) + 10
    left = {start_coordinator(kit, **{VARIABLE: f"{point}:{how}"}).pid: point for point in points}
    paused: dict[int, float] = {}
    while left or paused:
        for pid in [pid for pid in left if state(pid) in "TXZ"]:
            del left[pid]
            if how == "stop":
                paused[pid] = time.monotonic()
        for pid, since in list(paused.items()):
            if time.monotonic() - since > 1.5:  # past its lease: it goes on where it was, beside another leader
                del paused[pid]
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.3)
                os.kill(pid, signal.SIGKILL)
        until(lambda: not left or leader(kit), 10, f"somebody leads; left: {left}")
        assert time.monotonic() < life_ends, f"not reached: {left}"
        time.sleep(0.02)


def check_end(kit: Kit, life: Life) -> None:
    index = life.index
    for name in life.asked[-100:]:
        until(lambda name=name: isinstance(index.ask_purge(name), Purged), 10, "every request is answered")
    held = {bundle_path(index.namespace, one.generation, one.key, one.record.token) for one in life.part.held.values()}
    assert len(held) == 20
    assert held <= objects(kit)
    meta = {name.decode(): value for name, value in kit.redis().hgetall(f"{index.prefix}meta").items()}
    markers = {int(path.name) for path in (kit.store / str(index.namespace) / "generations").iterdir()}
    until(lambda: leader(kit), 10, "somebody leads")
    assert int(meta["purges"]) <= len(markers)
    assert max(markers) <= index.generation() == max(markers)
    ask = ask_rebuild(kit.redis()).encode()  # for what was lost after the last one
    until(lambda: kit.redis().hget(names.CHORES, "rebuild_done") == ask, 20, "the last rebuild")
    life.part.leave()
    until(lambda: index.held_until_ms() < time.time() * 1000, 10, "nothing is held")
    assert_clean(kit)
    assert not held & objects(kit)
