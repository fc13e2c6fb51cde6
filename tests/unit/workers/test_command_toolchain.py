from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.index.outcomes import Failure
from farm.request.executables import executable_digest
from farm.request.job_options import JobOptions
from farm.request.model import Request
from farm.settings import Settings
from tests.unit.workers.requests import request, source
from workers.scratch import Scratch
from workers.toolchains import command
from workers.toolchains.command import CommandToolchain
from workers.toolchains.protocol import Command


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "fakecc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return path


def ask(compiler: Path, *, argv: list[str], entry: str | None = None, **options: Any) -> Request:
    return request(
        schema=command.SCHEMA,
        toolchain="command",
        soc="Any-910",
        source=source("text", suffix=".txt"),
        options={"argv": argv, **options},
        entry=entry,
        executable=executable_digest(compiler, hashlib.sha256(compiler.read_bytes()).digest()),
    )


def run(asked: Request, tmp_path: Path) -> Command | Failure:
    root = tmp_path / "root"
    root.mkdir()
    return CommandToolchain().command(asked, Scratch.lay_out(root, asked.source))


def test_placeholders(compiler: Path, tmp_path: Path) -> None:
    argv = ["fakecc", "{source}", "-o{out}/{soc}.o", "{entry}{entry}", "{other}", '{"json": 1}', "{{out}}"]
    got = run(ask(compiler, argv=argv, entry="{out}", outputs=["*.o"]), tmp_path)
    root = tmp_path / "root"
    assert isinstance(got, Command)
    assert got.argv == (
        str(compiler),
        f"{root}/src/source.txt",
        f"-o{root}/out/Any-910.o",
        "{out}{out}",
        "{other}",
        '{"json": 1}',
        f"{{{root}/out}}",
    )
    assert (got.cwd, got.outputs) == (root, ("*.o",))


def test_the_environment_is_the_requests_and_little_else(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPATH", "/somewhere")
    got = run(ask(compiler, argv=["fakecc"], env={"X": "1", "N": 2, "LC_ALL": "C.UTF-8"}), tmp_path)
    assert isinstance(got, Command)
    scratch_tmp = str(tmp_path / "root" / "tmp")
    assert got.env == {
        "PATH": os.environ["PATH"],
        "HOME": scratch_tmp,
        "TMPDIR": scratch_tmp,
        "SOURCE_DATE_EPOCH": "0",
        "LC_ALL": "C.UTF-8",
        "X": "1",
        "N": "2",
    }


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ([], {}, "options.argv is empty"),
        ([""], {}, "options.argv is empty"),
        (["fakecc", "{entry}"], {}, "uses {entry}"),
        (["fakecc"], {"outputs": []}, "options.outputs is empty"),
        (["fakecc"], {"outputs": ["/etc/*"]}, "'/etc/*'"),
        (["fakecc"], {"outputs": ["../x"]}, "'../x'"),
        (["fakecc"], {"outputs": ["."]}, "'.'"),
        (["fakecc"], {"env": {"A=B": "x"}}, "'A=B'"),
        (["fakecc"], {"env": {"A": True}}, "True"),
        (["fakecc"], {"env": {"A": None}}, "None"),
    ],
)
def test_refusals(argv: list[str], options: Any, message: str, compiler: Path, tmp_path: Path) -> None:
    got = run(ask(compiler, argv=argv, **options), tmp_path)
    assert isinstance(got, Failure)
    assert got.kind == "rejected"
    assert message in got.message


def test_another_program_here_is_refused_and_both_are_named(compiler: Path, tmp_path: Path) -> None:
    asked = ask(compiler, argv=["fakecc"])
    compiler.write_text("#!/bin/sh\nexit 1\n")
    got = run(asked, tmp_path)
    assert isinstance(got, Failure)
    assert got.kind == "transient"
    assert asked.executable is not None
    assert asked.executable.hex() in got.message
    assert hashlib.sha256(compiler.read_bytes()).hexdigest() in got.message


def test_a_program_that_is_not_here(compiler: Path, tmp_path: Path) -> None:
    got = run(ask(compiler, argv=["no-such-compiler"]), tmp_path)
    assert isinstance(got, Failure)
    assert (got.kind, "has no program no-such-compiler" in got.message) == ("transient", True)


def test_a_program_that_was_replaced_while_it_ran(compiler: Path, tmp_path: Path) -> None:
    got = run(ask(compiler, argv=["fakecc"]), tmp_path)
    assert isinstance(got, Command)
    assert got.review() is None
    compiler.write_text("#!/bin/sh\nexit 1\n")
    objection = got.review()
    assert objection is not None and objection.kind == "transient"


def test_the_same_program_in_another_folder_will_do(compiler: Path, tmp_path: Path) -> None:
    got = run(ask(compiler, argv=["/home/submitter/bin/fakecc"]), tmp_path)
    assert isinstance(got, Command)
    assert got.argv == (str(compiler),)


def test_another_venv_here_is_refused(compiler: Path, tmp_path: Path) -> None:
    config = tmp_path / "pyvenv.cfg"
    config.write_text("home = /usr/bin\n")
    asked = ask(compiler, argv=["fakecc"])
    got = run(asked, tmp_path)
    assert isinstance(got, Command)
    assert got.review() is None
    for spoil in (lambda: config.write_text("home = /opt\n"), config.unlink, lambda: os.mkfifo(config)):
        spoil()
        objection = got.review()
        assert objection is not None and objection.kind == "transient"


def test_it_is_off_unless_allowed() -> None:
    assert command.find(Settings.read({})) == "FARM_ALLOW_ADHOC_COMMANDS is not set"
    found = command.find(Settings.read({"FARM_ALLOW_ADHOC_COMMANDS": "1"}))
    assert isinstance(found, CommandToolchain)
    assert (found.socs, len(found.fingerprint)) == ((), 64)


def test_the_jobs_options_are_words_and_what_it_does_not_give_is_left_out(compiler: Path, tmp_path: Path) -> None:
    words = ["-g{op_debug_level}", "-d={op_debug_config}", "-n={aicore_num}", "{cube_core_num}/{vector_core_num}"]
    asked = ask(compiler, argv=["fakecc", *words])
    got = run(asked, tmp_path)
    assert isinstance(got, Command)
    assert got.argv[1:] == ("-g0",)
    told = JobOptions(private="job@1", op_debug_level=3, op_debug_config=("a", "b"), aicore_num=(24, 48))
    (tmp_path / "second").mkdir()
    got = run(replace(asked, job_options=told), tmp_path / "second")
    assert isinstance(got, Command)
    assert got.argv[1:] == ("-g3", "-d=a,b", "-n=24|48", "24/48")
