"""One compile from request to verdict, with shell scripts as sources and sh as their compiler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from farm.index.outcomes import Failure
from farm.request.model import Blob, Request, Source
from tests.unit.workers.requests import ShellToolchain, shell, tree
from workers.keeping import Limits
from workers.runner import Compiled, Stop, compile
from workers.scratch import ScratchArea

LIMITS = Limits(timeout_seconds=30)


@pytest.fixture
def area(tmp_path: Path) -> Iterator[ScratchArea]:
    area = ScratchArea.open(tmp_path / "tmp")
    yield area
    assert tree(area.folder) == ["lock"], "the compile's folder was left behind"
    area.close()


def run(script: str, area: ScratchArea, *outputs: str, limits: Limits = LIMITS) -> Compiled | Failure:
    return compile(shell(script), ShellToolchain(*outputs), area, limits, Stop())


def refused(result: Compiled | Failure) -> tuple[str, str]:
    assert isinstance(result, Failure)
    return result.kind, result.message


def test_a_compile_that_goes_well(area: ScratchArea) -> None:
    result = run("echo code > $OUT/a.o; echo warning: odd; mkdir kernel_meta; touch kernel_meta/x", area, "*.o")
    assert isinstance(result, Compiled)
    assert [(file.name, file.data) for file in result.files] == [("a.o", b"code\n")]
    assert result.log_tail == "warning: odd\n"
    assert 0 < result.compile_ms < 30_000


@pytest.mark.parametrize(
    ("script", "outputs", "message"),
    [
        ("exit 0", ["*.o"], "the compiler exited 0 but it left no file that matches output '*.o'"),
        ("touch $OUT/a.o", ["*.o"], "the compiler exited 0 but output 'a.o' is empty"),
        ("cd $OUT; echo x > a.o; echo x > a.json", ["a.o", "a.json", "a.info"], "no file that matches output 'a.info'"),
        ("echo x > $OUT/a.o; echo 'op: error: bad' >&2; exit 3", ["*.o"], "op: error: bad (exit code 3)"),
    ],
)  # fmt: skip
def test_rejections(script: str, outputs: list[str], message: str, area: ScratchArea) -> None:
    kind, said = refused(run(script, area, *outputs))
    assert kind == "rejected"
    assert message in said


def test_a_rejection_names_no_scratch_folder(area: ScratchArea) -> None:
    result = run('echo "$0:3:1: error: no ($PWD)"; exit 1', area)
    assert refused(result) == ("rejected", "source.sh:3:1: error: no (.) (exit code 1)")


def test_trouble(area: ScratchArea) -> None:
    assert refused(run("kill -9 $$", area))[0] == "transient"
    assert refused(run("sleep 100", area, limits=Limits(timeout_seconds=0.2)))[0] == "transient"
    assert refused(run("echo 'cp: No space left on device'; exit 0", area))[0] == "transient"


def test_a_disk_that_is_full_before_the_compiler_runs(area: ScratchArea, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workers.scratch._write", full)
    kind, message = refused(run("", area))
    assert kind == "transient"
    assert "disk / is full" in message


@pytest.mark.parametrize("when", ["before", "during"])
def test_stopping(when: str, area: ScratchArea, tmp_path: Path) -> None:
    stop, started = Stop(), tmp_path / "started"
    results: list[Compiled | Failure] = []
    toolchain = ShellToolchain(env={"STARTED": str(started)})
    request = shell('echo > "$STARTED"; sleep 1001')
    thread = threading.Thread(target=lambda: results.append(compile(request, toolchain, area, LIMITS, stop)))
    if when == "before":
        stop.request("unwanted")
    thread.start()
    while when == "during" and not started.exists():
        pass
    stop.request("lost")
    thread.join(timeout=10)
    assert refused(results[0])[0] == "cancelled"
    assert stop.reason == ("unwanted" if when == "before" else "lost"), "the first reason holds"


def test_a_request_that_the_toolchain_refuses_is_not_run(area: ScratchArea) -> None:
    class Refusing(ShellToolchain):
        def command(self, *_: object) -> Failure:  # type: ignore[override]
            return Failure("rejected", "not for me")

    assert refused(compile(shell(""), Refusing(), area, LIMITS, Stop())) == ("rejected", "not for me")


def test_an_output_that_the_toolchain_objects_to_is_not_kept(area: ScratchArea) -> None:
    class Objecting(ShellToolchain):
        def command(self, *given: object):  # type: ignore[no-untyped-def]
            command = super().command(*given)  # type: ignore[arg-type]
            return replace(command, review=lambda: Failure("transient", "changed meanwhile"))

    result = compile(shell("echo x > $OUT/a"), Objecting(), area, LIMITS, Stop())
    assert refused(result) == ("transient", "changed meanwhile")


def test_content_that_is_not_at_hand(area: ScratchArea) -> None:
    request: Request = replace(shell(""), source=Source(".sh", Blob(bytes(32), 5)))
    kind, message = refused(compile(request, ShellToolchain(), area, LIMITS, Stop()))
    assert (kind, "not at hand" in message) == ("rejected", True)


def test_eight_at_once_do_not_meet(area: ScratchArea) -> None:
    results: dict[int, Compiled | Failure] = {}

    def one(number: int) -> None:
        results[number] = run(f"echo {number} > mine; sleep 0.05; cat mine > $OUT/a.o", area)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stamps = {number: result.files[0].data for number, result in results.items() if isinstance(result, Compiled)}
    assert stamps == {number: b"%d\n" % number for number in range(8)}
