"""``job ls / show / wait / cancel / release`` and ``submit --no-wait``, on a real farm."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.client.results import Result
from farm.client.waiting import JobWait
from farm.index.joblist import live_jobs
from tests.support.kit import SOC, Kit, op, processes_with, running, until

#: A member hears of the end at its next poll, which comes within 5 s.
HEARD_SECONDS = 8


def job(kit: Kit, *words: str, code: int = 0) -> dict[str, Any]:
    """One ``job`` command's JSON document."""
    done = kit.celery("job", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def load(kit: Kit, *ops: dict[str, Any], soc: str | None = None) -> list[farm.Request]:
    rows = [one | ({"soc": soc} if soc else {}) for one in ops]
    return farm.load(str(kit.manifest(*rows, name=f"{ops[0]['name']}.json")))


def in_background(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def pins(kit: Kit) -> int:
    return sum(int(count) for count in kit.redis().hvals(kit.index().prefix + "i:1"))


def test_submit_without_waiting_then_wait_then_fetch(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        gate = tmp_path / "gate"
        there, cold, bad = op(kit, "there"), op(kit, "cold", gate=str(gate)), op(kit, "bad", exit=1, say="no\n")
        assert kit.submit(kit.manifest(there)).returncode == 0
        manifest = kit.manifest(there, cold)
        done = kit.submit(manifest, "--no-wait", "--job-id", "train", "--owner", "team=a", "--priority", "urgent")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["state"] == "submitted"
        assert document["counts"] == {"hit": 1, "compiled": 0, "joined": 0, "failed": 0, "pending": 1}
        assert [row["outcome"] for row in document["ops"]] == ["hit", "pending"]
        assert all(Path(path).exists() for path in document["ops"][0]["files"].values())

        shown = job(kit, "show", "train")
        assert (shown["mode"], shown["priority"], shown["owner"]["team"]) == ("enable", "urgent", "a")
        assert 200 < shown["leases"][0]["lease_left_seconds"] <= 300
        (part,) = shown["namespaces"]
        assert part["toolchains"]["command"]["version"] == "1"
        keys = part["keys"]
        assert (keys["total"], keys["present"], keys["queued"] + keys["running"]) == (2, 1, 1)

        gate.touch()
        waited = job(kit, "wait", "train")
        assert (waited["state"], waited["counts"]) == ("done", {"present": 2, "failed": 0, "pending": 0})
        # Neither the one that submitted nor the one that waited has left: the pins are there to be used.
        assert pins(kit) == 2
        fetched = json.loads(kit.submit(manifest, "--job-id", "train").stdout)
        assert fetched["counts"]["hit"] == 2
        assert fetched["incarnation"] == document["incarnation"]

        document = json.loads(kit.submit(kit.manifest(bad), "--no-wait", "--job-id", "train").stdout)
        assert document["state"] == "submitted"
        failed = job(kit, "wait", "train", code=1)
        assert (failed["state"], failed["counts"]) == ("failed", {"present": 2, "failed": 1, "pending": 0})
        assert failed["failures"][0]["error"]["kind"] == "rejected"
        text = kit.celery("job", "show", "train").stdout
        assert "2 present, 1 failed" in text
        assert "rejected: no" in text


def test_what_is_all_there_is_done_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(op(kit, "one"))
        kit.submit(manifest)
        document = json.loads(kit.submit(manifest, "--no-wait").stdout)
        assert (document["state"], document["counts"]["hit"]) == ("done", 1)


def test_wait_keeps_the_job_alive_and_gives_up_in_time(tmp_path: Path) -> None:
    lease_seconds = 6
    with running(tmp_path, FARM_JOB_LEASE_SECONDS=str(lease_seconds), FARM_HEARTBEAT_SECONDS="1") as kit:
        gate = tmp_path / "gate"
        kit.submit(kit.manifest(op(kit, "slow", gate=str(gate))), "--no-wait", "--job-id", "train")
        assert job(kit, "wait", "train", "--timeout", "1", code=1)["state"] == "timeout"
        answers: list[dict[str, Any]] = []
        waiting = in_background(lambda: answers.append(job(kit, "wait", "train")))
        time.sleep(lease_seconds + 1)  # longer than the lease of the one that submitted
        assert not answers
        gate.touch()
        waiting.join()
        assert answers[0]["state"] == "done"
        until(lambda: not live_jobs(kit.index(), 1), what="the memberships lapse")
        assert job(kit, "ls")["jobs"] == []
        for words in (("wait", "train"), ("show", "train"), ("cancel", "never-there")):
            error = job(kit, *words, code=2)["error"]
            assert error["code"] == "input"
            assert "no live job has the id" in error["message"]


def test_wait_takes_care_of_claims_that_nobody_else_cares_for(tmp_path: Path) -> None:
    """The one that submitted is gone, the messages are lost, and no worker is there for a while."""
    with running(tmp_path) as kit:
        (worker,) = kit.processes
        worker.terminate()
        worker.wait(20)
        kit.submit(kit.manifest(op(kit, "lost")), "--no-wait", "--job-id", "train")
        kit.redis().connection_pool.disconnect()
        kit.celery("purge", "-f", "-Q", _queue(kit)).check_returncode()
        waiting = JobWait(kit.farm(no_worker_seconds=1).connection, "train", print)
        assert waiting.run(30)[0] == "failed"
        (watched,) = waiting.watched.values()
        assert [error.failure.kind for error in watched.failed.values()] == ["no_worker"]
        kit.start_worker()
        assert job(kit, "wait", "train", "--timeout", "40")["counts"] == {"present": 1, "failed": 0, "pending": 0}


def _queue(kit: Kit) -> str:
    (name,) = kit.redis().scan_iter(f"{kit.index().prefix}queue:*")
    return str(name.decode().rpartition("queue:")[2])


@pytest.mark.parametrize("how", ["cancel", "release"])
def test_ending_a_job_ends_its_members_and_gives_pins_back(tmp_path: Path, how: str) -> None:
    with running(tmp_path, slots=1, FARM_HEARTBEAT_SECONDS="1", FARM_CLAIM_LEASE_SECONDS="4") as kit:
        ops = [op(kit, "there"), op(kit, "long", seconds=9 if how == "release" else 600), op(kit, "queued")]
        manifest = kit.manifest(*ops)
        kit.submit(kit.manifest(ops[0], name="first.json"))
        answers: list[subprocess.CompletedProcess[str]] = []
        member = in_background(lambda: answers.append(kit.submit(manifest, "--job-id", "train", "--owner", "team=a")))
        until(lambda: kit.compiles("long"), what="the long compile runs")
        until(lambda: pins(kit) == 3, what="all keys are pinned")
        waited: list[tuple[str, str]] = []
        waiter = in_background(lambda: waited.append(JobWait(kit.farm().connection, "train", print).run(60)))
        until(lambda: len(job(kit, "show", "train")["leases"]) == 2, what="somebody waits for the job")
        ended = job(kit, how, "train")
        assert ended["state"] == ("cancelled" if how == "cancel" else "released")
        assert [row["soc"] for row in ended["namespaces"]] == [SOC]
        assert (ended["members"], ended["namespaces"][0]["keys"]) == (2, 3)
        assert pins(kit) == 0
        for thread in (member, waiter):
            thread.join(HEARD_SECONDS)
            assert not thread.is_alive()
        ((state, reason),) = waited
        assert (state, reason.partition(" by ")[0]) == ("cancelled", f"job train was {ended['state']}")
        document = json.loads(answers[0].stdout)
        assert answers[0].returncode == 1
        assert "Traceback" not in answers[0].stderr
        assert (document["state"], document["counts"]["hit"], document["counts"]["failed"]) == ("failed", 1, 2)
        error = document["ops"][1]["error"]
        assert error["kind"] == "cancelled"
        assert error["message"].startswith(f"job train was {ended['state']} by ")
        assert "@" in error["message"]
        if how == "cancel":
            until(lambda: not processes_with(str(tmp_path / "compiles")), what="the compiler is stopped")
            assert kit.redis().hlen(kit.index().prefix + "e:1") == 1
        else:
            until(lambda: kit.redis().hlen(kit.index().prefix + "e:1") == 2, what="what ran has finished")
        assert kit.compiles("queued") == 0
        assert job(kit, "ls")["jobs"] == []
        again = json.loads(kit.submit(kit.manifest(ops[0]), "--job-id", "train").stdout)
        assert again["state"] == "done"
        assert again["incarnation"] > document["incarnation"]


def test_a_compile_that_another_job_wants_survives_a_cancel(tmp_path: Path) -> None:
    with running(tmp_path, slots=1, FARM_CLAIM_LEASE_SECONDS="2") as kit:
        wanted = load(kit, op(kit, "shared", seconds=3))
        got: dict[str, list[Result]] = {}
        with kit.job("a", "first") as first, kit.job("b", "second") as second:
            threads = [
                in_background(lambda: got.update(first=first.compile(wanted))),
                in_background(lambda: got.update(second=second.compile(wanted))),
            ]
            until(lambda: pins(kit) == 2 and kit.compiles(), what="both wait")
            job(kit, "cancel", "first")
            for thread in threads:
                thread.join(20)
            with pytest.raises(farm.FarmError, match="job first was cancelled by"):
                first.compile(wanted)
        assert got["first"][0].error and got["first"][0].error.failure.kind == "cancelled"
        assert got["second"][0].outcome in ("compiled", "joined")
        assert kit.compiles() == 1


def test_who_holds_pins_is_told_too(tmp_path: Path) -> None:
    with running(tmp_path, FARM_HEARTBEAT_SECONDS="0.5") as kit:
        manifest = kit.manifest(op(kit, "one"))
        holding = in_background(lambda: kit.submit(manifest, "--job-id", "train", "--hold", "100"))
        until(lambda: pins(kit) == 1 and kit.redis().hlen(kit.index().prefix + "e:1"), what="it is compiled and held")
        member = kit.job(job_id="train", heartbeat_seconds=0.5)
        member.compile(load(kit, op(kit, "one")))
        job(kit, "release", "train")
        holding.join(HEARD_SECONDS)
        assert not holding.is_alive()
        assert pins(kit) == 0
        until(member._closing.is_set, what="its heart has heard")
        with pytest.raises(farm.FarmError, match="job train was released by"):
            member.compile(load(kit, op(kit, "one")))


def test_a_job_of_two_namespaces_is_one_job(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        with kit.job("a", "train") as member, kit.job("b", "other") as other:
            member.compile([*load(kit, op(kit, "one")), *load(kit, op(kit, "two"), soc="second-soc")])
            other.compile(load(kit, op(kit, "one")))
            rows = {row["job_id"]: row for row in job(kit, "ls")["jobs"]}
            assert set(rows) == {"train", "other"}
            assert rows["train"]["namespaces"] == ["default/second-soc", f"default/{SOC}"]
            assert (rows["train"]["keys"], rows["train"]["members"]) == (2, 1)
            limited = job(kit, "ls", "--limit", "1")
            assert (len(limited["jobs"]), limited["more"]) == (1, True)
            shown = job(kit, "show", "train")
            assert [part["soc"] for part in shown["namespaces"]] == ["second-soc", SOC]
            assert len(shown["leases"]) == 1
            assert all(part["keys"]["present"] == 1 for part in shown["namespaces"])
            assert job(kit, "wait", "train")["counts"]["present"] == 2
            assert len(job(kit, "cancel", "train")["namespaces"]) == 2
            assert [row["job_id"] for row in job(kit, "ls")["jobs"]] == ["other"]
        assert "0 jobs" in kit.celery("job", "ls").stdout
