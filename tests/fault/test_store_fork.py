"""The store in children of a process that used it.

Without the helper process a child hangs for ever in its first read, so every child here has a deadline.
"""

import gc
import hashlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.errors import FarmUnavailable, InputError
from farm.store.errors import StoreDamaged, StoreMissing
from farm.store.forked import HelperObjects
from farm.store.store import FarmIdentity, Store

DEADLINE_SECONDS = 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that this process has used."""
    store = Store.open((tmp_path / "store").as_uri())
    store.put("from/parent", b"parent")
    assert store.get("from/parent") == b"parent"
    return store


def in_child(work: Callable[[], object]) -> str:
    """Run ``work`` in a forked child: its repr, or that of what it raised. A hang fails the test."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                result = repr(work())
            except BaseException as error:
                result = repr(error)
            os.write(writing, result.encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], DEADLINE_SECONDS)
        if not ready:
            os.kill(child, signal.SIGKILL)
            pytest.fail(f"the child did not answer within {DEADLINE_SECONDS} s")
        with os.fdopen(reading, "rb", closefd=False) as pipe:
            return pipe.read().decode()
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def helpers_below(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [child for child in children if b"farm.store.forked" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_child_reads_and_writes(store: Store) -> None:
    large = os.urandom(5 << 20)

    def work() -> list[object]:
        store.put("from/child", large)
        return [store.get("from/parent"), store.exists("nothing"), store.get("from/child") == large]

    assert in_child(work) == "[b'parent', False, True]"
    assert store.get("from/child") == large


def test_everything_else_works_in_a_child(store: Store) -> None:
    def work() -> list[object]:
        digest = hashlib.sha256(b"source").digest()
        store.put_source(digest, 1, b"source")
        store.self_test()
        return [store.get_source(digest, 1), store.write_identity(FarmIdentity("f", 1)).farm_id]

    assert in_child(work) == "[b'source', 'f']"


def test_a_store_opened_in_the_child_works_too(store: Store) -> None:
    assert in_child(lambda: Store.open(store.url).get("from/parent")) == "b'parent'"


def test_errors_are_the_same_in_a_child(store: Store) -> None:
    def kinds() -> list[str]:
        names = []
        for call in (
            lambda: store.get("nothing"),
            lambda: store.put("from/parent", b"other"),
            lambda: store.get("../x"),
        ):
            with pytest.raises((StoreMissing, StoreDamaged, InputError)) as told:
                call()
            names.append(f"{type(told.value).__name__}: {told.value}")
        return names

    assert in_child(kinds) == repr(kinds())


def test_grandchild_does_not_disturb_the_helper_of_its_parent(store: Store) -> None:
    def grandchild() -> bytes:
        return store.get("from/parent")

    def child() -> list[object]:
        first = store.get("from/parent")
        below = in_child(grandchild)
        return [first, below, store.get("from/parent"), len(helpers_below(os.getpid()))]

    assert in_child(child) == repr([b"parent", "b'parent'", b"parent", 1])


def test_threads_of_a_child_share_one_helper(store: Store) -> None:
    def work() -> list[object]:
        got: list[bytes] = []
        threads = [threading.Thread(target=lambda: got.append(store.get("from/parent"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [got == [b"parent"] * 8, len(helpers_below(os.getpid()))]

    assert in_child(work) == "[True, 1]"


def test_a_killed_helper_is_replaced(store: Store) -> None:
    def work() -> list[object]:
        store.get("from/parent")
        (helper,) = helpers_below(os.getpid())
        os.kill(helper, signal.SIGKILL)
        return [store.get("from/parent"), helper in helpers_below(os.getpid())]

    assert in_child(work) == "[b'parent', False]"


def test_a_helper_that_can_not_start_is_unavailable_not_a_hang(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "FarmUnavailable" in in_child(lambda: store.get("from/parent"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "FarmUnavailable" in in_child(lambda: store.get("from/parent"))


def test_the_helper_ends_with_its_child(store: Store) -> None:
    def work() -> int:
        store.get("from/parent")
        return helpers_below(os.getpid())[0]

    helper = int(in_child(work))
    end = time.monotonic() + DEADLINE_SECONDS
    while Path(f"/proc/{helper}").exists() and "Z" not in state_of(helper):
        assert time.monotonic() < end, "the helper outlives its child"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_helper_ends_when_nobody_holds_the_store(tmp_path: Path) -> None:
    helper = HelperObjects(tmp_path.as_uri())
    assert helper.create("a", b"x")
    process = helper._process
    assert process
    assert process.poll() is None
    del helper
    gc.collect()
    assert process.returncode == 0


def test_memory_store_says_that_a_fork_can_not_use_it() -> None:
    store = Store.open("memory://")
    store.put("a", b"x")
    assert "fork can not use it" in in_child(lambda: store.get("a"))


def test_a_child_of_a_process_that_never_used_the_store_needs_no_helper(tmp_path: Path) -> None:
    script = f"""
import os
from farm.store.store import Store
store = Store.open({tmp_path.as_uri()!r})
if os.fork() == 0:
    store.put("a", b"x")
    assert store._helper is None
    os._exit(0)
assert os.wait()[1] == 0
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=DEADLINE_SECONDS)
    assert (tmp_path / "a").read_bytes() == b"x"


def test_unavailable_in_a_child_names_the_url(store: Store, tmp_path: Path) -> None:
    (tmp_path / "store").rename(tmp_path / "gone")
    (tmp_path / "store").write_text("a file")
    told = in_child(lambda: store.get("from/parent"))
    assert told.startswith(FarmUnavailable.__name__)
    assert store.url in told
