"""One member's use of a node: aged at both ends, marked when it ends, and never in the way of its job."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.client import entry, inuse, localageing, nodelock
from farm.client.folder import KernelFolder
from farm.client.nodeuse import NodeUse
from farm.policy.inifile import NAME
from tests.support.entries import SHA, bundle, content
from tests.unit.client.test_localageing import IDLE, KEYS, left, used

MB = 1048576
DATA = b"x" * (MB // 4)


@pytest.fixture
def ten(folder: KernelFolder) -> Path:
    """Ten entries of half a MB, the first used longest ago; all of them hours ago."""
    for n, key in enumerate(KEYS):
        folder.unpack(bundle(DATA, key), SHA)
        used(folder.path, key, (20 - n) * 3600)
    return folder.path


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def use(root: Path, told: list[str]) -> Iterator[NodeUse]:
    use = NodeUse(root, IDLE, told.append)
    yield use
    use.close()


def limit(root: Path, size_mb: int, ratio: int = 50) -> None:
    (root.parent / NAME).write_text(
        f"[op_compiler_cache]\nmax_op_cache_size={size_mb}\nremain_cache_size_ratio={ratio}\n"
    )


def is_new(folder: Path, key: bytes) -> bool:
    return time.time() - entry.last_used_ms(folder / key.hex()) / 1000 < 60


def test_the_folder_is_aged_when_a_job_begins_but_for_what_it_will_use(
    ten: Path, root: Path, use: NodeUse, told: list[str]
) -> None:
    limit(root, 1)
    use.begin(ten, KEYS[:1])
    assert left(ten) == [0]
    assert told == [f"the kernel folder was full: removed 9 unused kernels (4.5 MB) from {ten}"]
    use.begin(ten, KEYS[1:2])
    assert len(told) == 1, "once"


def test_what_a_job_used_is_marked_when_it_ends_and_the_folder_is_aged(ten: Path, root: Path, use: NodeUse) -> None:
    use.begin(ten, KEYS[:3])
    use.hit(ten, KEYS[0])
    assert [is_new(ten, key) for key in KEYS[:3]] == [True, False, False]
    limit(root, 3)
    use.close()
    assert left(ten) == [0, 1, 2], "read again, and what was in use until now is not idle"
    assert all(is_new(ten, key) for key in KEYS[:3])
    assert inuse.look(ten).keys == set()


def test_with_minus_one_no_use_times_are_written_and_nothing_goes(
    ten: Path, root: Path, use: NodeUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_MAX_OP_CACHE_SIZE", "-1")
    use.begin(ten, KEYS)
    use.hit(ten, KEYS[0])
    assert inuse.look(ten).keys == set(KEYS)
    use.close()
    assert left(ten) == list(range(10))
    assert not any(is_new(ten, key) for key in KEYS)
    assert not (ten / localageing.FOLDER / "sizes").exists(), "nor is it measured"


def test_the_file_that_a_job_makes_does_not_beat_the_environment_of_later_ones(
    ten: Path, root: Path, use: NodeUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_MAX_OP_CACHE_SIZE", "6")
    use.begin(ten, [])
    assert (root.parent / NAME).exists()
    use.close()
    assert left(ten) == list(range(10))
    monkeypatch.setenv("ASCEND_MAX_OP_CACHE_SIZE", "5")
    use.begin(ten, [])
    assert left(ten) == [6, 7, 8, 9]


def test_what_a_killed_process_used_was_used_until_it_is_found_dead(ten: Path, root: Path) -> None:
    child = os.fork()
    if child == 0:
        NodeUse(root, IDLE, lambda text: None).begin(ten, KEYS[:2])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    limit(root, 1)
    NodeUse(root, IDLE, lambda text: None).begin(ten, [])
    assert left(ten) == [0, 1]


def test_whatever_keeps_a_folder_from_being_aged_is_told_once_and_the_job_goes_on(
    ten: Path, root: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(root, 1)
    (ten / localageing.FOLDER).write_text("in the way")
    for _ in range(2):
        use = NodeUse(root, IDLE, told.append)
        use.begin(ten, KEYS[:1])
        use.close()
    (ten / localageing.FOLDER).unlink()
    monkeypatch.setattr(nodelock, "try_lock", lambda descriptor, shared=False: None)
    for _ in range(2):
        use = NodeUse(root, IDLE, told.append)
        use.begin(ten, KEYS[:1])
        use.close()
    monkeypatch.undo()
    assert left(ten) == list(range(10))
    assert [f"{localageing.FOLDER} is no folder" in told[0], "file locks do not work" in told[1]] == [True, True]
    assert len(told) == 2


def test_links_are_not_followed_to_mark_what_lies_elsewhere(ten: Path, root: Path, use: NodeUse) -> None:
    elsewhere = KernelFolder(root.parent / "elsewhere", "sm_90")
    files = elsewhere.unpack(bundle(key=KEYS[0]), SHA)
    used(elsewhere.path, KEYS[0], 3600)
    link = b"\x77" * 32
    (ten / link.hex()).symlink_to(elsewhere.path / KEYS[0].hex())
    use.begin(ten, [link])
    use.hit(ten, link)
    use.close()
    assert not is_new(elsewhere.path, KEYS[0])
    assert content(files) is not None
