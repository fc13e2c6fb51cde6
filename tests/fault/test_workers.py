"""Workers, keepers and messages that are lost, doubled or late."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

import farm
from farm.celery import create, send_compiles
from farm.client.results import Result
from tests.support.kit import CELERY, Kit, children_of, op, processes_with, running, until

SHORT = {"FARM_CLAIM_LEASE_SECONDS": "4"}


class Submission:
    """A job that compiles in a thread, so that the test can break things meanwhile."""

    def __init__(self, kit: Kit, manifest: Path, **settings: object) -> None:
        self.results: list[Result] = []
        self.job = kit.job(**settings)
        self._thread = threading.Thread(target=self._run, args=(farm.load(str(manifest)),))
        self._thread.start()

    def _run(self, requests: list) -> None:
        self.results = self.job.compile(requests)

    def join(self, seconds: float) -> list[Result]:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"no answer within {seconds} s"
        self.job.close()
        return self.results


def command_queue(kit: Kit) -> str:
    """The compile queue of the toolchain `command`."""
    return next(offer.queue for offer in kit.farm().connection.registry.offers() if offer.toolchain == "command")


def compiling(kit: Kit, id: str) -> int:
    """The process of an operator's compiler, once it runs."""
    until(lambda: kit.compiles(id), what=f"{id} compiles")
    return next(int(line.split()[0]) for line in kit.counter.read_text().splitlines() if line.split()[1] == id)


@pytest.mark.parametrize("victim", ["worker", "keeper", "both"])
def test_kill_9_in_mid_compile_leaves_no_process_and_another_worker_finishes(tmp_path: Path, victim: str) -> None:
    with running(tmp_path, **SHORT) as kit:
        helper = f"sleep 601.{os.getpid()}"
        told = {"seconds": 600, "helper": helper.split()[1], "once": str(tmp_path / "first")}
        submission = Submission(kit, kit.manifest(op(kit, "long", **told)))
        compiler = compiling(kit, "long")
        until(lambda: processes_with(helper), what="the helper in its own session runs")
        first = kit.processes[0]
        keepers = ancestors_below(compiler, first.pid)
        second = kit.start_worker()
        assert second.poll() is None
        # The keeper first: the other one may have cleaned up and ended before a second signal is sent.
        if victim in ("keeper", "both"):
            os.kill(keepers[-1] if victim == "both" else keepers[0], signal.SIGKILL)
        if victim in ("worker", "both"):
            first.send_signal(signal.SIGKILL)
        until(lambda: not processes_with(helper) and not Path(f"/proc/{compiler}").exists(), 5, "all are gone")
        result = submission.join(4 + 10)[0]
        assert result.outcome == "compiled"
        assert kit.compiles("long") == 2
        assert kit.redis().hlen(kit.index().prefix + "e:1") == 1


def ancestors_below(pid: int, top: int) -> list[int]:
    """The processes between a process and one above it, nearest to the top first."""
    chain: list[int] = []
    while True:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if parent in (top, 1, 0):
            return list(reversed(chain))
        chain.append(parent)
        pid = parent


def test_a_worker_paused_past_its_lease_can_not_publish_over_the_winner(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        first = kit.processes[0]
        told = {"seconds": 3, "once": str(tmp_path / "first"), "stamp": "loser"}
        one = op(kit, "slow", **told)
        submission = Submission(kit, kit.manifest(one))
        compiling(kit, "slow")
        os.kill(first.pid, signal.SIGSTOP)
        kit.start_worker()
        result = submission.join(4 + 10)[0]
        assert result.outcome == "compiled"
        bytes_before = {path.name: path.read_bytes() for path in result.files.values()}
        entry_before = kit.redis().hgetall(kit.index().prefix + "e:1")
        os.kill(first.pid, signal.SIGCONT)
        until(lambda: not children_of(first.pid), 20, "the paused worker gives up its compile")
        assert kit.redis().hgetall(kit.index().prefix + "e:1") == entry_before
        again = kit.job("another").compile(farm.load(str(kit.manifest(one))))[0]
        assert again.outcome == "hit"
        assert {path.name: path.read_bytes() for path in again.files.values()} == bytes_before
        assert kit.compiles("slow") == 2


def test_a_doubled_message_is_one_compile(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as kit:
        submission = Submission(kit, kit.manifest(op(kit, "one", seconds=2)))
        compiling(kit, "one")
        send_compiles(create(kit.farm().connection.addresses), str(kit.index().namespace), command_queue(kit), 3)
        assert submission.join(20)[0].outcome == "compiled"
        assert kit.compiles() == 1
        assert kit.redis().hget(kit.index().prefix + "meta", "compiles") == b"1"


def test_messages_thrown_away_are_made_up_for(tmp_path: Path) -> None:
    with running(tmp_path, workers=0) as kit:
        worker = kit.start_worker()
        kit.kill(worker, signal.SIGSTOP)
        submission = Submission(kit, kit.manifest(*[op(kit, f"op{n}") for n in range(3)]))
        until(lambda: kit.redis().hget(kit.index().prefix + "meta", "misses") == b"3", what="claimed")
        purge = kit.celery("purge", "-f", "-Q", command_queue(kit))
        purge.check_returncode()
        assert "purged" in purge.stdout.lower() or "3" in purge.stdout
        kit.kill(worker, signal.SIGCONT)
        assert [result.outcome for result in submission.join(40)] == ["compiled"] * 3
        assert kit.compiles() == 3


def test_sigterm_gives_running_claims_back_uncounted(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit:
        submission = Submission(kit, kit.manifest(op(kit, "one", seconds=600, once=str(tmp_path / "first"))))
        compiling(kit, "one")
        second = kit.start_worker(1)
        kit.kill(kit.processes[0], signal.SIGTERM)
        assert submission.join(15)[0].outcome == "compiled"
        assert kit.processes[0].wait(15) == 0
        assert second.poll() is None


def test_interrupting_the_only_asker_stops_the_compile(tmp_path: Path) -> None:
    with running(tmp_path, FARM_CLAIM_LEASE_SECONDS="2") as kit:
        submit = kit.popen([*CELERY, "submit", str(kit.manifest(op(kit, "one", seconds=600))), "--json"])
        compiler = compiling(kit, "one")
        submit.send_signal(signal.SIGINT)
        assert submit.wait(10) == 130
        until(lambda: not Path(f"/proc/{compiler}").exists(), 10, "the compile is stopped")
        until(lambda: not kit.redis().zcard(kit.index().prefix + "running"), 10, "the claim is gone")


def test_a_killed_asker_leaves_a_compile_that_finishes_and_is_cached(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(op(kit, "one", seconds=2))
        submit = kit.popen([*CELERY, "submit", str(manifest), "--json"])
        compiling(kit, "one")
        submit.kill()
        until(lambda: kit.redis().hlen(kit.index().prefix + "e:1") == 1, 15, "published")
        document = json.loads(kit.submit(manifest).stdout)
        assert document["counts"]["hit"] == 1
