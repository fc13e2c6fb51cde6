"""Temporary folders of entries: those of the dead go, those of the living stay."""

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from farm.client import entry, staging
from farm.client.folder import KernelFolder
from tests.support.entries import KEY, OTHER_SHA, SHA, bundle, bytes_of, content, names_in


def stray(root: Path, kernel: str | None = None) -> Path:
    path = staging.new_name(root / "sm_90", KEY)
    if kernel:
        path = path.with_name(path.name.replace(staging.kernel(), kernel))
    path.mkdir()
    entry.write(path, bundle(), SHA)
    return path


def test_strays_of_dead_processes_are_removed(folder: KernelFolder, root: Path) -> None:
    stray(root)
    staging.new_name(root / "sm_90", KEY).mkdir()  # killed before it wrote anything
    (root / "sm_90" / f".{KEY.hex()}.lock").write_text("")
    staging.remove_strays(root / "sm_90")
    assert names_in(root / "sm_90") == []


def test_strays_are_looked_for_once_a_process(root: Path, monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(staging, "remove_strays", looked.append)
    for _ in range(3):
        KernelFolder(root, "gfx942")
    assert looked == [root / "gfx942"]


def test_what_a_live_process_unpacks_stays(folder: KernelFolder, root: Path) -> None:
    with staging.staging(root / "sm_90", KEY) as staged:
        entry.write(staged, bundle(), SHA)
        staging.remove_strays(root / "sm_90")
        assert (staged / "kernel.o").exists()
    assert names_in(root / "sm_90") == []


def test_a_folder_that_only_looks_like_a_stray_stays(folder: KernelFolder, root: Path) -> None:
    path = staging.new_name(root / "sm_90", KEY)
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    staging.remove_strays(root / "sm_90")
    assert (path / "notes.txt").read_text() == "mine"


def test_strays_of_another_node_stay_for_a_day(folder: KernelFolder, root: Path) -> None:
    path = stray(root, kernel="0" * 8)
    staging.remove_strays(root / "sm_90")
    assert path.exists()
    os.utime(path, (0, time.time() - 86401))
    staging.remove_strays(root / "sm_90")
    assert not path.exists()


def test_where_locks_prove_nothing_strays_stay(folder: KernelFolder, root: Path, monkeypatch) -> None:
    path = stray(root)
    monkeypatch.setattr(fcntl, "flock", lambda *args: None)
    staging.remove_strays(root / "sm_90")
    assert path.exists()


def test_a_remover_that_was_killed_leaves_something_that_is_known_as_ours(folder, root, monkeypatch) -> None:
    path = stray(root)

    def killed(*args, **kwargs) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(staging.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            staging.remove(path)
    assert entry.is_ours(path)
    staging.remove_strays(root / "sm_90")
    assert not path.exists()


def test_trouble_in_tidying_is_a_warning(folder: KernelFolder, root: Path, monkeypatch, caplog) -> None:
    folder.unpack(bundle(), SHA)

    def busy(*args, **kwargs) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patch:
        patch.setattr(staging.shutil, "rmtree", busy)
        assert content(folder.unpack(bundle(b"2"), OTHER_SHA)) == bytes_of(b"2")
    assert "will be tried again" in caplog.text
    staging.remove_strays(root / "sm_90")
    assert names_in(root / "sm_90") == [KEY.hex()]
