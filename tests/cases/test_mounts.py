"""The cache folder, or the kernels' part of it, is a disk of its own; the system's temporary folder is another."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from farm.client.cache_dir import resolve_cache_dir
from farm.client.folder import KernelFolder
from farm.store.store import Store
from tests.support.disks import small_disk
from tests.support.entries import KEY, OTHER_SHA, SHA, bundle, bytes_of, content, names_in


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder from which nothing can be renamed into the others."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_kernel_cache_is_a_mount_point(tmp_path: Path, elsewhere: Path) -> None:
    with small_disk(tmp_path / "kernel_cache", "size=1m") as disk:
        root = resolve_cache_dir(str(tmp_path), os.environ)
        assert root == disk
        folder = KernelFolder(root, "sm_90")
        with folder.lock(KEY):
            folder.unpack(bundle(), SHA)
            assert content(folder.unpack(bundle(b"2"), OTHER_SHA)) == bytes_of(b"2")
        folder.write_job("job", 1, {"add": folder.present(KEY, OTHER_SHA) or {}})
        assert names_in(root / "sm_90") == sorted([KEY.hex(), "jobs"])
        assert names_in(elsewhere) == []


def test_the_store_is_a_mount_point(tmp_path: Path, elsewhere: Path) -> None:
    with small_disk(tmp_path / "store", "size=1m") as disk:
        store = Store.open(disk.as_uri())
        store.self_test()
        store.put("default/sm_90/1/a", b"x")
        assert store.get("default/sm_90/1/a") == b"x"
        assert names_in(elsewhere) == []
