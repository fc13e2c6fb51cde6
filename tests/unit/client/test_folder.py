"""Entries of the node's kernel folder: whole or not there, verified, replaced at once."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.client import entry, swap
from farm.client.folder import KernelFolder
from farm.errors import NodeDiskFull
from farm.store.bundle import Bundle, BundleFile
from tests.support.disks import small_disk
from tests.support.entries import KEY, OTHER_SHA, SHA, bundle, bytes_of, content, make_writable, names_in


def test_unpacked_files_are_plain_read_only_and_all_there(folder: KernelFolder, root: Path) -> None:
    assert folder.present(KEY, SHA) is None
    files = folder.unpack(bundle(), SHA)
    assert content(files) == bytes_of()
    assert files["kernel.o"] == root / "sm_90" / KEY.hex() / "kernel.o"
    assert {name: path.stat().st_mode & 0o777 for name, path in files.items()} == {
        "kernel.o": 0o444, "ir/深/stage.mlir": 0o444, "run": 0o555}  # fmt: skip
    assert folder.present(KEY, SHA) == files
    assert names_in(root / "sm_90") == [KEY.hex()]
    for made in (root, root / "sm_90", root / "sm_90" / KEY.hex(), files["ir/深/stage.mlir"].parent):
        assert made.stat().st_mode & 0o027 == 0


def test_already_right_means_no_write(folder: KernelFolder, root: Path) -> None:
    folder.unpack(bundle(), SHA)
    before = (root / "sm_90" / KEY.hex()).stat().st_ino
    folder.unpack(bundle(), SHA)
    assert (root / "sm_90" / KEY.hex()).stat().st_ino == before


def test_an_entry_without_files(folder: KernelFolder) -> None:
    assert folder.unpack(Bundle(KEY, (), b"", {}), SHA) == {}
    assert folder.present(KEY, SHA) == {}


def test_another_bundle_of_the_key_replaces_it(folder: KernelFolder, root: Path) -> None:
    folder.unpack(bundle(), SHA)
    assert folder.present(KEY, OTHER_SHA) is None
    assert content(folder.unpack(bundle(b"2"), OTHER_SHA)) == bytes_of(b"2")
    assert folder.present(KEY, SHA) is None
    assert names_in(root / "sm_90") == [KEY.hex()]


DAMAGES = {
    "emptied": lambda at: make_writable(at / "kernel.o").write_bytes(b""),
    "cut short": lambda at: os.truncate(make_writable(at / "kernel.o"), 3),
    "longer": lambda at: make_writable(at / "kernel.o").write_bytes(b"object 1+"),
    "one byte": lambda at: make_writable(at / "kernel.o").write_bytes(b"object 2"),
    "removed": lambda at: (at / "ir/深/stage.mlir").unlink(),
    "file became a folder": lambda at: ((at / "run").unlink(), (at / "run").mkdir()),
    "file became a fifo": lambda at: ((at / "run").unlink(), os.mkfifo(at / "run")),
    "no description": lambda at: make_writable(at / ".opfarm.json").write_bytes(b""),
    "no json": lambda at: make_writable(at / ".opfarm.json").write_bytes(b"{\xff"),
    "deep json": lambda at: make_writable(at / ".opfarm.json").write_bytes(b"[" * 100_000),
    "other json": lambda at: make_writable(at / ".opfarm.json").write_text('{"version": 1, "files": []}'),
    "of another key": lambda at: (
        make_writable(at / ".opfarm.json"),
        (at / ".opfarm.json").write_text((at / ".opfarm.json").read_text().replace(KEY.hex(), "00" * 32)),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_mended_by_unpacking(folder: KernelFolder, root: Path, damage: str) -> None:
    files = folder.unpack(bundle(), SHA)
    DAMAGES[damage](root / "sm_90" / KEY.hex())
    assert folder.present(KEY, SHA) is None
    assert folder.unpack(bundle(), SHA) == files
    assert content(folder.present(KEY, SHA)) == bytes_of()
    assert names_in(root / "sm_90") == [KEY.hex()]


def test_a_stale_handle_is_opened_once_more(folder: KernelFolder, monkeypatch) -> None:
    files = folder.unpack(bundle(), SHA)
    stale = [OSError(errno.ESTALE, "Stale file handle")]
    real_open = os.open

    def opening(path, *args, **kwargs):
        if stale and path == "kernel.o":
            raise stale.pop()
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening)
    assert folder.present(KEY, SHA) == files


def test_without_exchange_of_names_entries_are_replaced_in_two_steps(
    folder: KernelFolder, root: Path, monkeypatch
) -> None:
    monkeypatch.setattr(swap, "_exchange", lambda new, old: False)
    folder.unpack(bundle(), SHA)
    assert content(folder.unpack(bundle(b"2"), OTHER_SHA)) == bytes_of(b"2")
    assert names_in(root / "sm_90") == [KEY.hex()]


def test_with_exchange_of_names_there_is_no_moment_without_an_entry(
    folder: KernelFolder, root: Path, monkeypatch
) -> None:
    folder.unpack(bundle(), SHA)
    new, old = root / "sm_90" / "new", root / "sm_90" / KEY.hex()
    new.mkdir()
    monkeypatch.setattr(Path, "rename", lambda *args: pytest.fail("two steps"))
    swap.swap(new, old, root / "aside")
    assert (new / "kernel.o").exists()
    assert names_in(old) == []


@pytest.mark.parametrize("winner", [(bundle(), SHA), (bundle(b"2"), OTHER_SHA)], ids=["same", "other"])
def test_another_process_may_install_between_two_steps(folder, root: Path, monkeypatch, winner) -> None:
    """The loser of the race uses what the winner installed, or replaces it when it is another bundle."""
    real_write = entry.write

    def write_and_lose(path: Path, packed: Bundle, sha256: bytes) -> None:
        real_write(path, packed, sha256)
        monkeypatch.setattr(entry, "write", real_write)
        KernelFolder(root, "sm_90").unpack(*winner)

    monkeypatch.setattr(entry, "write", write_and_lose)
    assert content(folder.unpack(bundle(), SHA)) == bytes_of()
    assert names_in(root / "sm_90") == [KEY.hex()]


@pytest.fixture
def disk(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=1m") as folder:
        yield folder


def test_a_full_disk_is_named_and_nothing_is_left(disk: Path) -> None:
    folder = KernelFolder(disk / "kernel_cache", "sm_90")
    files = (BundleFile("small", 0o444, b"x"), BundleFile("z-large", 0o444, b"1" * (2 << 20)))
    with pytest.raises(NodeDiskFull, match=f"disk {disk} is full"):
        folder.unpack(Bundle(KEY, files, b"", {}), SHA)
    assert names_in(disk / "kernel_cache" / "sm_90") == []
    folder.unpack(bundle(), SHA)
    assert names_in(disk / "kernel_cache" / "sm_90") == [KEY.hex()]


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["C", "C and ASCII"],
)
def test_han_characters_in_folder_and_file_names_in_any_locale(tmp_path: Path, locale: dict[str, str]) -> None:
    script = f"""
import os
from farm.client.cache_dir import resolve_cache_dir
from farm.client.folder import KernelFolder
from farm.store.bundle import Bundle, BundleFile
folder = KernelFolder(resolve_cache_dir(None, os.environ), "sm_90")
bundle = Bundle({KEY!r}, (BundleFile({"ir/深.o"!a}, 0o444, b"x"),), b"", {{}})
with folder.lock(bundle.key):
    files = folder.unpack(bundle, {SHA!r})
assert folder.present(bundle.key, {SHA!r}) == files
folder.write_job({"作业"!a}, 1, {{{"算子"!a}: files}})
"""
    env = os.environ | locale | {"ASCEND_CACHE_PATH": str(tmp_path / "算子缓存_v1.0")}
    subprocess.run([sys.executable, "-P", "-c", script], env=env, check=True, timeout=30)
    here = tmp_path / "算子缓存_v1.0" / "kernel_cache" / "sm_90"
    made = here / KEY.hex() / "ir" / "深.o"
    assert made.read_bytes() == b"x"
    (written,) = (here / "jobs").glob("*.json")
    assert json.loads(written.read_text(encoding="utf-8")) == {
        "job_id": "作业", "incarnation": 1, "operators": {"算子": {"ir/深.o": str(made)}}}  # fmt: skip
