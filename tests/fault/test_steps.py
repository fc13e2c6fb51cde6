"""Workers and members of jobs are killed, or paused past their leases, at every step of their work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
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
from tests.support.kit import CELERY, Kit, children_of, op, running, until
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
        kit.farm().connection.registry  # noqa: B018 - the farm has its identity before anybody asks
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
