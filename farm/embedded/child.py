"""Starts processes that end with the process that started them, even when that is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
#: Logs are added to for ever; only their ends are read.
_TAIL_BYTES = 65536


def start_child(
    argv: Sequence[str],
    *,
    cwd: Path,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, which gets SIGTERM when the calling thread ends.

    Its output goes to the end of ``log``, or nowhere; Ctrl-C in the terminal does not reach it.
    """
    with (log or Path(os.devnull)).open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 (two system calls, no lock)
        )


def log_tail(log: Path, since_bytes: int = 0) -> list[str]:
    """The last lines of a log that say something, of those after its first ``since_bytes``."""
    try:
        with log.open("rb") as file:
            file.seek(max(since_bytes, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def last_words(log: Path, since_bytes: int = 0) -> str:
    """The end of a log as a message shows it."""
    return " / ".join(log_tail(log, since_bytes)[-3:]) or "it wrote no log"


def _die_with(parent: int) -> Callable[[], None]:
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)

    def set_death_signal() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            # The parent died before the line above: no signal will come.
            os.kill(os.getpid(), signal.SIGTERM)

    return set_death_signal


def end_children(
    processes: Iterable[subprocess.Popen[bytes]], patience_seconds: float, hurry: Callable[[], bool]
) -> None:
    """Ask processes to end, all at once, wait, then kill those that go on.

    ``hurry`` says that nobody wants to wait any longer.
    """
    left = [process for process in processes if process.poll() is None]
    for process in left:
        process.terminate()
    deadline = time.monotonic() + patience_seconds
    while left and time.monotonic() < deadline and not hurry():
        with suppress(subprocess.TimeoutExpired):
            left[0].wait(timeout=0.1)
        left = [process for process in left if process.poll() is None]
    for process in left:
        process.kill()
        process.wait()
