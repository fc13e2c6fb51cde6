"""The worker's end of a keeper: start a compiler below it, wait for what became of it, or stop it.

Safe from several threads: one waits, any other may cancel, at any time and more than once.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

_KEEPER = Path(__file__).with_name("keeper.py")
#: The keepers end a compile within milliseconds; one that the kernel can not end is given up after this.
PATIENCE_SECONDS = 15.0

Outcome = Literal["exited", "signalled", "timeout", "cancelled", "not_started", "keeper_lost"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one compile may use; memory is the address space of each of its processes."""

    timeout_seconds: float
    memory_mb: int | None = None
    log_head_bytes: int = 64 << 10
    log_tail_bytes: int = 64 << 10
    #: Who set the time limit, for the person who meets it.
    timeout_origin: str = "FARM_COMPILE_TIMEOUT_SECONDS"


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a compiler; ``code`` when it exited by itself, ``signal`` when one ended it."""

    outcome: Outcome
    code: int | None
    signal: int | None
    seconds: float
    max_rss_kb: int
    log: str
    log_cut_bytes: int


_LOST = Ending("keeper_lost", None, None, 0.0, 0, "", 0)


class Keeping:
    """One compiler below its keepers, from the moment it is made."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, limits: Limits) -> None:
        self._limits = limits
        self._cancelled_at: float | None = None
        self._started_at = time.monotonic()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(_KEEPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"LC_ALL": "C"},
            cwd="/",
            start_new_session=True,  # a terminal's Ctrl-C is for the worker, which then decides
        )
        job = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd),
            "timeout_seconds": limits.timeout_seconds,
            "memory_mb": limits.memory_mb,
            "log_head_bytes": limits.log_head_bytes,
            "log_tail_bytes": limits.log_tail_bytes,
        }
        with suppress(BrokenPipeError):  # the keeper was killed before it began: wait() says so
            self._stdin.write(json.dumps(job).encode() + b"\n")
            self._stdin.flush()

    @property
    def pid(self) -> int:
        """The outer keeper's process id."""
        return self._process.pid

    def cancel(self) -> None:
        """Have everything of the compile killed; returns at once, wait() returns when it is done."""
        with self._lock:
            if self._cancelled_at is None:
                self._cancelled_at = time.monotonic()
                with suppress(BrokenPipeError):
                    self._stdin.close()

    def wait(self) -> Ending:
        """Wait until nothing of the compile is left, which is when both keepers have closed their output."""
        assert self._process.stdout is not None
        report = bytearray()
        poll = select.poll()  # select() ends at descriptor 1023
        with self._process.stdout as stdout:
            poll.register(stdout, select.POLLIN)
            while time.monotonic() < self._give_up_at():
                if not poll.poll(1000):
                    continue
                data = os.read(stdout.fileno(), 65536)
                if not data:
                    break
                report += data
            else:
                self._process.kill()
        self.cancel()
        self._process.wait()
        return _ending(bytes(report))

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _give_up_at(self) -> float:
        """Read without the lock: a cancel in between only makes the next look earlier."""
        if self._cancelled_at is not None:
            return self._cancelled_at + PATIENCE_SECONDS
        return self._started_at + self._limits.timeout_seconds + 2 * PATIENCE_SECONDS


def _ending(report: bytes) -> Ending:
    try:
        fields: dict[str, Any] = json.loads(report)
    except ValueError:
        return _LOST
    return Ending(**fields)
