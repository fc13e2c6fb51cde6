"""Toolchain command: the program that a request names, found and hashed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from farm.request.key import key
from farm.request.manifest import parse
from tests.unit.request.conftest import Project
from tests.unit.request.sample import FINGERPRINT


@pytest.fixture
def command(project: Project) -> Project:
    project.file("bin/cc", "#!/bin/sh\nexit 0\n").chmod(0o755)
    project.op.update(toolchain="command", options={"argv": ["bin/cc", "{source}"]})
    return project


def test_a_command_beside_the_manifest(command: Project) -> None:
    request = command.load()
    assert request.options["argv"] == (str(command.folder / "bin/cc"), "{source}")
    assert request.executable is not None


def test_a_command_on_path(command: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = command.key()
    command.op["options"]["argv"][0] = "cc"
    monkeypatch.setenv("PATH", str(command.folder / "bin"))
    assert command.load().options["argv"] == (str(command.folder / "bin/cc"), "{source}")
    assert command.key() == before
    (request,) = parse({**command.manifest, "ops": [command.op | {"source": {"text": "x"}}]}, where="doc", folder=None)
    assert request.executable is not None


def test_a_wrapper_is_hashed_behind_its_link_and_named_by_it(command: Project) -> None:
    (command.folder / "bin/c99").symlink_to("cc")
    before = command.load()
    command.op["options"]["argv"][0] = "bin/c99"
    after = command.load()
    assert after.executable == before.executable
    assert key(after, FINGERPRINT) != key(before, FINGERPRINT)


@pytest.mark.parametrize("config", ["A/pyvenv.cfg", "A/bin/pyvenv.cfg"])
def test_a_venv_is_its_configuration_and_its_place(command: Project, config: str) -> None:
    for name in ("A", "B"):
        command.file(f"{name}/bin/cc", "#!/bin/sh\nexit 0\n").chmod(0o755)
    plain = command.key()

    def of(name: str) -> bytes:
        command.op["options"]["argv"][0] = f"{name}/bin/cc"
        return command.key()

    assert of("A") == of("B") == plain
    command.file(config, "home = /usr/bin\n")
    command.file(config.replace("A/", "B/"), "home = /usr/bin\n")
    first = of("A")
    assert len({first, of("B"), plain}) == 3
    (command.folder / "link").symlink_to("A")
    assert of("link") == first
    command.file(config, "home = /opt/bin\n")
    assert of("A") != first


def test_a_venv_that_can_not_be_read(command: Project, refused: Any) -> None:
    (command.folder / "pyvenv.cfg").mkdir()
    command.load()
    (command.folder / "pyvenv.cfg").rmdir()
    os.mkfifo(command.folder / "pyvenv.cfg")
    line = refused()
    assert "field options.argv[0]: " in line
    assert "pyvenv.cfg' is not a regular file" in line


def test_wrong_commands(command: Project, refused: Any, refused_document: Any) -> None:
    for argv0 in ("nowhere", "bin/nowhere", "bin", "/dev/zero", "k/half.h", "a\0b"):
        command.op["options"]["argv"] = [argv0]
        assert "operator 'add': field options.argv[0]: " in refused()
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"argv": []},
        {"argv": "cc"},
        {"argv": [1]},
        {"argv": [""]},
        {"argv": None},
    )
    for options in wrong:
        command.op["options"] = options
        assert "operator 'add': field options.argv: must be a list of texts, the command first" in refused()
    command.op.update(options={"argv": ["bin/cc"]}, source={"text": "x"})
    assert "field options.argv[0]: 'bin/cc' is a path" in refused_document(command.manifest)
