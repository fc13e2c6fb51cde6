"""The node's lock saves a second fetch; nothing else depends on it."""

import errno
import fcntl
import threading
from pathlib import Path

from farm.client import nodelock, staging
from farm.client.folder import KernelFolder
from tests.support.entries import KEY, SHA, bundle, bytes_of, content, names_in
from tests.support.kit import until


def test_the_lock_leaves_no_file(folder: KernelFolder, root: Path) -> None:
    with folder.lock(KEY):
        assert names_in(root / "sm_90") == [f".{KEY.hex()}.lock"]
    assert names_in(root / "sm_90") == []


def test_without_working_locks_one_notice_and_no_error(folder: KernelFolder, monkeypatch, caplog) -> None:
    def no_locks(*args) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    for _ in range(2):
        with folder.lock(KEY):
            assert content(folder.unpack(bundle(), SHA)) == bytes_of()
    assert caplog.text.count("no file locks") == 1


def test_a_stopped_holder_is_not_waited_for_for_ever(folder: KernelFolder, root: Path, monkeypatch) -> None:
    path = staging.lock_name(root / "sm_90", KEY)
    with nodelock.hold(path) as first, nodelock.hold(path, patience_seconds=0.05) as second:
        assert (first, second) == (True, False)


def test_who_waits_to_be_alone_is_not_kept_out_by_those_who_come_later(tmp_path: Path) -> None:
    gate, turn, passed = tmp_path / "gate", tmp_path / "gate.turn", []

    def go_through(alone: bool) -> threading.Thread:
        def go() -> None:
            with nodelock.gate(gate, alone=alone) as inside:
                passed.append((alone, inside))

        thread = threading.Thread(target=go)
        thread.start()
        return thread

    def is_taken() -> bool:
        with turn.open() as file:
            return nodelock.try_lock(file.fileno()) is False

    with nodelock.gate(gate, alone=False):
        waiter = go_through(alone=True)
        until(is_taken, what="the turn is taken")
        later = go_through(alone=False)
        later.join(0.1)
        assert passed == [], "it could pass beside us, but it is not its turn"
    waiter.join(20)
    later.join(20)
    assert passed == [(True, True), (False, True)]
