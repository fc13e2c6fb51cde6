"""A profile as a toolchain: its command lines, its fingerprint, and the keys that follow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.index.outcomes import Failure
from farm.request.job_options import JobOptions
from farm.request.key import key
from farm.request.model import Request
from farm.settings import Settings
from tests.unit.workers.requests import request, source
from workers.scratch import Scratch
from workers.toolchains import profiles
from workers.toolchains.profiles.toolchain import ProfileToolchain
from workers.toolchains.protocol import Command

TEXT = """
[profile.cc]
argv = ["bin/cc", "-I{include_dir}", "{source}", "{options}", "-o{out}/{soc}.o", "--kernel={entry}", "{{json}}"]
outputs = ["*.o"]
version = ["sh", "-c", "echo cc version $V; echo built for tests"]
hash = ["bank", "FOLDER/extra.cfg"]
env = { V = "2.7.1", BANK = "FOLDER/bank", CFG = "FOLDER/extra.cfg", WORK = "{tmp}/work", BESIDE = "{source_dir}" }
socs = ["soc1", "soc2"]
timeout_seconds = 5.5

[profile.cc.options]
level = { kind = "int", default = 2, argv = ["-O{value}"], doc = "how hard it tries" }
mode = { kind = "str", choices = ["fast", "exact"], argv = ["--mode", "{value}"] }
debug = { kind = "bool", default = false, argv = ["-g", "--lines"] }
flags = { kind = "strings", default = [], argv = ["{value}"] }
defines = { kind = "map", default = {}, argv = ["-D{name}={value}"] }
"""


class Place:
    """A folder with a file of profiles, its program, and what it hashes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "cc").write_text("#!/bin/sh\n")
        (folder / "bin" / "cc").chmod(0o755)
        (folder / "bank" / "soc1").mkdir(parents=True)
        (folder / "bank" / "soc1" / "gemm.json").write_text("{}")
        (folder / "extra.cfg").write_text("x")
        self.write(TEXT)

    def write(self, text: str) -> None:
        (self.folder / "profiles.toml").write_text(text.replace("FOLDER", str(self.folder)))

    def edit(self, old: str, new: str) -> None:
        old, new = (each.replace("FOLDER", str(self.folder)) for each in (old, new))
        text = (self.folder / "profiles.toml").read_text()
        assert old in text
        (self.folder / "profiles.toml").write_text(text.replace(old, new))

    def find(self) -> ProfileToolchain | str:
        settings = Settings.read({"FARM_TOOLCHAINS_FILE": str(self.folder / "profiles.toml")})
        found = profiles.find(settings, ["host"])["cc"]
        assert isinstance(found, str | ProfileToolchain)
        return found

    def toolchain(self) -> ProfileToolchain:
        found = self.find()
        assert not isinstance(found, str), found
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield Place(tmp_path / "place")


def ask(toolchain: ProfileToolchain, entry: str | None = "k", **fields: Any) -> Request:
    given = fields.pop("source", source("x", {}, {"a.h": ""}, {"b.h": ""}, suffix=".c"))
    return request(schema=toolchain.schema, toolchain="cc", soc="soc1", entry=entry, source=given, options=fields)


def command(toolchain: ProfileToolchain, asked: Request, tmp_path: Path) -> Command:
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    result = toolchain.command(asked, Scratch.lay_out(root, asked.source))
    assert isinstance(result, Command), result
    return result


def test_what_it_registers(place: Place) -> None:
    toolchain = place.toolchain()
    assert (toolchain.name, toolchain.version, toolchain.socs) == ("cc", "2.7.1", ("soc1", "soc2"))
    assert {name: spec.kind for name, spec in toolchain.schema.items()} == {
        "level": "int", "mode": "str", "debug": "bool", "flags": "strings", "defines": "map",
    }  # fmt: skip
    assert toolchain.schema["mode"].choices == ("fast", "exact")
    assert toolchain.schema["level"].doc == "how hard it tries"


def test_the_command_line(place: Place, tmp_path: Path) -> None:
    toolchain = place.toolchain()
    options: dict[str, Any] = {"mode": "fast", "debug": True, "flags": ["-a", "{out}"]}
    got = command(toolchain, ask(toolchain, **options, defines={"B": None, "A": True, "C": "x y"}), tmp_path)
    root = tmp_path / "root"
    assert got.argv == (
        str(place.folder / "bin" / "cc"), f"-I{root}/inc0", f"-I{root}/inc1", f"{root}/src/source.c",
        "-O2", "--mode", "fast", "-g", "--lines", "-a", "{out}", "-DA=1", "-DB=", "-DC=x y",
        f"-o{root}/out/soc1.o", "--kernel=k", "{json}",
    )  # fmt: skip
    assert (got.cwd, got.outputs, got.timeout_seconds) == (root, ("*.o",), 5.5)
    assert got.env == {
        "PATH": os.environ["PATH"], "HOME": f"{root}/tmp", "TMPDIR": f"{root}/tmp", "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0", "V": "2.7.1", "BANK": f"{place.folder}/bank", "CFG": f"{place.folder}/extra.cfg",
        "WORK": f"{root}/tmp/work", "BESIDE": f"{root}/src",
    }  # fmt: skip
    bare = command(toolchain, ask(toolchain, source=source("x", suffix=".c")), tmp_path)
    assert bare.argv[1:4] == (f"{root}/src/source.c", "-O2", f"-o{root}/out/soc1.o")


def test_options_come_last_where_no_place_is_named(place: Place, tmp_path: Path) -> None:
    place.edit(' "{options}",', "")
    toolchain = place.toolchain()
    assert command(toolchain, ask(toolchain, level=0), tmp_path).argv[-2:] == ("{json}", "-O0")


def test_the_jobs_options_have_places_and_what_it_does_not_give_is_left_out(place: Place, tmp_path: Path) -> None:
    place.edit('"{{json}}"]', '"--debug={op_debug_level}", "--dump={op_debug_config}", "--cores={aicore_num}"]')
    place.edit('V = "2.7.1"', 'V = "2.7.1", CORES = "{cube_core_num}/{vector_core_num}"')
    toolchain = place.toolchain()
    plain = command(toolchain, ask(toolchain), tmp_path)
    assert plain.argv[-1:] == ("--debug=0",)
    assert plain.env["CORES"] == "/"
    options = JobOptions(private="job@1", op_debug_level=2, op_debug_config=("oom", "ccec_g"), aicore_num=(8, 16))
    told = command(toolchain, replace(ask(toolchain), job_options=options), tmp_path)
    assert told.argv[-3:] == ("--debug=2", "--dump=oom,ccec_g", "--cores=8|16")
    assert told.env["CORES"] == "8/16"


def test_a_request_that_the_command_line_has_no_place_for(place: Place, tmp_path: Path) -> None:
    toolchain = place.toolchain()
    scratch = Scratch(tmp_path, tmp_path, (), tmp_path, tmp_path)
    no_entry = toolchain.command(ask(toolchain, entry=None), scratch)
    assert isinstance(no_entry, Failure)
    assert (no_entry.kind, no_entry.message) == ("rejected", "toolchain cc needs to know the entry (give entry)")
    place.edit('"-I{include_dir}", ', "")
    toolchain = place.toolchain()
    folders = toolchain.command(ask(toolchain), scratch)
    assert isinstance(folders, Failure) and "has no use for include_dirs" in folders.message


MUST_CHANGE: dict[str, Callable[[Place], object]] = {
    "a bank file": lambda place: (place.folder / "bank" / "soc1" / "gemm.json").write_text("{1}"),
    "one more bank file": lambda place: (place.folder / "bank" / "new.json").write_text(""),
    "a hashed file": lambda place: (place.folder / "extra.cfg").write_text("y"),
    "the program": lambda place: (place.folder / "bin" / "cc").write_text("#!/bin/bash\n"),
    "a word": lambda place: place.edit('"{{json}}"', '"{{yaml}}"'),
    "the order of words": lambda place: place.edit('"{source}", "{options}"', '"{options}", "{source}"'),
    "a variable": lambda place: place.edit('WORK = "{tmp}/work"', 'WORK = "{tmp}/w"'),
    "the version": lambda place: place.edit("built for tests", "built for all"),
    "what an option becomes": lambda place: place.edit('"-O{value}"', '"-o{value}"'),
    "an output": lambda place: place.edit('["*.o"]', '["*"]'),
    "what is hashed": lambda place: place.edit('hash = ["bank", ', 'hash = ["bank/soc1", '),
}


@pytest.mark.parametrize("name", MUST_CHANGE)
def test_must_change_the_key(name: str, place: Place) -> None:
    before = place.toolchain()
    MUST_CHANGE[name](place)
    after = place.toolchain()
    asked = ask(before)
    assert key(asked, before.fingerprint) != key(asked, after.fingerprint)


def _touch(place: Place) -> None:
    for path in place.folder.rglob("*"):
        os.utime(path, ns=(1, 1))


def _move(place: Place) -> None:
    """All of it to another folder, as on a worker where it is installed elsewhere."""
    place.folder = place.folder.rename(place.folder.with_name("another place"))
    place.write(TEXT)


SWAPPED = 'WORK = "{tmp}/work", CFG = "FOLDER/extra.cfg"'
MUST_NOT_CHANGE: dict[str, Callable[[Place], object]] = {
    "times": _touch,
    "the folder": _move,
    "comments and layout": lambda place: place.edit("\n[profile.cc]", "# a comment\n\n[profile.cc]"),
    "documentation": lambda place: place.edit("how hard it tries", "how hard"),
    "a time limit": lambda place: place.edit("5.5", "6"),
    "the processor types": lambda place: place.edit('"soc2"', '"soc3"'),
    "order of variables": lambda place: place.edit('CFG = "FOLDER/extra.cfg", WORK = "{tmp}/work"', SWAPPED),
}


@pytest.mark.parametrize("name", MUST_NOT_CHANGE)
def test_must_not_change_the_key(name: str, place: Place) -> None:
    before = place.toolchain()
    MUST_NOT_CHANGE[name](place)
    assert place.toolchain().fingerprint == before.fingerprint


def test_options_in_the_key(place: Place) -> None:
    toolchain = place.toolchain()

    def made(**options: Any) -> bytes:
        return key(ask(toolchain, **options), toolchain.fingerprint)

    assert made() == made(level=2) == made(mode=None, debug=False)
    assert made(defines={"A": 1, "B": 2}) == made(defines={"B": 2, "A": 1})
    assert len({made(), made(level=3), made(mode="fast"), made(flags=["a", "b"]), made(flags=["b", "a"])}) == 5


def test_a_bank_that_changes_while_the_worker_runs(place: Place, tmp_path: Path) -> None:
    toolchain = place.toolchain()
    got = command(toolchain, ask(toolchain), tmp_path)
    _touch(place)
    assert got.review() is None
    (place.folder / "bank" / "soc1" / "gemm.json").write_text("{1}")
    failure = got.review()
    assert failure == Failure(
        "transient", f"{place.folder}/bank has changed since the worker started: restart the worker"
    )


BROKEN: dict[str, tuple[Callable[[Place], object], str]] = {
    "no program": (
        lambda place: (place.folder / "bin" / "cc").unlink(),
        "profiles.toml:3: profile.cc.argv[0]: there is no program bin/cc",
    ),
    "not on PATH": (
        lambda place: place.edit("bin/cc", "nope"),
        "profiles.toml:3: profile.cc.argv[0]: there is no program nope on PATH",
    ),
    "no bank": (
        lambda place: shutil.rmtree(place.folder / "bank"),
        "profiles.toml:6: profile.cc.hash[0]: there is no ",
    ),
    "version fails": (
        lambda place: place.edit("echo cc version $V;", "echo no licence >&2; exit 3;"),
        "profiles.toml:5: profile.cc.version: the command ends with exit code 3: no licence",
    ),
    "version is silent": (
        lambda place: place.edit('"echo cc version $V; echo built for tests"', '""'),
        "profiles.toml:5: profile.cc.version: the command ends with exit code 0: it says nothing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_missing_here_is_the_reason(name: str, place: Place) -> None:
    breaking, message = BROKEN[name]
    breaking(place)
    assert message in str(place.find())


def test_without_a_version_command(place: Place) -> None:
    place.edit('version = ["sh", "-c", "echo cc version $V; echo built for tests"]\n', "")
    assert place.toolchain().version == "0"
