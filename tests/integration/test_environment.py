"""Odd surroundings: a shadowing working folder, a forked child, another project's Celery variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import farm
from tests.support.forked import Forked, run
from tests.support.kit import CELERY, HOST, Kit, op, running, until


def test_a_working_folder_with_its_own_workers_and_farm_and_nonsense_for_celery(tmp_path: Path) -> None:
    folder = tmp_path / "user"
    (folder / "workers").mkdir(parents=True)
    for name in ("workers/__init__.py", "workers/tasks.py", "farm.py", "celery_config.py"):
        (folder / name).write_text("raise RuntimeError('the user s own file was imported')\n")
    nonsense = {"CELERY_BROKER_URL": "nonsense://nowhere", "CELERY_RESULT_BACKEND": "nonsense://nowhere"}
    celery = str(Path(sys.executable).with_name("celery"))
    with running(tmp_path, workers=0, **nonsense) as kit:
        with (tmp_path / "log-user").open("wb") as log:
            worker = subprocess.Popen(
                [celery, "-A", "farm", "worker", "-c", "1"], env=kit.env, cwd=folder, stdout=log, stderr=log
            )
        try:
            done = subprocess.run(
                [celery, "-A", "farm", "submit", str(kit.manifest(op(kit, "one"))), "--json",
                 "--op-compiler-cache-dir", str(tmp_path / "k")],
                env=kit.env, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr + kit.logs()
            assert json.loads(done.stdout)["counts"]["compiled"] == 1
        finally:
            worker.terminate()
            worker.wait(20)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_of_a_process_that_used_the_client(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        first, second, third = (farm.load(str(kit.manifest(op(kit, name)))) for name in ("a", "b", "c"))
        connected = kit.farm()
        job = connected.job("parent", op_compiler_cache_dir=tmp_path / "parent")
        assert job.compile(first)[0].outcome == "compiled"

        def in_child() -> bool:
            fresh = connected.job("child", op_compiler_cache_dir=tmp_path / "child")
            outcomes = [fresh.compile(requests)[0].outcome for requests in (first, second)]
            inherited = job.compile(third)[0]
            fresh.close()
            job.close()
            return outcomes == ["hit", "compiled"] and inherited.files["kernel.o"].exists()

        assert in_fork(in_child, 60) == 0
        assert [result.outcome for result in job.compile(first)] == ["hit"]
        assert kit.compiles() == 3
        job.close()


def in_fork(function: object, seconds: int) -> int:
    """Run in a forked child; its exit code, or a failed test when it hangs."""
    import signal
    import time

    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if function() else 1  # type: ignore[operator]
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the forked child hangs")


def test_wrong_input_is_one_clear_line_and_exit_2(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        good = op(kit, "one")
        cases: dict[str, tuple[object, str]] = {
            "unknown field": ([good | {"colour": 1}], "colour"),
            "bad shape": ([good | {"inputs": [{"shape": [2, -3], "dtype": "float16"}]}], "shape"),
            "missing source": ([good | {"source": {"path": "not-there.cpp"}}], "not-there.cpp"),
            "unknown toolchain": ([good | {"toolchain": "fortran"}], "fortran"),
            "unknown option": ([good | {"options": good["options"] | {"colour": "red"}}], "colour"),
            "duplicate names": ([good, good], "one"),
            "empty manifest": ([], "ops"),
        }
        for what, (ops, named) in cases.items():
            check_refused(kit, kit.manifest(*ops), what, named)  # type: ignore[misc]
        garbage = tmp_path / "garbage.yaml"
        garbage.write_bytes(os.urandom(10_000_000))
        check_refused(kit, garbage, "garbage", "garbage.yaml")
        check_refused(kit, tmp_path / "nowhere.json", "no file", "nowhere.json")
        check_refused(kit, tmp_path, "a folder", "is a folder")
        assert kit.compiles() == 0


def check_refused(kit: Kit, manifest: Path, what: str, named: str) -> None:
    """Exit 2, the error as JSON and as one line, no traceback, and the culprit named."""
    done = kit.submit(manifest)
    assert done.returncode == 2, (what, done.stdout, done.stderr)
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "input"
    assert named in error["message"], (what, error)
    assert "\n" not in error["message"], (what, error)
    assert "Traceback" not in done.stderr, what


def test_a_closed_job_answers_nothing_and_holds_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        requests = farm.load(str(kit.manifest(op(kit, "one"))))
        job = kit.job(job_id="closed")
        assert job.compile([]) == []
        job.compile(requests)
        job.close()
        with pytest.raises(farm.InputError, match="closed"):
            job.compile(requests)
        assert not kit.redis().zcard(kit.index().prefix + "jobs")


def test_without_any_worker_the_bound_and_the_timeout_hold(tmp_path: Path) -> None:
    with running(tmp_path, workers=0) as kit:
        manifest = kit.manifest(op(kit, "one"))
        for options, environment in ((("--timeout", "1"), {}), ((), {"FARM_NO_WORKER_SECONDS": "1"})):
            done = kit.submit(manifest, *options, **environment)
            assert done.returncode == 3
            assert "no worker has ever registered" in json.loads(done.stdout)["error"]["message"]
        assert not kit.redis().smembers("opfarm:{farm}:namespaces")


def test_an_unknown_soc_opens_no_namespace(tmp_path: Path) -> None:
    with running(tmp_path, **HOST) as kit:
        source = {"text": 'extern "C" int f() { return 1; }'}
        path = kit.manifest({"name": "one", "type": "Add", "toolchain": "host", "soc": "sm_90", "source": source})
        check_refused(kit, path, "unknown soc", "sm_90")
        assert not kit.redis().smembers("opfarm:{farm}:namespaces")


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_an_ended_command_still_writes_one_document(tmp_path: Path, number: int, code: int) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(op(kit, "one", seconds=600))
        with Forked(
            [*CELERY, "submit", str(manifest), "--json"],
            env=kit.env, cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        ) as submit:  # fmt: skip
            until(lambda: kit.compiles("one"), what="it compiles")
            submit.send_signal(number)
            stdout, _ = submit.communicate(timeout=20)
        assert submit.returncode == code
        assert set(json.loads(stdout)) == {"error"}


def test_a_broker_that_is_away_ends_the_submission_after_the_bound(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        away = {"FARM_BROKER_URL": "redis://127.0.0.1:1/0", "FARM_RECONNECT_SECONDS": "3"}
        done = kit.submit(kit.manifest(op(kit, "one")), **away)
        assert done.returncode == 3
        assert "127.0.0.1:1" in json.loads(done.stdout)["error"]["message"]
        done = kit.submit(kit.manifest(op(kit, "one")), FARM_BROKER_URL="memory://")
        assert done.returncode == 2
        assert "FARM_BROKER_URL" in json.loads(done.stdout)["error"]["message"]


def test_settings_of_other_celery_projects_and_names_of_our_libraries(tmp_path: Path) -> None:
    foreign = {"CELERY_CONFIG_MODULE": "nosuch", "CELERY_LOADER": "nosuch", "CELERY_BROKER_WRITE_URL": "x://y"}
    with running(tmp_path) as kit:
        for name in ("pydantic", "pydantic_core", "redis", "obstore", "msgpack", "fractions", "yaml"):
            (tmp_path / f"{name}.py").write_text("raise RuntimeError('the file of the user was imported')\n")
        celery = str(Path(sys.executable).with_name("celery"))
        done = subprocess.run(
            [celery, "-A", "farm", "submit", str(kit.manifest(op(kit, "one"))), "--json",
             "--op-compiler-cache-dir", str(tmp_path / "k")],
            env=kit.env | foreign, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_usage_of_a_group_is_one_document(tmp_path: Path) -> None:
    for words in (["cache", "nosuch", "--json"], ["cache", "--json"], ["job", "nosuch", "--json"]):
        done = run([*CELERY, *words], cwd=tmp_path, text=True)
        assert done.returncode == 2, words
        assert set(json.loads(done.stdout)) == {"error"}


def test_wrong_usage_names_the_command_that_helps(tmp_path: Path) -> None:
    for words, named in {
        ("job", "ls", "--nosuch"): "celery -A farm job ls",
        ("cache", "show"): "celery -A farm cache show",
        ("job", "nosuch"): "celery -A farm job",
        ("submit",): "celery -A farm submit",
    }.items():
        done = run([*CELERY, *words], cwd=tmp_path, text=True)
        assert done.returncode == 2 and f"Usage: {named} " in done.stderr and f"'{named} --help'" in done.stderr
        done = run([*CELERY, *words, "--json"], cwd=tmp_path, text=True)
        assert json.loads(done.stdout)["error"]["fix"] == f"see: {named} --help"
