"""Workers and members of jobs are killed, or paused past their leases, at every step of their work."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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
RANK = Path(__file__).parents[1] / "support" / "rank.py"


def wait_for(process: subprocess.Popen[bytes], states: str, what: str) -> None:
    until(lambda: state(process.pid) in states, 20, what)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_worker_lost_at_any_step_costs_another_attempt_and_no_more(tmp_path: Path, how: str) -> None:
    """One claim goes from worker to worker; each is lost one step later than the one before."""
    with running(tmp_path, workers=0, **TIMES) as kit:
        start_leader(kit)
        lost = [kit.start_worker(1, **{VARIABLE: f"{WORKER_POINTS[0]}:{how}"})]
        waiting = Submission(kit, kit.manifest(op(kit, "one")), **PATIENT)
        for point in WORKER_POINTS[1:]:
            wait_for(lost[-1], "TXZ", f"lost before {point}")
            lost.append(kit.start_worker(1, **{VARIABLE: f"{point}:{how}"}))
        (result,) = waiting.join(20)
        assert result.outcome == "compiled"
        assert kit.compiles() == 3  # the first one was lost before it compiled
        entry = kit.redis().hgetall(f"{kit.index().prefix}e:1")
        for worker in lost:
            if how == "stop":
                wait_for(worker, "T", "paused")
                worker.send_signal(signal.SIGCONT)
                until(lambda w=worker: not children_of(w.pid), 10, "it ends what it had begun")
        ask = ask_rebuild(kit.redis()).encode()  # the search for what killed workers have put
        until(lambda: kit.redis().hget(names.CHORES, "rebuild_done") == ask, 20, "searched")
        assert kit.redis().hgetall(f"{kit.index().prefix}e:1") == entry
        assert_clean(kit)


def start_member(kit: Kit, point: str, how: str, large: bool = False) -> subprocess.Popen[str]:
    """A member of a job of its own, which is lost at that point; it waits for a line and prints what it got."""
    one = op(kit, point, padding="x" * 100_000) if large else op(kit, point)
    manifest = kit.manifest(one, name=f"{point}.json")
    return Forked(
        [sys.executable, str(RANK), str(manifest), str(kit.root / "kernels"), point, "hold"],
        env=kit.env | {VARIABLE: f"{point}:{how}"}, cwd=kit.root, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def begin(member: subprocess.Popen[str]) -> None:
    assert member.stdout
    assert member.stdin
    assert member.stdout.readline() == "ready\n"
    member.stdin.write("\n")
    member.stdin.flush()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_member_lost_at_any_step_leaves_nothing_and_comes_back_to_what_is(tmp_path: Path, how: str) -> None:
    """Paused past its lease, it goes on in a farm that has forgotten its job and purged what it had been given."""
    with running(tmp_path, **TIMES) as kit:
        start_leader(kit)
        sources = "claim.after_sources"
        members = {point: start_member(kit, point, how, large=point == sources) for point in CLIENT_POINTS}
        try:
            with kit.job("warm", **PATIENT) as job:
                warm = [op(kit, point) for point in ("acquire.after_acquire", "fetch.after_get")]
                job.compile(farm.load(str(kit.manifest(*warm))))
            for member in members.values():
                begin(member)
            announcing = members["announce.after_announce"]
            assert announcing.stdout
            assert announcing.stdout.readline()
            kit.redis().flushall()
            for point, member in members.items():
                until(lambda m=member: state(m.pid) in "TXZ", 20, f"lost at {point}")
            until(lambda: not kit.redis().zcard(f"{kit.index().prefix}jobs"), 20, "their jobs have lapsed")
            purge(kit)
            until(lambda: not any(path.split("/")[2] == "1" for path in objects(kit)), 20, "all of them is swept")
            if how == "stop":
                for member in members.values():
                    member.send_signal(signal.SIGCONT)
                for point, member in members.items():
                    assert member.stdout
                    assert point == "announce.after_announce" or '"digests": {"' in member.stdout.readline()
                    assert member.communicate(timeout=20)[0] == ""
                    assert member.returncode == 0
            assert_clean(kit)
            with kit.job("after", **PATIENT) as job:
                ops = [op(kit, point) for point in CLIENT_POINTS]
                outcomes = {result.outcome for result in job.compile(farm.load(str(kit.manifest(*ops))))}
            assert outcomes <= {"compiled", "hit"}
        finally:
            for member in members.values():
                member.kill()
                with member:  # closes its pipes
                    pass
