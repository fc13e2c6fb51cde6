"""The limits of a node's folder: two places for op_cache.ini, the environment, and the file that is made."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from farm.client import locallimits
from farm.policy.inifile import GENERATED, NAME
from farm.policy.limits import MEGABYTE, Limits

ENVIRONMENT = {"ASCEND_MAX_OP_CACHE_SIZE": "700", "ASCEND_REMAIN_CACHE_SIZE_RATIO": "70"}
OF_ENVIRONMENT = Limits(700 * MEGABYTE, 70, "environment", True)
DEFAULT = Limits(500 * MEGABYTE, 50, "default", True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kernel_cache").mkdir()
    return tmp_path / "kernel_cache"


@pytest.fixture
def told() -> list[str]:
    return []


def ini(size: object = 20480, ratio: object = 60) -> str:
    return f"[op_compiler_cache]\nmax_op_cache_size={size}\nremain_cache_size_ratio={ratio}\n"


def of_file(size: int, ratio: int) -> Limits:
    return Limits(size * MEGABYTE, ratio, "op_cache.ini", True)


@pytest.mark.parametrize(
    ("documented", "canns", "environ", "limits"),
    [
        (None, None, {}, DEFAULT),
        (None, None, ENVIRONMENT, OF_ENVIRONMENT),
        (ini(1, 1), None, ENVIRONMENT, of_file(1, 1)),
        (None, ini(2, 100), ENVIRONMENT, of_file(2, 100)),
        (ini(1, 1), ini(2, 2), ENVIRONMENT, of_file(1, 1)),
        (GENERATED, ini(2, 2), ENVIRONMENT, of_file(2, 2)),
        (GENERATED, GENERATED, ENVIRONMENT, OF_ENVIRONMENT),
        (ini("500MB"), ini(2, 2), {}, of_file(2, 2)),
        (ini("500MB"), ini(2, "80%"), ENVIRONMENT, OF_ENVIRONMENT),
        (ini(-1, 50), ini(2, 2), ENVIRONMENT, Limits(500 * MEGABYTE, 50, "op_cache.ini", False)),
        (None, None, {"ASCEND_MAX_OP_CACHE_SIZE": "-1"}, Limits(500 * MEGABYTE, 50, "environment", False)),
    ],
)
def test_which_limits_hold(
    root: Path, documented: str | None, canns: str | None, environ: Mapping[str, str], limits: Limits
) -> None:
    for path, text in ((root.parent / NAME, documented), (root / NAME, canns)):
        if text is not None:
            path.write_text(text)
    assert locallimits.read(root, environ, lambda text: None) == limits


def test_an_edited_file_counts_at_the_next_look(root: Path, told: list[str]) -> None:
    locallimits.generate(root, told.append)
    assert locallimits.read(root, ENVIRONMENT, told.append) == OF_ENVIRONMENT
    path = root.parent / NAME
    path.write_text(path.read_text().replace("#max_op", "max_op").replace("#remain", "remain"))
    assert locallimits.read(root, ENVIRONMENT, told.append) == of_file(500, 50)
    path.unlink()
    assert locallimits.read(root, ENVIRONMENT, told.append) == OF_ENVIRONMENT
    assert told == []


def test_each_fault_is_told_once_with_file_line_value_and_range(root: Path, told: list[str]) -> None:
    (root.parent / NAME).write_text(ini("500MB"))
    (root / NAME).write_text(ini(2, 101))
    environ = {"ASCEND_MAX_OP_CACHE_SIZE": "0", "ASCEND_REMAIN_CACHE_SIZE_RATIO": "abc"}
    for _ in range(3):
        assert locallimits.read(root, environ, told.append) == DEFAULT
    assert len(told) == 4
    for value, where, valid in (
        ("'500MB'", f"{root.parent / NAME}, line 2", "from 1 to 2147483647, or -1"),
        ("'101'", f"{root / NAME}, line 3", "from 1 to 100"),
        ("'0'", "ASCEND_MAX_OP_CACHE_SIZE", "from 1 to 2147483647, or -1"),
        ("'abc'", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "from 1 to 100"),
    ):
        assert [text for text in told if value in text and where in text and valid in text], (value, told)
    (root.parent / NAME).write_text(ini("600MB"))
    locallimits.read(root, environ, told.append)
    assert "'600MB'" in told[4], "another value is another fault"


def test_the_file_that_is_made_sets_nothing_and_beats_nothing(root: Path, told: list[str]) -> None:
    before = os.umask(0)
    try:
        locallimits.generate(root, told.append)
    finally:
        os.umask(before)
    path = root.parent / NAME
    assert (path.read_text(), path.stat().st_mode & 0o7777) == (GENERATED, 0o640)
    assert not (root / NAME).exists(), "CANN's place is CANN's"
    path.write_text("mine")
    locallimits.generate(root, told.append)
    assert path.read_text() == "mine"
    assert [item.name for item in root.parent.iterdir() if item.name.endswith(".tmp")] == []
    assert told == []


def test_many_make_it_at_once_and_nobody_reads_a_part_of_it(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom farm.client import locallimits\n"
        "sys.stdin.readline()\nlocallimits.generate(Path(sys.argv[1]), print)\n"
        "print((Path(sys.argv[1]).parent / 'op_cache.ini').read_text() == locallimits.GENERATED)\n"
    )
    (tmp_path / "kernel_cache").mkdir()
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "kernel_cache")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in crowd:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in crowd] == ["True\n"] * 4
    assert sorted(item.name for item in tmp_path.iterdir()) == ["kernel_cache", NAME]


@pytest.mark.parametrize("in_the_way", ["folder", "fifo", "link to nothing"])
def test_something_else_in_its_place_is_told_and_left_alone(root: Path, told: list[str], in_the_way: str) -> None:
    path = root.parent / NAME
    {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path), "link to nothing": lambda: path.symlink_to("gone")}[
        in_the_way
    ]()
    for _ in range(2):
        locallimits.generate(root, told.append)
        assert locallimits.read(root, ENVIRONMENT, told.append) == OF_ENVIRONMENT
    assert os.path.lexists(path)
    assert len(told) == (in_the_way != "link to nothing")
    assert all(f"{path}: is no file" in text for text in told)


def test_a_folder_that_takes_no_file_costs_one_notice(
    root: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the disk says no."""

    def refuse(*told: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    locallimits.generate(root, told.append)
    locallimits.generate(root, told.append)
    assert told == [
        f"{root.parent / NAME}: can not be written: Read-only file system; the limits are taken from elsewhere"
    ]
    assert locallimits.read(root, ENVIRONMENT, told.append) == OF_ENVIRONMENT
    assert "can not be read: Read-only file system" in told[1]
