"""The index's server is lost: for a while, for good, from the start; or it is not fit for use."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

import farm
from farm.errors import FarmRefused
from tests.fault.test_workers import Submission, compiling
from tests.support.forked import Forked
from tests.support.kit import CELERY, Kit, op, running, until


def test_a_job_goes_on_after_20_seconds_without_its_server(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        told = {"seconds": 3}
        manifest = kit.manifest(*[op(kit, f"op{n}", **told) for n in range(6)])
        submission = Submission(kit, manifest)
        compiling(kit, "op0")
        kit.kill_server()
        time.sleep(20)  # what is awaited is the outage itself
        kit.start_server()
        assert [result.outcome for result in submission.join(60)] == ["compiled"] * 6
        assert kit.compiles() == 6


def test_a_server_gone_for_good_ends_the_submission_with_3_and_leaves_what_was_delivered(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(op(kit, "quick"), op(kit, "slow", seconds=600))
        submit = Forked(
            [*CELERY, "submit", str(manifest), "--json", "--op-compiler-cache-dir", str(tmp_path / "k")],
            env=kit.env | {"FARM_RECONNECT_SECONDS": "4"}, cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: list((tmp_path / "k").glob("kernel_cache/*/*/kernel.o")), what="the quick one is delivered")
        kit.kill_server()
        started = time.monotonic()
        stdout, stderr = submit.communicate(timeout=30)
        assert submit.returncode == 3
        assert 3 < time.monotonic() - started < 15
        error = json.loads(stdout)["error"]
        assert str(kit.socket) in error["message"]
        assert error["fix"]
        assert "Traceback" not in stderr
        assert len(list((tmp_path / "k").glob("kernel_cache/*/*/kernel.o"))) == 1


def test_not_up_at_start_is_told_within_5_seconds(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    try:
        for environment in ({}, {"FARM_INDEX_URL": "redis://127.0.0.1:1/0"}, {"FARM_INDEX_URL": ""}):
            started = time.monotonic()
            done = kit.submit(kit.manifest(op(kit, "one")), **environment)
            assert time.monotonic() - started < 5
            assert done.returncode == 3
            error = json.loads(done.stdout)["error"]
            address = environment.get("FARM_INDEX_URL", str(kit.socket)) or str(tmp_path / "state")
            assert address in error["message"]
            assert error["fix"]
            assert "Traceback" not in done.stderr
    finally:
        kit.close()


def test_an_evicting_server_is_refused_with_the_fix(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    try:
        kit.start_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
        done = kit.submit(kit.manifest(op(kit, "one")))
        assert done.returncode == 3
        assert "allkeys-lru" in done.stdout
        assert "noeviction" in json.loads(done.stdout)["error"]["fix"]
        worker = kit.popen([*CELERY, "worker", "-c", "1"])
        assert worker.wait(30) == 3
        assert "noeviction" in kit.logs()
        assert "Traceback" not in kit.logs()
    finally:
        kit.close()


def test_another_farms_store_and_another_schema_are_refused(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    try:
        kit.start_server()
        kit.farm()
        with pytest.raises(FarmRefused, match="is not there"):
            kit.farm(store_url=f"file://{tmp_path}/elsewhere")
        assert not (tmp_path / "elsewhere").exists()
        (tmp_path / "elsewhere").mkdir()
        with pytest.raises(FarmRefused, match="is empty"):
            kit.farm(store_url=f"file://{tmp_path}/elsewhere")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "farm.json").write_text('{"farm_id": "feedfeedfeedfeed", "schema": 1}')
        with pytest.raises(FarmRefused, match="feedfeedfeedfeed"):
            kit.farm(store_url=f"file://{tmp_path}/other")
        kit.redis().hset("opfarm:{farm}:identity", "schema", 99)
        with pytest.raises(FarmRefused, match="schema version 99"):
            kit.farm()
    finally:
        kit.close()


def test_an_emptied_server_is_healed_by_the_jobs_that_live(tmp_path: Path) -> None:
    with running(tmp_path, FARM_HEARTBEAT_SECONDS="0.5") as kit:
        manifest = kit.manifest(*[op(kit, f"op{n}") for n in range(4)])
        with kit.job(job_id="j", heartbeat_seconds=0.5) as job:
            held = job.compile(farm.load(str(manifest)))
            kit.redis().flushall()
            until(lambda: kit.redis().hlen(kit.index().prefix + "e:1") == 4, what="announced")
            until(kit.farm().connection.registry.workers, what="the worker registers again")
            assert kit.redis().hvals(kit.index().prefix + "i:1") == [b"1"] * 4
            again = job.compile(farm.load(str(manifest)))
            assert [result.outcome for result in again] == ["hit"] * 4
            assert [result.files for result in again] == [result.files for result in held]
        assert kit.compiles() == 4
