"""Processes that fetch into one kernel folder at once, and processes killed at every step of an unpacking."""

import errno
import fcntl
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.client import staging, swap
from farm.client.folder import KernelFolder
from tests.support.entries import KEY, OTHER_SHA, SHA, bundle, bytes_of, content, names_in

#: Everything that an unpacking asks of the disk.
SYSTEM_CALLS = ("open", "mkdir", "rename", "fchmod", "unlink", "rmdir", "close", "scandir", "lstat")
KILLED = 99


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kernel_cache"


@pytest.fixture
def folder(root: Path) -> KernelFolder:
    return KernelFolder(root, "sm_90")


def in_child(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(step: int) -> None:
    """From now on, end this process without any cleaning up just before its system call number ``step``."""
    left = [step]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os._exit(KILLED)
            return real(*args, **kwargs)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, counted(getattr(os, name)))
    swap._exchange = counted(swap._exchange)  # type: ignore[assignment]


def kill_at_each_step(folder: KernelFolder, work: Callable[[], object], after: Callable[[], None]) -> int:
    """Run ``work`` in a child that dies at step 0, 1, 2 ... and check ``after`` each; the number of steps."""

    def dying(step: int) -> None:
        die_at(step)
        work()

    for step in range(500):
        code = in_child(lambda step=step: dying(step))
        after()
        if code == 0:
            return step
        assert code == KILLED
    raise AssertionError("never came to its end")


def clean(folder: KernelFolder) -> list[str]:
    staging.remove_strays(folder.path)
    return names_in(folder.path)


def test_killed_at_any_step_of_a_first_unpacking(folder: KernelFolder) -> None:
    def whole_or_missing() -> None:
        found = folder.present(KEY, SHA)
        assert content(found) in (None, bytes_of())
        assert (folder.path / KEY.hex()).exists() == (found is not None)
        assert clean(folder) == ([KEY.hex()] if found else [])
        if found:
            (folder.path / KEY.hex()).rename(folder.path.parent / f"done-{time.monotonic_ns()}")

    steps = kill_at_each_step(folder, lambda: folder.unpack(bundle(), SHA), whole_or_missing)
    assert steps > 15  # it did die in the middle, often


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_killed_at_any_step_of_a_replacement(folder: KernelFolder, monkeypatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(swap, "_exchange", lambda new, old: False)
    missing = 0

    def old_or_new() -> None:
        nonlocal missing
        old, new = folder.present(KEY, SHA), folder.present(KEY, OTHER_SHA)
        missing += old is None and new is None
        if old or new:
            assert content(old or new) == bytes_of(b"1" if old else b"2")
        assert clean(folder) == ([KEY.hex()] if old or new else [])
        folder.unpack(bundle(), SHA)  # also mends whatever was left

    old_or_new()
    missing = 0
    steps = kill_at_each_step(folder, lambda: folder.unpack(bundle(b"2"), OTHER_SHA), old_or_new)
    assert steps > 15
    # Without an exchange of names there is one moment without an entry, never one with half of it.
    assert missing == (0 if exchange else 1)


def test_killed_at_any_step_of_writing_the_job_file(folder: KernelFolder) -> None:
    folder.write_job("j", 1, {"first": {}})

    def old_or_new() -> None:
        text = (folder.path / "jobs" / "j.json").read_text()
        assert '"first"' in text
        assert text.endswith("}")

    steps = kill_at_each_step(folder, lambda: folder.write_job("j", 1, {"second": {}}), old_or_new)
    assert steps > 5


def test_a_killed_holder_of_the_lock_is_not_waited_for(folder: KernelFolder) -> None:
    def hold_and_die() -> None:
        with folder.lock(KEY):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(hold_and_die) == -signal.SIGKILL
    began = time.monotonic()
    with folder.lock(KEY):
        assert time.monotonic() - began < 5
    assert names_in(folder.path) == []


def fetch(root: Path, fetched: Path, barrier, no_locks: int | None) -> None:
    """What a client does; the transfer is a line in ``fetched``."""
    if no_locks is not None:

        def flock(*args: object) -> None:
            if no_locks:
                raise OSError(no_locks, os.strerror(no_locks))

        fcntl.flock = flock  # type: ignore[assignment]
    barrier.wait()
    folder = KernelFolder(root, "sm_90")
    files = folder.present(KEY, SHA)
    if files is None:
        with folder.lock(KEY):
            files = folder.present(KEY, SHA)
            if files is None:
                with fetched.open("a") as lines:
                    lines.write("1\n")
                files = folder.unpack(bundle(), SHA)
    assert content(files) == bytes_of()


def fetch_in_many(count: int, root: Path, fetched: Path, no_locks: int | None = None) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    processes = [context.Process(target=fetch, args=(root, fetched, barrier, no_locks)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * count
    assert names_in(root) == ["sm_90"]


def test_twenty_processes_fetch_one_key_once(root: Path) -> None:
    fetched = root.parent / "fetched"
    fetch_in_many(20, root, fetched)
    assert fetched.read_text() == "1\n"
    assert names_in(root / "sm_90") == [KEY.hex()]


@pytest.mark.parametrize("error", [0, errno.ENOLCK, errno.EOPNOTSUPP], ids=["always granted", "ENOLCK", "none"])
def test_twenty_processes_without_working_locks_all_have_the_entry(root: Path, error: int) -> None:
    fetched = root.parent / "fetched"
    fetch_in_many(20, root, fetched, error)
    folder = KernelFolder(root, "sm_90")
    assert content(folder.present(KEY, SHA)) == bytes_of()
    assert [name for name in names_in(root / "sm_90") if not name.endswith(".lock")] == [KEY.hex()]


def write_job(root: Path, number: int, barrier) -> None:
    barrier.wait()
    for n in range(5):
        KernelFolder(root, "sm_90").write_job("j", 1, {f"op-{number}-{n}": {}})


def test_members_that_write_the_job_file_at_once_lose_nothing(root: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(8)
    processes = [context.Process(target=write_job, args=(root, n, barrier)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    written = json.loads((root / "sm_90" / "jobs" / "j.json").read_text())
    assert len(written["operators"]) == 40
    assert names_in(root / "sm_90" / "jobs") == ["j.json"]


def test_replacing_while_many_read(root: Path) -> None:
    """Readers find one of the two bundles or none (and would fetch), never a mixture."""
    folder = KernelFolder(root, "sm_90")
    folder.unpack(bundle(), SHA)
    context = multiprocessing.get_context("fork")
    stop = context.Event()

    def replace() -> None:
        while not stop.is_set():
            folder.unpack(bundle(b"2"), OTHER_SHA)
            folder.unpack(bundle(), SHA)

    writer = context.Process(target=replace)
    writer.start()
    try:
        seen = 0
        end = time.monotonic() + 20
        while seen < 200 and time.monotonic() < end:
            seen += (folder.present(KEY, SHA) or folder.present(KEY, OTHER_SHA)) is not None
            assert (folder.path / KEY.hex()).exists()
    finally:
        stop.set()
        writer.join()
    assert seen == 200
    assert writer.exitcode == 0
