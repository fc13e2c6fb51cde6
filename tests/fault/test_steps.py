"""Workers and members of jobs are killed, or paused past their leases, at every step of their work."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.coordinator.chores import ask_rebuild
from farm.failpoint import VARIABLE
from farm.index import names
from tests.fault.test_leaders import state
from tests.fault.test_recovery import purge
from tests.fault.test_workers import Submission
from tests.support.forked import Forked
from tests.support.kit import Kit, children_of, op, running, until
from tests.support.led import SHORT, SHORT_SETTINGS, assert_clean, objects, start_leader

WORKER_POINTS = ["take.after_take", "compile.after_compile", "store.after_put", "publish.after_publish"]
CLIENT_POINTS = [
    "join.after_join", "acquire.after_acquire", "claim.after_sources", "claim.after_claim", "fetch.after_get",
    "announce.after_announce",
]  # fmt: skip
TIMES = SHORT | {
    "FARM_CLAIM_LEASE_SECONDS": "2", "FARM_JOB_LEASE_SECONDS": "2", "FARM_HEARTBEAT_SECONDS": "0.4",
    "FARM_MAX_ATTEMPTS": "10",
}  # fmt: skip
PATIENT = SHORT_SETTINGS | {"claim_lease_seconds": 2, "max_attempts": 10}
#: What is there already when these ask for it.
WARM = ("acquire.after_acquire", "fetch.after_get")
RANK = Path(__file__).parents[1] / "support" / "rank.py"


def wait_for(process: subprocess.Popen[Any], states: str, what: str) -> None:
    until(lambda: state(process.pid) in states, 20, what)


@pytest.mark.long
def test_a_worker_lost_at_any_step_costs_another_attempt_and_no_more(tmp_path: Path) -> None:
    """A claim goes from worker to worker; each is lost one step later than the one before."""
    with running(tmp_path, workers=0, **TIMES) as kit:
        start_leader(kit)
        lose_workers(kit, "kill")
        for worker in lose_workers(kit, "stop"):
            wait_for(worker, "T", "paused")
            worker.send_signal(signal.SIGCONT)
            until(lambda w=worker: not children_of(w.pid), 10, "it ends what it had begun")
        entries = kit.redis().hgetall(f"{kit.index().prefix}e:1")
        ask = ask_rebuild(kit.redis()).encode()  # the search for what killed workers have put
        until(lambda: kit.redis().hget(names.CHORES, "rebuild_done") == ask, 20, "searched")
        assert kit.redis().hgetall(f"{kit.index().prefix}e:1") == entries
        assert len(entries) == 2
        assert_clean(kit)


def lose_workers(kit: Kit, how: str) -> list[subprocess.Popen[bytes]]:
    """Compile one operator by workers that are all lost on the way."""
    lost = [kit.start_worker(1, **{VARIABLE: f"{WORKER_POINTS[0]}:{how}"})]
    waiting = Submission(kit, kit.manifest(op(kit, how)), **PATIENT)
    for point in WORKER_POINTS[1:]:
        wait_for(lost[-1], "TXZ", f"lost before {point}")
        lost.append(kit.start_worker(1, **{VARIABLE: f"{point}:{how}"}))
    (result,) = waiting.join(20)
    assert result.outcome == "compiled"
    assert kit.compiles(how) == 3  # the first one was lost before it compiled
    return lost


class Lost:
    """A member of a job of its own, which is lost at a point of its work."""

    def __init__(self, kit: Kit, point: str, how: str) -> None:
        self.point, self.how, self.id = point, how, f"{point}.{how}"
        padding = "x" * 100_000 if point == "claim.after_sources" else ""
        manifest = kit.manifest(op(kit, self.id, padding=padding), name=f"{self.id}.json")
        self.process = Forked(
            [sys.executable, str(RANK), str(manifest), str(kit.root / "kernels"), self.id, "hold"],
            env=kit.env | {VARIABLE: f"{point}:{how}"}, cwd=kit.root, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout
        return str(self.process.stdout.readline())

    def begin(self) -> None:
        """Let it compile; of those that are to be lost when they announce, await what they got."""
        assert self.line() == "ready\n"
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if self.point == "announce.after_announce":
            assert self.line()

    def come_back(self) -> None:
        """Go on, have the kernel, and end well."""
        self.process.send_signal(signal.SIGCONT)
        if self.point != "announce.after_announce":
            assert '"digests": {"' in self.line()
        assert self.process.communicate(timeout=20)[0] == ""
        assert self.process.returncode == 0

    def close(self) -> None:
        self.process.kill()
        with self.process:  # closes its pipes
            pass


def test_a_member_lost_at_any_step_leaves_nothing_and_comes_back_to_what_is(tmp_path: Path) -> None:
    """Paused past its lease, it goes on in a farm that has forgotten its job and purged what it had been given."""
    with running(tmp_path, **TIMES) as kit:
        start_leader(kit)
        members = [Lost(kit, point, how) for point in CLIENT_POINTS for how in ("kill", "stop")]
        try:
            with kit.job("warm", **PATIENT) as job:
                warm = [op(kit, one.id, padding="") for one in members if one.point in WARM]
                job.compile(farm.load(str(kit.manifest(*warm))))
            for one in members:
                one.begin()
            kit.redis().flushall()
            for one in members:
                wait_for(one.process, "TXZ", f"lost: {one.id}")
            until(lambda: not kit.redis().zcard(f"{kit.index().prefix}jobs"), 20, "their jobs have lapsed")
            purge(kit)
            until(lambda: not any(path.split("/")[2] == "1" for path in objects(kit)), 20, "all of them is swept")
            for one in members:
                if one.how == "stop":
                    one.come_back()
            assert_clean(kit)
            with kit.job("after", **PATIENT) as job:
                ops = [op(kit, one.id, padding="") for one in members]
                outcomes = {result.outcome for result in job.compile(farm.load(str(kit.manifest(*ops))))}
            assert outcomes <= {"compiled", "hit"}
        finally:
            for one in members:
                one.close()
