"""Which tests run a line: each is asked once which scripts it sends, and which functions of the coordinator it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.index.scripts import Scripts

#: A file to which processes append the functions of the coordinator that they run.
PATH = "MUTANTS_REACHED"

#: Put behind the coordinator's first module in the copy; a farm's process has it from its first import on.
_WATCH = """
import os
import sys
import threading


def _watch(path: str) -> None:
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and "/farm/coordinator/" in code.co_filename:
            name = code.co_filename[code.co_filename.rindex("farm/coordinator/"):]
            os.write(out, f"{name}:{code.co_firstlineno}\\n".encode())

    threading.setprofile(note)
    sys.setprofile(note)


if "MUTANTS_REACHED" in os.environ:
    _watch(os.environ["MUTANTS_REACHED"])
"""


def prepare(root: Path) -> None:
    """Make the copy of the coordinator tell what runs, when it is asked to."""
    with (root / "farm/coordinator/__init__.py").open("a") as module:
        module.write(_WATCH)


class Reached:
    """What runs in this process, and in those that it starts, since it was last asked."""

    def __init__(self, path: Path, functions: bool) -> None:
        self._path = path
        self._scripts: set[str] = set()
        path.touch()
        self._watch_scripts()
        if functions:
            import farm.coordinator

            os.environ[PATH] = str(path)
            farm.coordinator._watch(str(path))  # type: ignore[attr-defined]

    def _watch_scripts(self) -> None:
        send: Callable[..., Any] = Scripts._send

        def watched(scripts: Scripts, name: str, batch: Any) -> Any:
            self._scripts.add(name)
            return send(scripts, name, batch)

        Scripts._send = watched  # type: ignore[assignment, method-assign]

    def take(self) -> list[str]:
        """The scripts and functions since the last call."""
        functions = set(self._path.read_text().split())
        os.truncate(self._path, 0)
        found, self._scripts = functions | self._scripts, set()
        return sorted(found)


def labels_of_lua(file: Path) -> set[str]:
    """The scripts that a Lua file is part of."""
    if file.parent.name != "lib":
        return {file.stem}
    include = re.compile(rf"^--@include {file.stem}$", re.MULTILINE)
    return {one.stem for one in file.parent.parent.glob("*.lua") if include.search(one.read_text())}
