"""Doctor: settings and variables that mislead, each with its harmless twin."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farm.commands.doctor import environment
from farm.commands.doctor.examination import CHECKS, examine
from farm.commands.doctor.subject import Finding, NotExamined, Subject
from farm.errors import FarmError

INDEX = {"FARM_INDEX_URL": "redis://h:6379/0", "FARM_STORE_URL": "file:///mnt/s"}
BUCKET = INDEX | {"FARM_STORE_URL": "s3://bucket/p"}
REPOSITORY = Path(__file__).parents[3]


def settings(**environ: str) -> Finding:
    return environment.settings(Subject(environ))


def variables(**environ: str) -> Finding:
    return environment.environment(Subject(environ))


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"FARM_MAX_ATTEMPTS": "x"}, ["FARM_MAX_ATTEMPTS = 'x'"]),
        ({"FARM_MAX_ATTEMPTS": "0", "FARM_CACHE": "a/b"}, ["FARM_MAX_ATTEMPTS", "FARM_CACHE"]),
        ({"FARM_HEARTBEAT_SECONDS": "200"}, ["FARM_HEARTBEAT_SECONDS", "at most half"]),
        ({"FARM_HEARTBEAT_SECONDS": "200", "FARM_MAX_ATTEMPTS": ""}, ["FARM_HEARTBEAT_SECONDS"]),
        ({"FARM_BROKER_URL": "redis://h/1"}, ["FARM_BROKER_URL is set but FARM_INDEX_URL is not"]),
        ({"FARM_INDEX_URL": "redis://h/1"}, ["FARM_STORE_URL is not"]),
        ({"FARM_RECONNECT_SECONDS": "400"}, ["FARM_RECONNECT_SECONDS = 400", "FARM_JOB_LEASE_SECONDS = 300"]),
    ],
)
def test_a_wrong_setting_is_named(environ: dict[str, str], told: list[str]) -> None:
    found = settings(**environ)
    assert not found.ok and found.fix
    assert all(text in found.detail for text in told), found


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"FARM_MAX_ATTEMPTS": "1"},
        {"FARM_HEARTBEAT_SECONDS": "25", "FARM_JOB_LEASE_SECONDS": "60"},
        {"FARM_STORE_URL": "file:///x"},
        INDEX,
        INDEX | {"FARM_BROKER_URL": "redis://h/1"},
        {"FARM_RECONNECT_SECONDS": "400", "FARM_JOB_LEASE_SECONDS": "400"},
    ],
)
def test_a_right_one_is_not(environ: dict[str, str]) -> None:
    found = settings(**environ)
    assert found.ok, found
    assert all(name in found.detail for name in environ)


def test_one_wrong_setting_does_not_hide_where_the_farm_is() -> None:
    subject = Subject(INDEX | {"FARM_MAX_ATTEMPTS": "x", "FARM_HEARTBEAT_SECONDS": "1000"})
    assert (subject.index_url, subject.store_url) == (INDEX["FARM_INDEX_URL"], INDEX["FARM_STORE_URL"])
    assert len(subject.complaints) == 2


def test_a_secret_in_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = settings(FARM_INDEX_URL_FILE=str(tmp_path / "none"), FARM_MAX_ATTEMPTS="2")
    assert not found.ok
    assert "FARM_INDEX_URL_FILE" in found.detail


@pytest.mark.parametrize(
    ("environ", "told", "fix"),
    [
        ({"FARM_INDX_URL": "x"}, "FARM_INDX_URL is no setting", "did you mean FARM_INDEX_URL?"),
        ({"FARM_LEASE_CLAIM": "x"}, "FARM_LEASE_CLAIM is no setting", "FARM_LEASE_CLAIM"),
        ({"farm_cache": "x"}, "farm_cache is no setting", "did you mean FARM_CACHE?"),
        ({"LD_PRELOAD": "/x.so"}, "LD_PRELOAD = /x.so", "unset LD_PRELOAD"),
        ({"PYTHONHOME": "/x"}, "PYTHONHOME = /x", "unset PYTHONHOME"),
        ({"CPATH": "/x", "LDFLAGS": "-L/y"}, "CPATH, LDFLAGS", "include_dirs"),
        (BUCKET | {"HTTPS_PROXY": "http://u:secret@p:1"}, "HTTPS_PROXY sends", "NO_PROXY"),
        (BUCKET | {"https_proxy": "http://p:1", "NO_PROXY": "localhost"}, "HTTPS_PROXY sends", "NO_PROXY"),
        (BUCKET | {"HTTP_PROXY": "http://p:1", "AWS_ENDPOINT_URL": "http://minio:9000"}, "HTTP_PROXY", "NO_PROXY"),
    ],
)
def test_a_variable_that_misleads_is_named(environ: dict[str, str], told: str, fix: str) -> None:
    found = variables(**environ)
    assert not found.ok
    assert told in found.detail and fix in found.fix
    assert "secret" not in found.detail


@pytest.mark.parametrize(
    "environ",
    [
        {"FARM_INDEX_URL": "x", "FARM_INDEX_URL_FILE": "y"},
        {"FARMHOUSE": "x", "MY_FARM_X": "y"},
        {"LD_PRELOAD": "", "CPATH": "", "CXX": "g++", "PATH": "/bin"},
        INDEX | {"HTTPS_PROXY": "http://p:1"},
        BUCKET | {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, .amazonaws.com"},
        BUCKET | {"HTTP_PROXY": "http://p:1", "AWS_ENDPOINT_URL": "http://a.minio:9000", "no_proxy": "minio"},
        BUCKET | {"ALL_PROXY": "http://p:1", "NO_PROXY": "*"},
        {"PYTHONPATH": f"{REPOSITORY}:{sysconfig.get_path('purelib')}:/nowhere:"},
    ],
)
def test_a_harmless_one_is_not(environ: dict[str, str]) -> None:
    assert variables(**environ).ok, variables(**environ)


def test_a_folder_that_hides_a_module_of_ours(tmp_path: Path) -> None:
    (tmp_path / "other.py").touch()
    assert variables(PYTHONPATH=str(tmp_path)).ok
    (tmp_path / "redis.py").touch()
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "__init__.py").touch()
    found = variables(PYTHONPATH=f"/nowhere:{tmp_path}")
    assert "whose farm hides" in found.detail and "whose redis hides" in found.detail


@pytest.mark.parametrize(("name", "value"), [("CELERY_BROKER_URL", "redis://u:secret@o/1"), ("CONFIG_MODULE", "mine")])
def test_celery_variables_of_another_project_are_named(name: str, value: str) -> None:
    found = environment.celery_variables(Subject(INDEX | {name: value}))
    assert not found.ok
    assert name in found.detail and "secret" not in found.detail
    assert environment.celery_variables(Subject({name: value})).ok is False, "also when no farm is known"


def test_celery_variables_that_say_the_same_are_not() -> None:
    same = {"CELERY_BROKER_URL": "redis://h:6379/1", "CELERY_RESULT_BACKEND": "redis://h:6379/2", "CELERY_X": "1"}
    assert environment.celery_variables(Subject(INDEX | same)).ok


def test_a_check_that_fails_in_any_way_hides_no_other() -> None:
    def raising(error: Exception) -> Any:
        def check(subject: Subject) -> Finding:
            raise error

        return check

    checks = {
        "farm": raising(FarmError("one\n  line", "mend\nit")),
        "none": raising(NotExamined("not examined", "first the other")),
        "disk": raising(PermissionError(13, "no", "/x")),
        "bug": raising(ZeroDivisionError("a bug")),
        "well": lambda subject: Finding(True, "fine", "never shown"),
    }
    rows = examine(SimpleNamespace(), checks)  # type: ignore[arg-type]
    assert [row.ok for row in rows] == [False, False, False, False, True]
    assert rows[0].to_json() == {"name": "farm", "ok": False, "detail": "one line", "fix": "mend it"}
    assert "/x" in rows[2].detail and "ZeroDivisionError: a bug" in rows[3].detail
    assert rows[4].fix == ""
    assert all(row.fix for row in rows[:4])


def test_without_any_farm_every_check_answers(tmp_path: Path) -> None:
    rows = examine(Subject({"FARM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}))
    assert [row.name for row in rows] == list(CHECKS)
    assert {row.name for row in rows if row.ok} == {
        "settings", "environment", "celery_variables", "cache_folder", "file_locks"
    }  # fmt: skip
    assert all(row.fix and "Traceback" not in row.detail for row in rows if not row.ok)
