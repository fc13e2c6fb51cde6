from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.index.outcomes import Failure
from workers.keeping import Ending, Limits
from workers.verdict import LOG_TAIL_CAP_BYTES, clean, first_error, judge, tail


def ended(log: str = "", **fields: Any) -> Failure:
    rest = {"seconds": 1.0, "max_rss_kb": 2048, "log": "", "log_cut_bytes": 0}
    ending = Ending(**({"outcome": "exited", "code": 1, "signal": None} | rest | fields))
    return judge(ending, log, Limits(timeout_seconds=7), Path("/tmp"))


GCC = """In file included from half.h:3,
                 from source.cpp:1:
source.cpp: In function 'int f()':
source.cpp:3:5: warning: unused variable 'x' [-Werror=unused]
source.cpp:4:9: error: expected ';' before '}' token
    4 |   return 1
source.cpp:9:1: error: another
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (GCC, "source.cpp:4:9: error: expected ';' before '}' token"),
        ("a.cpp:1:10: fatal error: x.h: not here\nended.\n", "a.cpp:1:10: fatal error: x.h: not here"),
        ("ld: in `f':\na.c: undefined reference to `g'\ncollect2: error: ld\n", "a.c: undefined reference to `g'"),
        ("ld: cannot find -lx\ncollect2: error: ld returned 1\n", "ld: cannot find -lx"),
        ("note\nERROR: tiling failed\n" + "main process disappeared\n" * 200, "ERROR: tiling failed"),
        ("Traceback (most recent call last):\n  File x\nValueError: odd\n", "ValueError: odd"),
        ("\n\nsomething else\nmore\n", "something else"),
        ("no newline", "no newline"),
        ("sh: 1: nvcc: not found\n", "sh: 1: nvcc: not found"),
        ("", ""),
        ("error: " + "x" * 5000, "error: " + "x" * 493),
    ],
)  # fmt: skip
def test_the_line_that_says_what_is_wrong(log: str, line: str) -> None:
    assert first_error(log) == line


def test_the_compilers_own_no() -> None:
    failure = ended(GCC)
    assert failure == Failure("rejected", "source.cpp:4:9: error: expected ';' before '}' token (exit code 1)", GCC)
    assert ended("", code=3).message == "the compiler said nothing (exit code 3)"


@pytest.mark.parametrize(
    ("fields", "log", "message"),
    [
        ({"outcome": "timeout", "code": None}, "", "stopped after 7 s (FARM_COMPILE_TIMEOUT_SECONDS)"),
        ({"outcome": "signalled", "code": None, "signal": 9}, "", "signal 9 (SIGKILL); largest process 2 MB"),
        ({"outcome": "signalled", "code": None, "signal": 11}, GCC, "signal 11 (SIGSEGV)"),
        ({"outcome": "signalled", "code": None, "signal": 40}, "", "signal 40 (a real-time signal)"),
        ({"code": 139}, "", "signal 11 (SIGSEGV)"),
        ({"code": 137}, "", "signal 9 (SIGKILL)"),
        ({"outcome": "keeper_lost", "code": None}, "", "watches the compiler was killed"),
        ({"outcome": "not_started", "code": None}, "x: Permission denied", "not be started: x: Permission denied"),
        ({"code": 4}, "source.cpp:5:1: internal compiler error: Segmentation fault\n", "internal compiler error"),
        ({}, "g++: fatal error: Killed signal terminated program cc1plus\n", "signal terminated program cc1plus"),
        ({}, "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes\n", "out of memory"),
        ({}, "virtual memory exhausted: Cannot allocate memory\n", "virtual memory exhausted"),
        ({}, "Traceback (most recent call last):\nMemoryError\n", "MemoryError"),
        ({}, "collect2: fatal error: ld terminated with signal 9 [Killed]\n", "terminated with signal 9"),
        ({}, "g++: fatal error: cannot execute 'cc1plus': execvp: No such file or directory\n", "cannot execute"),
        ({}, "sh: fork: retry: Resource temporarily unavailable\n", "Resource temporarily unavailable"),
        ({}, "cc1plus: fatal error: source.cpp: Too many open files\n", "Too many open files"),
        ({}, "k.cpp:1:10: fatal error: /usr/include/stdio.h: Input/output error\n", "Input/output error"),
        ({}, "/usr/bin/ld: /lib/x/crti.o: Stale file handle\n", "Stale file handle"),
        ({}, "/usr/bin/ld: final link failed: memory exhausted\n", "memory exhausted"),
        ({}, "/usr/bin/ld: x.o: Cannot allocate memory\n", "Cannot allocate memory"),
        ({}, "fatal error: writing x.s: No space left on device\n", "disk / is full: fatal error: writing"),
    ],
)  # fmt: skip
def test_trouble_that_another_try_may_not_meet(fields: dict[str, Any], log: str, message: str) -> None:
    failure = ended(log, **fields)
    assert failure.kind == "transient"
    assert message in failure.message


@pytest.mark.parametrize(
    "log",
    [
        'source.cpp:1:2: error: #error "No space left on device"\n    1 | #error "No space left on device"\n',
        'source.cpp:1:2: error: #error "Stale file handle"\n    1 | #error "Stale file handle"\n',
        "source.cpp:1:10: fatal error: x: Input/output error: No such file or directory\n",
        "source.cpp:7:1: error: 'out of memory' was not declared\n    7 | out of memory;\n",
    ],
)
def test_a_source_that_speaks_of_trouble_has_none(log: str) -> None:
    assert ended(log).kind == "rejected"


def test_a_stopped_compile() -> None:
    assert ended(outcome="cancelled", code=None).kind == "cancelled"


def test_the_log_is_bounded_and_begins_with_a_line() -> None:
    log = "".join(f"line {number}\n" for number in range(10_000))
    failure = ended(log)
    assert len(failure.log_tail.encode()) <= LOG_TAIL_CAP_BYTES
    assert failure.log_tail.startswith("line 9") and failure.log_tail.endswith("line 9999\n")
    assert len(tail("é" * 10_000).encode()) <= LOG_TAIL_CAP_BYTES
    assert tail("short") == "short"


def test_scratch_names_colours_and_control_characters_are_removed() -> None:
    root, folder = Path("/tmp/scratch"), Path("/tmp/scratch/src/d")
    log = (
        "\x1b[01m\x1b[K/tmp/scratch/src/d/source.cpp:1:1:\x1b[m error:\0 in /tmp/scratch/inc0/a.h\r\ncwd /tmp/scratch\n"
    )
    assert clean(log, root, folder) == "source.cpp:1:1: error: in inc0/a.h\ncwd .\n"
