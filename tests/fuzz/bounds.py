"""What all fuzz tests hold: only the farm's own errors, in one line; no hang, bounded memory, no file outside.

``make test`` runs a few examples, always the same ones; with FUZZ_EXAMPLES set (``make fuzz``) as many as that, at
random, and the falsifying one is printed and tried first in the next run.
"""

from __future__ import annotations

import os
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from farm.errors import FarmError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 0)

#: Of this process's own time: what others take of the machine is not the input's fault.
CPU_SECONDS = 5.0
MIB = 1 << 20
#: msgpack alone takes 80 for lists inside each other, down to its own limit, whose lengths are forged.
MEMORY_BYTES = 96 * MIB
#: One line that a person reads, with at most the text that he gave in it.
LINE_CHARACTERS = 6000

T = TypeVar("T")
Test = Callable[..., None]


def fuzz(quick: int, *strategies: SearchStrategy[Any], share: float = 1) -> Callable[[Test], Test]:
    """A test of generated inputs: so many in ``make test``, and a share of FUZZ_EXAMPLES in a long run."""
    many = {"max_examples": max(1, round(EXAMPLES * share)), "print_blob": True} if EXAMPLES else {}
    how: Any = {"max_examples": quick, "derandomize": True, "database": None} if not EXAMPLES else many

    def decorate(test: Test) -> Test:
        run = settings(deadline=None, suppress_health_check=list(HealthCheck), **how)(given(*strategies)(test))
        return pytest.mark.timeout(0 if EXAMPLES else 120)(run)

    return decorate


class TookTooLong(BaseException):
    """No error that a program catches by accident."""


def _too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise TookTooLong(f"more than {CPU_SECONDS} s of this process's time")


@contextmanager
def bounded(memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """Whatever an input does, it ends in time and within so much memory."""
    before = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    tracemalloc.start()
    begun = time.process_time()
    try:
        yield
        _, peak_bytes = tracemalloc.get_traced_memory()
        assert peak_bytes <= memory_bytes, f"{peak_bytes} bytes were taken, at most {memory_bytes} should be"
        assert time.process_time() - begun < CPU_SECONDS
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(call: Callable[[], T], memory_bytes: int = MEMORY_BYTES) -> T | FarmError:
    """What a call returns, or the error of ours with which it refuses; anything else is raised, and fails the test."""
    with bounded(memory_bytes):
        try:
            return call()
        except FarmError as error:
            refusal = error
    one_line(str(refusal))
    return refusal


def one_line(text: str) -> None:
    """It can be shown to a person as it is."""
    assert text.strip()
    assert "\n" not in text and "\r" not in text, text
    assert len(text) <= LINE_CHARACTERS, f"{len(text)} characters: {text[:200]}"


def listing(folder: Path) -> dict[str, int]:
    """All that lies below a folder, with sizes; links are not followed."""
    return {str(path.relative_to(folder)): path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()}
