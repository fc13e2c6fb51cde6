"""Standard streams that are closed, full, or whose reader has gone: what a command does, answers and exits with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.forked import Forked
from tests.support.kit import CELERY, Kit, op, running

#: As a shell says it; for "gone" the test makes the pipe.
STDERR = {"closed": "2>&-", "full": "2>/dev/full", "gone": ""}
STDOUT = {"closed": ">&-", "full": ">/dev/full", "gone": ""}


@dataclass
class Farm:
    """A farm that has one kernel, and how it is asked for again."""

    kit: Kit
    submit: list[str]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    root = tmp_path_factory.mktemp("streams")
    with running(root) as kit:
        submit = ["submit", str(kit.manifest(op(kit, "one"))), "--op-compiler-cache-dir", str(root / "kernels")]
        assert kit.celery(*submit).returncode == 0
        yield Farm(kit, submit)


def run(kit: Kit, words: list[str], redirected: str, gone: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command from a shell: Python sees at its start which streams it has; ``gone`` has no reader."""
    streams = {1: subprocess.PIPE, 2: subprocess.PIPE}
    reader, writer = os.pipe()
    os.close(reader)
    if gone is not None:
        streams[gone] = writer
    try:
        return subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh", *CELERY, *words], env=kit.env, cwd=kit.root,
            stdin=subprocess.DEVNULL, stdout=streams[1], stderr=streams[2], timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)


@pytest.mark.parametrize("stderr", STDERR)
def test_progress_that_can_not_be_written_costs_nothing(farm: Farm, stderr: str) -> None:
    gone = 2 if stderr == "gone" else None
    done = run(farm.kit, [*farm.submit, "--json"], STDERR[stderr], gone)
    assert done.returncode == 0
    assert json.loads(done.stdout)["counts"]["hit"] == 1


@pytest.mark.parametrize("stderr", STDERR)
def test_an_error_that_can_not_be_said_keeps_its_exit_code(farm: Farm, stderr: str) -> None:
    gone = 2 if stderr == "gone" else None
    for words in (["submit", "nowhere.json"], ["cache", "ls", "--nosuch"]):
        done = run(farm.kit, words, STDERR[stderr], gone)
        assert (done.returncode, done.stdout) == (2, b""), words


@pytest.mark.parametrize("stdout", STDOUT)
def test_output_that_nobody_takes_is_a_failure_without_a_traceback(farm: Farm, stdout: str) -> None:
    gone = 1 if stdout == "gone" else None
    commands = (["cache", "stats"], ["cache", "ls", "--help"], ["submit", "nowhere.json", "--json"])
    for words in commands:
        done = run(farm.kit, words, STDOUT[stdout], gone)
        said = b"Error: the output can not be written" if stdout == "full" else b""
        assert done.returncode == 1, words
        assert done.stderr.startswith(said) and b"Traceback" not in done.stderr, done.stderr
        assert said or not done.stderr, done.stderr


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
def test_with_stdout_closed_the_work_is_done(farm: Farm, redirected: str) -> None:
    folder = farm.kit.root / f"unseen{len(redirected)}"
    done = run(farm.kit, [*farm.submit, "--json", "--op-compiler-cache-dir", str(folder)], redirected)
    assert done.returncode == 1
    assert [line[:13] for line in done.stderr.splitlines()] == ([b"[1/1] one hit"] if redirected == ">&-" else [])
    assert list(folder.rglob("kernel.o"))


@pytest.mark.parametrize(
    "words",
    [["submit", "-"], ["cache", "import", "-"], ["cache", "purge"], ["local", "clean", "--all"]],
    ids=" ".join,
)
def test_a_closed_stdin_is_an_empty_one(farm: Farm, words: list[str]) -> None:
    done = run(farm.kit, words, "<&-")
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: ") and done.stderr.count(b"Error") == 1, done.stderr
    assert b"internal" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_a_hold_that_is_ended_early_writes_no_second_document(farm: Farm, number: int, code: int) -> None:
    with Forked(
        [*CELERY, *farm.submit, "--json", "--hold", "600"],
        env=farm.kit.env, cwd=farm.kit.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as submit:  # fmt: skip
        assert submit.stdout
        lines = [submit.stdout.readline()]
        while lines[-1] not in ("}\n", ""):
            lines.append(submit.stdout.readline())
        submit.send_signal(number)
        rest, stderr = submit.communicate(timeout=20)
    assert json.loads("".join(lines))["state"] == "done"
    assert (submit.returncode, rest) == (code, ""), stderr
    assert stderr.endswith("interrupted\n" if number == 2 else "terminated\n")
