"""Which entries live processes use: by processes that live, die, fork, and come from other kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from farm.client import inuse, nodelock, staging
from farm.client.inuse import InUse, Use, alone, look, peek
from farm.errors import InputError

A, B, C = (bytes([n]) * 32 for n in (10, 11, 12))

MEMBER = """
import sys
from pathlib import Path
from farm.client.inuse import InUse
use = InUse()
use.add(Path(sys.argv[1]), [bytes.fromhex(key) for key in sys.argv[2:]])
print("noted", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "sm_90"
    path.mkdir()
    return path


def lists(folder: Path) -> list[Path]:
    return sorted((folder / inuse.FOLDER).glob("*.keys"))


def member(folder: Path, *keys: bytes) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", MEMBER, str(folder), *(key.hex() for key in keys)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout and process.stdout.readline() == "noted\n"
    return process


def end(process: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.communicate()


def test_nobody_uses_anything(folder: Path) -> None:
    assert look(folder) == Use(frozenset(), True)
    assert not (folder / inuse.FOLDER).exists()


def test_what_members_use_until_they_close(folder: Path) -> None:
    one, other = InUse(), InUse()
    one.add(folder, [A, B])
    one.add(folder, [B])
    other.add(folder, [C])
    other.add(folder, [])
    assert look(folder) == Use(frozenset({A, B, C}), True)
    assert len(lists(folder)) == 2
    one.close()
    one.close()
    assert look(folder).keys == {C}
    one.add(folder, [A])
    assert look(folder).keys == {A, C}
    one.close()
    other.close()
    assert (look(folder).keys, lists(folder)) == (frozenset(), [])


def test_a_batch_is_one_append(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use, writes = InUse(), []
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: writes.append(len(data)) or real(descriptor, data))
    keys = [n.to_bytes(32, "big") for n in range(5000)]
    use.add(folder, keys)
    use.add(folder, keys)
    assert writes == [5000 * 65 + 1]
    assert look(folder).keys == set(keys)
    use.close()


def test_a_killed_process_uses_nothing_any_more(folder: Path) -> None:
    killed, lives = member(folder, A), member(folder, B)
    assert look(folder).keys == {A, B}
    end(killed)
    assert look(folder).keys == {B}
    assert len(lists(folder)) == 1, "the dead list is removed"
    end(lives)
    assert look(folder).keys == set()


def test_a_stopped_process_still_uses_what_it_has(folder: Path) -> None:
    process = member(folder, A)
    process.send_signal(signal.SIGSTOP)
    assert look(folder).keys == {A}
    process.send_signal(signal.SIGCONT)
    end(process)


def test_a_forked_child_that_outlives_its_parent_uses_what_it_inherited(folder: Path) -> None:
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        InUse().add(folder, [A])
        if os.fork() == 0:
            os.read(read, 1)
        os._exit(0)
    os.waitpid(parent, 0)
    assert look(folder).keys == {A}
    os.write(write, b"x")
    deadline = time.monotonic() + 5
    while look(folder).keys:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_torn_line_hides_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes a part of an append and then no more; the next one counts in full."""
    use = InUse()
    use.add(folder, [A])
    real, calls = os.write, [0]

    def torn(descriptor: int, data: Any) -> int:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:40])

    monkeypatch.setattr(os, "write", torn)
    use.add(folder, [B])
    monkeypatch.setattr(os, "write", real)
    assert look(folder).keys == {A}
    use.add(folder, [B, C])
    assert look(folder).keys == {A, B, C}
    use.close()


def test_a_disk_that_takes_no_list_costs_one_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / inuse.FOLDER).symlink_to(folder)
    use = InUse()
    use.add(folder, [A])
    use.add(folder, [B])
    assert [record.message for record in caplog.records if "do not clean it" in record.message] == [
        f"can not note in {folder} which kernels are in use (cache folder {folder / inuse.FOLDER} is a symbolic link "
        "(choose another folder with --op-compiler-cache-dir or ASCEND_CACHE_PATH)): do not clean it now"
    ]


def test_of_another_kernel_nothing_is_known_for_a_day(folder: Path) -> None:
    InUse().add(folder, [A])
    (ours,) = lists(folder)
    foreign = ours.with_name(ours.name.replace(staging.kernel(), "00000000"))
    foreign.write_text(f"{B.hex()}\n")
    assert look(folder).keys == {A, B}
    old = time.time() - staging.FOREIGN_KERNEL_SECONDS - 10
    os.utime(foreign, (old, old))
    assert look(folder).keys == {A}
    assert lists(folder) == [ours]


def test_files_of_others_are_left_alone(folder: Path) -> None:
    InUse().add(folder, [A])
    other = folder / inuse.FOLDER / "notes.txt"
    other.write_text(B.hex())
    assert look(folder).keys == {A}
    assert other.exists()


def test_where_locks_do_not_work_nobody_is_sure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    InUse().add(folder, [A])
    for answer in (None, True):  # no locks at all; locks that keep nobody out
        monkeypatch.setattr(nodelock, "try_lock", lambda descriptor, shared=False, answer=answer: answer)
        assert look(folder) == Use(frozenset({A}), False)
        with alone(folder) as inside:
            assert inside is bool(answer)
    monkeypatch.undo()
    assert look(folder) == Use(frozenset({A}), True), "and its list was not taken for dead"


def test_whoever_takes_away_is_alone(folder: Path) -> None:
    gate = folder / inuse.FOLDER / "gate"
    InUse().add(folder, [A])
    with alone(folder) as inside:
        assert inside
        with nodelock.gate(gate, alone=False, patience_seconds=0.05) as second:
            assert not second
    with nodelock.gate(gate, alone=False) as one, nodelock.gate(gate, alone=False) as two:
        assert (one, two) == (True, True)
        with nodelock.gate(gate, alone=True, patience_seconds=0.05) as third:
            assert not third
    with alone(folder) as inside:
        assert inside


def test_a_gate_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "gate").symlink_to(folder / "elsewhere")
    with pytest.raises(InputError, match="is a link or a folder"), nodelock.gate(folder / "gate", alone=True):
        pass


@pytest.mark.parametrize("answer", [None, True])
def test_who_only_looks_takes_every_list_for_live_where_locks_do_not_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: bool | None
) -> None:
    end(member(folder, A))
    assert (peek(folder), len(lists(folder))) == (frozenset(), 1)
    monkeypatch.setattr(nodelock, "try_lock", lambda descriptor, shared=False: answer)
    assert peek(folder) == {A}
