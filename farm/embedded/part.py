"""What runs beside the server of the embedded farm: how each part is started, where its log is, and why it ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.embedded.child import last_words, log_tail, start_child
from farm.embedded.state import EmbeddedFarm
from farm.settings import PREFIX, Settings

#: With this code a part ends whose settings or input are wrong: it will do so again.
WRONG_INPUT = 2
#: Nothing is learned from other workers, and asking them takes a second.
_ALONE = ("--without-gossip", "--without-mingle")
_ERROR, _FIX = "Error: ", "Fix: "


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was started."""

    process: subprocess.Popen[bytes]
    log: Path
    #: What stands before in the log is of those that were started earlier.
    log_start_bytes: int

    def complaint(self) -> tuple[str, str]:
        """What it says is wrong, and how to mend that."""
        lines = log_tail(self.log, self.log_start_bytes)
        errors = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        if not errors:
            return last_words(self.log, self.log_start_bytes), f"see {self.log}"
        after = lines[errors[-1] + 1 :][:1]
        fix = after[0].removeprefix(_FIX) if after and after[0].startswith(_FIX) else f"see {self.log}"
        return lines[errors[-1]].removeprefix(_ERROR), fix


def start(argv: list[str], log: Path, environment: Mapping[str, str]) -> Part:
    """Start a part in the folder of its log."""
    start_bytes = log.stat().st_size if log.exists() else 0
    return Part(start_child(argv, cwd=log.parent, log=log, env=environment), log, start_bytes)


def worker_environment(settings: Settings, farm: EmbeddedFarm, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the parts: these settings, this farm, and one's own commands unless forbidden."""
    given = {
        PREFIX + name.upper(): str(value)
        for name in settings.model_fields_set
        if (value := getattr(settings, name)) is not None
    }
    urls = {
        f"{PREFIX}INDEX_URL": farm.index_url,
        f"{PREFIX}BROKER_URL": farm.broker_url,
        f"{PREFIX}RESULT_URL": farm.result_url,
        f"{PREFIX}STORE_URL": farm.store_url,
    }
    set_here = {name: value for name, value in environ.items() if value or not name.startswith(PREFIX)}
    return {f"{PREFIX}ALLOW_ADHOC_COMMANDS": "1"} | set_here | given | urls


def part_argv(workers: int) -> dict[str, list[str]]:
    """The command lines of the parts; ``-P`` keeps a ``workers`` folder where we happen to be out of them."""
    celery = [sys.executable, "-P", "-m", "celery", "-A", "farm"]
    return {
        "worker": [*celery, "worker", "-c", str(workers), *_ALONE],
        "coordinator": [*celery, "coordinator"],
        "planner": [*celery, "worker", "-Q", "farm.jobs", "-c", "2", "-n", "planner@%h", *_ALONE],
    }
