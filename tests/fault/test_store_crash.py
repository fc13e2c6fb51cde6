"""Writers killed in the middle of a put: no object, or a whole one."""

import subprocess
import sys
from pathlib import Path

import pytest

from farm.store.errors import StoreMissing
from farm.store.store import Store

WRITER = """
import sys
from farm.store.store import Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
store.put(sys.argv[2], b"1" * (256 << 20))
"""


def test_a_writer_killed_in_the_middle_leaves_no_object(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = Store.open(root.as_uri())
    caught_in_the_middle = 0
    for attempt in range(5):
        path = f"a/b/{attempt}"
        argv = [sys.executable, "-P", "-c", WRITER, store.url, path]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            assert writer.stdout.readline() == b"ready\n"
            while writer.poll() is None and not any(root.glob(f"{path}*")):
                pass
            writer.kill()
        left = list(root.glob(f"{path}*"))
        caught_in_the_middle += bool(left) and not (root / path).exists()
        # Whole or not there: never something in between.
        assert not store.exists(path) or len(store.get(path)) == 256 << 20
        for file in left:
            file.unlink()
    assert caught_in_the_middle, "no writer was killed in the middle; the test tested nothing"


def test_after_a_killed_writer_the_same_path_can_be_put(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = Store.open(root.as_uri())
    (root / "a").mkdir()
    (root / "a" / "b#1").write_bytes(b"half of")  # what a killed writer leaves behind
    assert not store.exists("a/b")
    with pytest.raises(StoreMissing):
        store.get("a/b")
    store.put("a/b", b"whole")
    assert store.get("a/b") == b"whole"
