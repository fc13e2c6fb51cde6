"""The page of an embedded farm, and what its worker is told: no server needed."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from farm.embedded import state
from farm.embedded.part import part_argv, worker_environment
from farm.embedded.state import EmbeddedFarm
from farm.errors import FarmRefused, FarmUnavailable, InputError
from farm.settings import Settings


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_farm_index_url_and_up_contradict_each_other(state_dir: Path) -> None:
    from farm.embedded.supervisor import run

    with pytest.raises(InputError, match="FARM_INDEX_URL"):
        run(Settings.read({}, index_url="redis://h", state_dir=state_dir), 1, lambda farm: True)
    assert not state_dir.exists()


FARM = EmbeddedFarm("h", 1, "unix:///s", "b", "r", "file:///x", "2026-01-01T00:00:00+00:00")


def test_environment_of_the_worker() -> None:
    settings = Settings.read({"FARM_MAX_ATTEMPTS": "7"}, allow_adhoc_commands=False, state_dir="/x")
    got = worker_environment(settings, FARM, {"PATH": "/bin", "FARM_INDEX_URL": ""})
    assert got == {
        "PATH": "/bin",
        "FARM_MAX_ATTEMPTS": "7",
        "FARM_STATE_DIR": "/x",
        "FARM_ALLOW_ADHOC_COMMANDS": "False",
        "FARM_INDEX_URL": "unix:///s",
        "FARM_BROKER_URL": "b",
        "FARM_RESULT_URL": "r",
        "FARM_STORE_URL": "file:///x",
    }
    assert Settings.read(got).allow_adhoc_commands is False


@pytest.mark.parametrize(("environ", "allowed"), [({}, True), ({"FARM_ALLOW_ADHOC_COMMANDS": ""}, True),
                                                  ({"FARM_ALLOW_ADHOC_COMMANDS": "0"}, False)])  # fmt: skip
def test_own_commands_are_on_unless_said_otherwise(environ: dict[str, str], allowed: bool) -> None:
    got = worker_environment(Settings.read(environ), FARM, environ)
    assert Settings.read(got).allow_adhoc_commands is allowed


def test_the_worker_is_celery_with_its_slots() -> None:
    celery = [sys.executable, "-P", "-m", "celery", "-A", "farm"]
    assert part_argv(4)["worker"][:8] == [*celery, "worker", "-c"]
    assert part_argv(4)["worker"][8] == "4"
    assert part_argv(4)["coordinator"] == [*celery, "coordinator"]


def page(state_dir: Path, **changes: object) -> None:
    state_dir.mkdir(exist_ok=True)
    row = {"host": socket.gethostname(), "pid": 2**22 + 1, "index_url": "unix:///nowhere/s", "broker_url": "b",
           "result_url": "r", "store_url": "s", "started": "t"}  # fmt: skip
    (state_dir / "farm.json").write_text(json.dumps(row | changes))


def test_another_host_is_refused(state_dir: Path) -> None:
    page(state_dir, host="elsewhere")
    for call in (state.read, state.claim):
        with pytest.raises(FarmRefused, match="runs on host elsewhere"):
            call(state_dir)


def test_a_farm_whose_server_is_gone_is_not_up(state_dir: Path) -> None:
    assert state.read(state_dir) is None
    page(state_dir)
    assert state.read(state_dir) is None
    state.claim(state_dir)


def test_a_farm_that_lives_without_its_server_is_up(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks at its address is told what is wrong there; another up would only be refused."""
    monkeypatch.setattr(state, "_RESTART_SECONDS", 0)
    page(state_dir, pid=os.getpid())
    farm = state.read(state_dir)
    assert farm
    assert farm.index_url == "unix:///nowhere/s"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"host": "x"}', f'{{"{"ho" * 9999}": 1}}', "\xff", "[" * 100_000]
)
def test_a_page_that_is_not_ours_is_refused(state_dir: Path, text: str) -> None:
    state_dir.mkdir()
    (state_dir / "farm.json").write_text(text, encoding="latin-1")
    with pytest.raises(FarmRefused, match=r"farm\.json") as told:
        state.read(state_dir)
    assert len(str(told.value)) < 600
    page(state_dir, pid="1")
    with pytest.raises(FarmRefused, match="wrong type"):
        state.read(state_dir)


def test_an_unusable_state_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/opfarm")):
        with pytest.raises((FarmRefused, FarmUnavailable), match=str(folder)):
            state.claim(folder)
