from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.toolchains.pinned import Pinned, content_sha256


def bank(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"a")
    (folder / "sub" / "b.json").write_text("{}")
    return folder


MUST_CHANGE: list[Callable[[Path], object]] = [
    lambda folder: (folder / "a.bin").write_bytes(b"b"),
    lambda folder: (folder / "a.bin").rename(folder / "c.bin"),
    lambda folder: (folder / "sub").rename(folder / "bus"),
    lambda folder: (folder / "new").write_bytes(b""),
    lambda folder: (folder / "a.bin").unlink(),
    lambda folder: (folder / "dangling").symlink_to("nowhere"),
]


@pytest.mark.parametrize("change", MUST_CHANGE)
def test_content_and_names_count(change: Callable[[Path], object], tmp_path: Path) -> None:
    folder = bank(tmp_path / "bank")
    before, pinned = content_sha256(folder), Pinned([folder])
    assert pinned.change() is None
    change(folder)
    assert content_sha256(folder) != before
    assert pinned.change() == f"{folder} has changed since the worker started"


def test_place_times_and_modes_do_not(tmp_path: Path) -> None:
    folder = bank(tmp_path / "bank")
    before, pinned = content_sha256(folder), Pinned([folder])
    os.utime(folder / "a.bin", ns=(1, 1))
    (folder / "a.bin").chmod(0o755)
    (folder / "empty").mkdir()
    assert pinned.change() is None and pinned.change() is None
    assert content_sha256(folder) == before
    assert content_sha256(folder.rename(tmp_path / "elsewhere")) == before == content_sha256(bank(tmp_path / "copy"))
    assert pinned.change() == f"{folder} can no longer be read: No such file or directory"


def test_a_file_by_its_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x")
    two.symlink_to(one)
    assert Pinned([one]).sha256s == Pinned([two]).sha256s
    pinned = Pinned([two])
    one.write_bytes(b"y")
    assert pinned.change() is not None


def test_links_to_folders_are_followed_and_loops_end(tmp_path: Path) -> None:
    real = bank(tmp_path / "8.0" / "opp")
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "opp").symlink_to(real)
    (real / "self").symlink_to(real)
    before = content_sha256(tmp_path / "latest")
    (real / "sub" / "b.json").write_text("{1}")
    assert content_sha256(tmp_path / "latest") != before


def test_what_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Pinned([tmp_path / "nothing"])
