"""What a fresh machine needs: the lock file covers pyproject.toml, the bootstrap names what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
SHELL = shutil.which("sh") or "/bin/sh"


def pins(lock: str) -> dict[str, str]:
    """The versions that a lock file pins with a hash at least."""
    found = re.findall(
        r"^([A-Za-z0-9_.-]+)==(\S+)[^\n]*\\\n    --hash=sha256:", (ROOT / lock).read_text(), re.MULTILINE
    )
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize(("lock", "extra"), [("requirements.lock", "dev"), ("deploy/image.lock", "cuda")])
def test_every_dependency_is_pinned_with_hashes_and_within_its_range(lock: str, extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"][extra]]
    missing = [str(r) for r in wanted if pins(lock).get(canonicalize_name(r.name)) not in r.specifier]
    assert missing == [], "run `make lock`"


def test_the_image_runs_what_was_tested() -> None:
    assert pins("deploy/image.lock").items() <= pins("requirements.lock").items(), "run `make lock`"


def bootstrap(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the bootstrap on a machine whose PATH is this folder."""
    command = [SHELL, str(ROOT / "deploy" / "bootstrap.sh")]
    return subprocess.run(command, env={"PATH": str(path), **environ}, capture_output=True, text=True, check=False)


def tool(folder: Path, name: str, script: str = "") -> None:
    (folder / name).write_text(f"#!{SHELL}\n{script}\n")
    (folder / name).chmod(0o755)


def test_what_is_missing_is_named_where_it_can_not_be_installed(tmp_path: Path) -> None:
    tool(tmp_path, "python3", "exit 1")  # too old
    tool(tmp_path, "make")
    done = bootstrap(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "lacks: python3 python3-venv g++ (" in done.stderr


def test_who_is_not_root_is_told_the_command(tmp_path: Path) -> None:
    tool(tmp_path, "apt-get", "exit 1")
    tool(tmp_path, "id", "echo 1000")
    done = bootstrap(tmp_path)
    assert done.returncode == 2
    assert "sudo apt-get install python3 python3-venv g++ make" in done.stderr


@pytest.mark.parametrize("name", ["python3", "python3.12"])
def test_a_new_enough_python_is_found_under_either_name(tmp_path: Path, name: str) -> None:
    tool(tmp_path, "python3", "exit 1")
    tool(tmp_path, "g++")
    tool(tmp_path, "make")
    tool(tmp_path, name, "echo $0")
    done = bootstrap(tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / name}\n")


def test_an_unusable_choice_of_python_is_refused(tmp_path: Path) -> None:
    done = bootstrap(tmp_path, PYTHON="python2.7")
    assert done.returncode == 2
    assert "PYTHON=python2.7" in done.stderr
