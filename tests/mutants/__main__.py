"""Disables the farm's rules one at a time, and says which test notices.

    make mutants                                   all of them
    make mutants ONLY="publish lib/job loop"       those of some files
    make mutants LAYERS="lua coordinator"          shown to the quick tests only, to see what these alone would miss

The tests run in a copy, so the checkout may be worked on meanwhile. Exit code 1: a mutant survived that has no
written reason, or a reason is written for one that is no more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import farm
from tests.mutants import lua, python
from tests.mutants.memory import Memory
from tests.mutants.mutant import Mutant
from tests.mutants.reached import labels_of_lua, prepare
from tests.mutants.reviewed import entry, is_of, reviewed
from tests.mutants.runner import LAYERS, Runner, layer_of

SCRIPTS, COORDINATOR = "farm/index/lua", "farm/coordinator"
TESTS = ("tests/lua", "tests/property", "tests/coordinator")
#: Those with a coordinator in them; whole farms are slow, so they are run for its own code only.
FAULT = ("ageing", "force", "leaders", "messages", "planner", "rebuild", "recovery", "steps")
_MEMORY = Path(".cache/mutants.json")
_LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


def main(only: list[str]) -> int:
    """Copy the checkout and run there; what is kept of it is who killed whom."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(home, copy, ignore=_LEFT_BEHIND)
        prepare(copy)
        environment = {**os.environ, "PYTHONPATH": str(copy), "MUTANTS_MEMORY": str(home / _MEMORY)}
        command = [sys.executable, "-m", "tests.mutants", *only]
        return subprocess.run(command, check=False, cwd=copy, env=environment).returncode


def in_copy(path: Path, only: list[str]) -> int:
    """Judge all mutants of the files that are asked for."""
    root = Path.cwd()
    assert Path(farm.__file__).is_relative_to(root), f"the tests would import {farm.__file__}"
    found = [one for file in files(only) for one in mutants_of(file)]
    reasons = reviewed()
    stale = {name for name in reasons if is_of(name, files(only))} - {one.name for one in found}
    for name in sorted(stale):
        say(f"there is no such mutant any more: {name}")
    memory = Memory(path, "python" if any(one.file.endswith(".py") for one in found) else "lua")
    layers = os.environ.get("LAYERS", "").split() or list(LAYERS)
    runner = Runner(root, [one for one in found if one.name not in reasons], labels, memory, layers, say)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-q", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={root.parent / 'tmp'}"]
    ended = pytest.main([*options, *tests(only)], plugins=[runner])
    if runner.is_fork:
        os._exit(0)
    if ended != pytest.ExitCode.OK or len(runner.verdicts) < len(runner.mutants):
        say(f"pytest ended with {ended!r}: not all mutants were judged")
        return 1
    memory.keep(runner.tests)
    return report(runner, sum(one.name in reasons for one in found)) or bool(stale)


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def files(only: list[str]) -> list[str]:
    """All files that are mutated, or those whose names are given (``publish``, ``lib/job``, ``loop``)."""
    found = [*sorted(Path(SCRIPTS).rglob("*.lua")), *sorted(Path(COORDINATOR).glob("[a-z]*.py"))]
    chosen = [str(one) for one in found if not only or str(one.with_suffix("")).endswith(tuple(f"/{n}" for n in only))]
    assert chosen, f"no file of {SCRIPTS} or {COORDINATOR} is named {only}"
    return chosen


def tests(only: list[str]) -> Iterator[str]:
    """Where tests of these files are looked for."""
    chosen = files(only)
    yield from (path for path in TESTS if Path(path).exists())
    if any(file.endswith(".py") for file in chosen):
        yield from (f"tests/fault/test_{name}.py" for name in FAULT)


def mutants_of(file: str) -> list[Mutant]:
    """The file's mutants; of two with the same name the later one has a number."""
    text = Path(file).read_text()
    seen: Counter[str] = Counter()
    found = []
    for one in (lua if file.endswith(".lua") else python).mutants(file, text):
        seen[one.name] += 1
        number = seen[one.name]
        found.append(replace(one, change=f"{one.change} ({number})") if number > 1 else one)
    return found


def labels(mutant: Mutant) -> set[str]:
    """What a test that can notice the mutant must run."""
    file = Path(mutant.file)
    if file.suffix == ".lua":
        return labels_of_lua(file)
    return {f"{mutant.file}:{python.function_of(file.read_text(), mutant.start)}"}


def report(runner: Runner, reasons: int) -> int:
    """The table of layers, and who survived; 1 if anybody did."""
    killed = Counter(layer_of(one.killer) for one in runner.verdicts if one.killer)
    survivors = [one.mutant for one in runner.verdicts if not one.killer]
    say(f"\n{len(runner.verdicts) + reasons} mutants")
    for layer in LAYERS:
        say(f"  {killed[layer]:5} killed by {layer}")
    say(f"  {reasons:5} that no test can notice, each with its reason in tests/mutants/equivalent.toml")
    say(f"  {len(survivors):5} survive\n")
    for one in survivors:
        say(f"{entry(one)}\n")
    return int(bool(survivors))


if __name__ == "__main__":
    began = time.monotonic()
    memory = os.environ.get("MUTANTS_MEMORY")
    code = in_copy(Path(memory), sys.argv[1:]) if memory else main(sys.argv[1:])
    if memory:
        say(f"{time.monotonic() - began:.0f} s")
    sys.exit(code)
