"""A ``file://`` store: modes that let a group share it, roots that can not be used, disks that are full."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from farm.errors import FarmUnavailable
from farm.store.disk import mount_point
from farm.store.errors import DiskFull
from farm.store.store import Store
from tests.support.disks import small_disk

PATH = "default/sm_90/0/" + "ab" * 32 + "-17"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def local(folder: Path) -> Store:
    return Store.open(folder.as_uri())


def everything_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_the_group_reads_objects_and_nobody_writes_them_whatever_the_umask(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        Store.open(folder.as_uri()).put(PATH, b"x")
    finally:
        os.umask(before)
    mode = folder.stat().st_mode & 0o7777
    assert mode == 0o750 & ~umask
    assert (folder / PATH).stat().st_mode & 0o777 == 0o440
    assert {path.stat().st_mode & 0o7777 for path in folder.rglob("*") if path.is_dir()} == {mode}


def test_a_root_for_a_group_hands_its_mode_on(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o2775)
    Store.open(folder.as_uri()).put(PATH, b"x")
    assert (folder / PATH).stat().st_mode & 0o777 == 0o444
    assert (folder / "default" / "sm_90").stat().st_mode & 0o7777 == 0o2775


@pytest.mark.parametrize("name", ["算子 缓存", "a%20b", "a#b?c", "a b"])
def test_any_folder_name(tmp_path: Path, name: str) -> None:
    Store.open((tmp_path / name).as_uri()).put("a", b"x")
    assert (tmp_path / name / "a").read_bytes() == b"x"


def test_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FarmUnavailable, match=str(root)):
            Store.open(root.as_uri())
    assert (tmp_path / "file").read_text() == "mine"


def test_unwritable_root() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        script = f"""
import os
from farm.errors import FarmUnavailable
from farm.store.store import Store
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
store = Store.open({folder.as_uri()!r})
for call in (store.self_test, lambda: store.put({PATH!r}, b"x"), lambda: store.put("a", b"x")):
    try:
        call()
    except FarmUnavailable as error:
        print(error.message)
"""
        run = [sys.executable, "-P", "-c", script]
        got = subprocess.run(run, check=False, capture_output=True, text=True, timeout=30)
        assert got.stdout.count("Permission denied") == 3, got
        assert got.stdout.count(folder.as_uri()) == 3
        assert list(folder.iterdir()) == []


@pytest.fixture
def disk(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=2m,nr_inodes=40") as folder:
        yield folder


def test_a_full_disk_is_named_and_nothing_is_left(disk: Path) -> None:
    store = Store.open((disk / "store").as_uri())
    store.put("small", b"x")
    with pytest.raises(DiskFull, match=f"disk {disk} is full"):
        store.put("large", b"1" * (3 << 20))
    assert everything_below(disk) == {"store/small": b"x"}
    assert not store.exists("large")
    store.put("again", b"1" * (1 << 20))


def test_a_disk_without_inodes_is_named(disk: Path) -> None:
    store = Store.open((disk / "store").as_uri())
    with pytest.raises(DiskFull, match=r"full \(\d MB and [01] inodes left"):
        for n in range(50):
            store.put(f"f{n}", b"")
    with pytest.raises(DiskFull, match=r"full \(\d MB and [01] inodes left"):
        store.put("new/folder", b"")


def test_mount_point_of_what_is_not_there_yet(tmp_path: Path) -> None:
    assert mount_point(tmp_path / "a" / "b").is_mount()
    assert mount_point(Path("/proc/self/nothing")) == Path("/proc")
