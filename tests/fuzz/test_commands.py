"""Every command with any words: one line or document, an exit code that means something, no file elsewhere."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import pytest
from celery.bin.celery import celery
from click.testing import CliRunner, Result
from hypothesis import strategies as st

from farm.coordinator.loop import Coordinator
from farm.embedded import supervisor
from farm.embedded.server import Server
from tests.fuzz.bounds import bounded, fuzz, listing
from tests.fuzz.mutations import texts
from tests.fuzz.test_archives import ARCHIVE
from tests.fuzz.test_messages import TEXT_ONLY, offer_all
from tests.support import forked
from tests.support.kit import CELERY

EXIT_CODES = {0, 1, 2, 3}


def commands() -> dict[tuple[str, ...], click.Command]:
    """All of our commands, with their sub-commands, as Celery finds them."""
    found: dict[tuple[str, ...], click.Command] = {}
    for point in entry_points(group="celery.commands"):
        if point.value.startswith("farm."):
            command = point.load()
            below = command.commands if isinstance(command, click.Group) else {None: command}
            found |= {tuple(filter(None, (point.name, name))): one for name, one in below.items()}
    return found


COMMANDS = commands()
FILES = ["ops.json", "cache.tar", "debug.cfg", "nowhere", "-", ".", "folder"]
words = st.sampled_from([
    *FILES, "0", "1", "-1", "2", "nan", "inf", "1e400", "auto", "true", "enable", "force", "disable", "2|4", "sm_90",
    "default",
    "cuda@ffff", "k=v", "0" * 64, "f" * 8, "--", "--help", "--yes", "--all", "--json", "--no-wait", "a" * 5000,
    "9" * 400,
]) | texts.filter(lambda text: "\0" not in text and "/" not in text)  # fmt: skip


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its options and arguments, each with any value, and perhaps a word too many."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    line: list[str] = [*name]
    for parameter in COMMANDS[name].params:
        given = draw(st.integers(0, 3))
        if isinstance(parameter, click.Argument):
            line += [draw(st.sampled_from(FILES) | words)] if given else []
        elif given == 0 and parameter.opts:
            option = draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))
            line += [option] if getattr(parameter, "is_flag", False) else [option, draw(words)]
    return line + ([draw(words)] if draw(st.integers(0, 7)) == 0 else [])


@pytest.fixture
def here(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a few files in it,
    and a farm that has nothing yet; commands that never end do so at once."""
    folder = tmp_path / "here"
    (folder / "folder").mkdir(parents=True)
    (folder / "ops.json").write_text(json.dumps(TEXT_ONLY))
    (folder / "cache.tar").write_bytes(ARCHIVE)
    (folder / "debug.cfg").write_text("op_debug_config=oom\n")
    (tmp_path / "sentinel").touch()
    offer_all(server)
    monkeypatch.chdir(folder)
    for name, value in {
        "HOME": f"{tmp_path}/home", "FARM_INDEX_URL": server.url, "FARM_STORE_URL": f"file://{tmp_path}/store",
        "FARM_STATE_DIR": f"{tmp_path}/state", "FARM_RECONNECT_SECONDS": "0.1", "FARM_NO_WORKER_SECONDS": "0.1",
        "FARM_FORCE_TIMEOUT_SECONDS": "0.1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Coordinator, "run", lambda self, stop: None)
    monkeypatch.setattr(supervisor, "run", lambda *given: signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    logging.disable(logging.CRITICAL)
    yield folder
    logging.disable(logging.NOTSET)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def judge(line: list[str], code: int, stdout: bytes, stderr: str) -> None:
    """What every command promises, whatever it was given."""
    assert code in EXIT_CODES | ({128 + signal.SIGTERM} if line[0] == "up" else set()), (code, stderr)
    assert "Traceback" not in stderr and "internal error" not in stderr and b"internal error" not in stdout
    if "--json" in line and "--help" not in line and "--" not in line[: line.index("--json")]:
        document = json.loads(stdout) if stdout or code else {}
        assert isinstance(document, dict)
        if code not in (0, 1):
            assert set(document["error"]) == {"code", "message", "fix"}


@fuzz(30, command_lines(), share=0.3)
def test_any_command_line(here: Path, line: list[str]) -> None:
    before = listing(here.parent)
    with bounded(256 << 20):
        result: Result = CliRunner().invoke(celery, ["-A", "farm", *line], prog_name="celery")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    judge(line, result.exit_code, result.stdout_bytes, result.stderr)
    new = {name for name in listing(here.parent) if name not in before}
    assert all(name.startswith(("store/", "home/", "state/", "here/")) for name in new), new


@pytest.mark.parametrize(
    "line",
    [
        ["submit", "\udcff", "--json"],
        ["cache", "import", "\udcff", "--json"],
        ["cache", "export", "\udcff.tar", "--json"],
        ["job", "show", "\udcff", "--json"],
        ["local", "ls", "--op-compiler-cache-dir", "\udcff"],
    ],
)
def test_bytes_that_are_no_text(here: Path, line: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name.startswith(("FARM_", "HOME", "PATH"))}
    done = forked.run([*CELERY, *line], env=env | {"LC_ALL": "C.UTF-8"}, cwd=here)
    judge(line, done.returncode, done.stdout, done.stderr.decode(errors="replace"))
    assert done.returncode in (0, 2), done


@pytest.mark.parametrize(
    "line",
    [
        ["submit", "ops.json", "--timeout", "nan"],
        ["submit", "ops.json", "--timeout", "inf"],
        ["submit", "ops.json", "--hold", "nan"],
        ["submit", "ops.json", "--owner", "team=\udcff"],
        ["submit", "ops.json", "--owner", "team=\x1b[2J"],
        ["job", "wait", "x", "--timeout", "nan"],
        ["job", "show", ""],
        ["job", "cancel", "\udcff"],
    ],
)
def test_wrong_words_are_refused(here: Path, line: list[str]) -> None:
    result = CliRunner().invoke(celery, ["-A", "farm", *line, "--json"], prog_name="celery")
    judge([*line, "--json"], result.exit_code, result.stdout_bytes, result.stderr)
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "line", [["purge", "--yes"], ["export", "new.tar"], ["age"], ["age", "--dry-run"], ["verify"]], ids=" ".join
)
def test_a_name_of_which_the_cache_has_nothing_is_a_slip(here: Path, line: list[str]) -> None:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        result = CliRunner().invoke(celery, ["-A", "farm", "cache", *line, *words, "--json"], prog_name="celery")
        return result.exit_code, json.loads(result.stdout)

    for option in ("--cache", "--soc"):
        code, document = run(option, "typo")
        assert code == 2 and f"{option} 'typo'" in document["error"]["message"]
    assert run()[0] == 0
