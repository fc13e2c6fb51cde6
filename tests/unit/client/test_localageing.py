"""Ageing of a node's folder: what counts, what goes and what stays, and how often it is measured."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.client import entry, inuse, localageing, nodelock, removal, sizes, staging
from farm.client.folder import KernelFolder
from farm.client.inuse import InUse
from farm.client.localageing import Aged, age
from farm.errors import FarmError
from farm.policy.limits import Limits
from tests.support.entries import OTHER_SHA, SHA, bundle, bytes_of, names_in

SIZE = sum(map(len, bytes_of().values()))
KEYS = [bytes([n]) * 32 for n in range(1, 11)]
IDLE = 1800
HOUR = 3600


@pytest.fixture
def ten(folder: KernelFolder) -> Path:
    """Ten entries, the first used longest ago; all of them hours ago."""
    for n, key in enumerate(KEYS):
        folder.unpack(bundle(key=key), SHA)
        used(folder.path, key, (20 - n) * HOUR)
    return folder.path


def used(folder: Path, key: bytes, seconds_ago: float) -> None:
    at = time.time() - seconds_ago
    os.utime(folder / key.hex() / entry.DESCRIPTION, (at, at))


def limits(entries: float, ratio: int = 50, ageing: bool = True) -> Callable[[], Limits]:
    return lambda: Limits(round(entries * SIZE), ratio, "environment", ageing)


def left(folder: Path) -> list[int]:
    return [n for n, key in enumerate(KEYS) if (folder / key.hex()).is_dir()]


@pytest.mark.parametrize(
    ("limit", "ratio", "stay"),
    [
        (10.1, 50, 10), (10, 50, 5), (8, 50, 4), (10, 100, 10), (9, 100, 9), (10, 1, 0), (10, 10, 1), (10, 19, 1),
        (1, 100, 1), (0.5, 100, 0),
    ],
)  # fmt: skip
def test_from_the_limit_on_the_oldest_go_until_the_ratio_is_left(
    ten: Path, limit: float, ratio: int, stay: int
) -> None:
    assert age(ten, limits(limit, ratio), IDLE) == Aged(10 - stay, (10 - stay) * SIZE)
    assert left(ten) == list(range(10 - stay, 10))
    assert age(ten, limits(limit, ratio), IDLE) == Aged()


def test_exactly_thirty_minutes_are_enough(ten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1_800_000_000_000
    monkeypatch.setattr(localageing, "_now_ms", lambda lock: now_ms)
    for key, idle_ms in ((KEYS[8], IDLE * 1000), (KEYS[9], IDLE * 1000 - 1)):
        at_ns = (now_ms - idle_ms) * 1_000_000
        os.utime(ten / key.hex() / entry.DESCRIPTION, ns=(at_ns, at_ns))
    assert age(ten, limits(1, 1), IDLE).entries == 9
    assert left(ten) == [9]


def test_what_was_used_lately_stays_however_full_it_is(ten: Path) -> None:
    entry.mark_used(ten / KEYS[0].hex())
    assert age(ten, limits(1, 1), IDLE).entries == 9
    assert left(ten) == [0]
    assert age(ten, limits(0.1, 1), IDLE) == Aged()
    assert age(ten, limits(0.1, 1), 0).entries == 1


def test_what_is_in_use_stays_and_counts(ten: Path) -> None:
    use = InUse()
    use.add(ten, KEYS[:3])
    assert age(ten, limits(10, 50), IDLE).entries == 5
    assert left(ten) == [0, 1, 2, 8, 9]
    use.close()
    assert age(ten, limits(5, 50), IDLE).entries == 3
    assert left(ten) == [8, 9]


def test_what_came_into_use_after_it_was_chosen_stays(ten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use, real = InUse(), removal.remove

    def remove(folder: Path, keys: list[bytes], **told: object) -> object:
        use.add(folder, [KEYS[0]])
        entry.mark_used(folder / KEYS[1].hex())  # used, and given up again
        return real(folder, keys, **told)  # type: ignore[arg-type]

    monkeypatch.setattr(removal, "remove", remove)
    assert age(ten, limits(10, 50), IDLE) == Aged(3, 3 * SIZE)
    assert left(ten) == [0, 1, *range(5, 10)]
    use.close()


def test_minus_one_ages_nothing_and_starts_everyones_time_when_it_ends(ten: Path) -> None:
    before = {key: entry.last_used_ms(ten / key.hex()) for key in KEYS}
    assert age(ten, limits(1, 1, ageing=False), IDLE) == Aged()
    assert age(ten, limits(1, 1), IDLE) == Aged(), "nobody counts as idle since before it was switched on"
    assert age(ten, limits(1, 1), IDLE) == Aged()
    since = ten / localageing.FOLDER / "since"
    os.utime(since, (since.stat().st_mtime - IDLE,) * 2)
    assert before == {key: entry.last_used_ms(ten / key.hex()) for key in KEYS}
    assert age(ten, limits(1, 1), IDLE).entries == 10


def test_only_what_the_farm_made_counts_and_goes(ten: Path) -> None:
    elsewhere = KernelFolder(ten.parent.parent / "elsewhere", "sm_90")
    elsewhere.unpack(bundle(key=b"\x77" * 32), SHA)
    (ten / ("77" * 32)).symlink_to(elsewhere.path / ("77" * 32))
    (ten / ("78" * 32)).mkdir()
    (ten / ("78" * 32) / "kernel.o").write_bytes(b"x" * 100 * SIZE)
    (ten / ("79" * 32)).write_bytes(b"x" * 100 * SIZE)
    (ten / "theirs.o").write_bytes(b"x" * 100 * SIZE)
    (ten / "notes").mkdir()
    foreign = {"77" * 32, "78" * 32, "79" * 32, "theirs.o", "notes"}
    assert age(ten, limits(10.1), IDLE) == Aged(), "their bytes are not counted"
    assert age(ten, limits(10, 1), IDLE).entries == 10
    assert set(names_in(ten)) == foreign | {inuse.FOLDER, localageing.FOLDER}
    assert (elsewhere.path / ("77" * 32) / "kernel.o").exists()


def test_only_new_entries_are_measured(ten: Path, folder: KernelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    real = entry.sizes_bytes
    monkeypatch.setattr(entry, "sizes_bytes", lambda path: measured.append(path.name) or real(path))
    age(ten, limits(100), IDLE)
    assert sorted(measured) == [key.hex() for key in KEYS]
    age(ten, limits(100), IDLE)
    assert len(measured) == 10
    folder.unpack(bundle(key=b"\x20" * 32), SHA)
    folder.unpack(bundle(b"another size", key=KEYS[0]), OTHER_SHA)
    age(ten, limits(100), IDLE)
    assert sorted(measured[10:]) == [KEYS[0].hex(), "20" * 32]
    rows = sizes.measure(ten, ten / localageing.FOLDER / "sizes")
    assert rows[KEYS[0].hex()] == sum(map(len, bytes_of(b"another size").values()))
    assert rows["20" * 32] == rows[KEYS[1].hex()] == SIZE


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"x": 1}', "[" * 100_000, "\udcff"])
def test_damaged_sizes_are_measured_anew(ten: Path, damage: str) -> None:
    path = ten / localageing.FOLDER / "sizes"
    path.parent.mkdir(mode=0o750)
    path.write_bytes(damage.encode(errors="surrogateescape"))
    assert sum(sizes.measure(ten, path).values()) == 10 * SIZE
    rows = json.loads(path.read_text())
    assert {name.split()[0]: size for name, size in rows.items()} == {key.hex(): SIZE for key in KEYS}


@pytest.mark.parametrize("size", [None, "1", [], 1.5, True])
def test_a_damaged_row_is_measured_anew(ten: Path, size: object) -> None:
    path = ten / localageing.FOLDER / "sizes"
    path.parent.mkdir(mode=0o750)
    path.write_text(json.dumps({f"{KEYS[0].hex()} {(ten / KEYS[0].hex()).stat().st_ino}": size}))
    assert sizes.measure(ten, path)[KEYS[0].hex()] == SIZE


def test_a_remembered_size_is_believed(ten: Path) -> None:
    path = ten / localageing.FOLDER / "sizes"
    path.parent.mkdir(mode=0o750)
    path.write_text(json.dumps({f"{KEYS[0].hex()} {(ten / KEYS[0].hex()).stat().st_ino}": 12345}))
    assert sizes.measure(ten, path)[KEYS[0].hex()] == 12345


def test_while_one_ages_others_do_not(ten: Path) -> None:
    (ten / localageing.FOLDER).mkdir(mode=0o750)
    with nodelock.hold(ten / localageing.FOLDER / "lock"):
        assert age(ten, limits(10), IDLE) == Aged()
    assert age(ten, limits(10), IDLE).entries == 5


def test_a_file_that_is_being_edited_ages_nothing(ten: Path) -> None:
    """An editor empties the file before it writes it: for that moment the default holds."""
    looks = [limits(1, 1)(), limits(20)()]
    assert age(ten, lambda: looks.pop(0), IDLE) == Aged()
    assert looks == []
    assert left(ten) == list(range(10))


@pytest.mark.parametrize("answer", [None, True])
def test_where_locks_do_not_work_nothing_is_aged(
    ten: Path, monkeypatch: pytest.MonkeyPatch, answer: bool | None
) -> None:
    monkeypatch.setattr(nodelock, "try_lock", lambda descriptor, shared=False: answer)
    with pytest.raises(FarmError, match="are not aged: file locks do not work there"):
        age(ten, limits(1, 1), IDLE)
    assert left(ten) == list(range(10))


def test_a_folder_that_several_users_may_write_is_not_aged(ten: Path) -> None:
    ten.chmod(0o770)
    with pytest.raises(FarmError, match="its group may write there"):
        age(ten, limits(1, 1), IDLE)
    assert left(ten) == list(range(10))
    ten.chmod(0o755)
    assert age(ten, limits(1, 1), IDLE).entries == 10


def test_others_that_keep_the_gate_are_not_waited_for_long(ten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localageing, "_PATIENCE_SECONDS", 0.02)
    (ten / inuse.FOLDER).mkdir(mode=0o750)
    with nodelock.gate(ten / inuse.FOLDER / "gate", alone=False):
        assert age(ten, limits(10), IDLE) == Aged()
        with pytest.raises(removal.Busy, match=r"for 0.02 s others were about to use kernels in"):
            list(removal.remove(ten, KEYS, patience_seconds=0.02))
    assert left(ten) == list(range(10))


def test_what_a_killed_ager_left_is_no_entry_and_is_swept(ten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "remove", lambda path: None)
    assert age(ten, limits(10), IDLE).entries == 5
    monkeypatch.undo()
    assert left(ten) == list(range(5, 10))
    assert sum(name.endswith(".tmp") for name in names_in(ten)) == 5
    assert age(ten, limits(5.1), IDLE) == Aged(), "it does not count"
    staging.remove_strays(ten)
    assert not any(name.endswith(".tmp") for name in names_in(ten))


def test_the_files_of_jobs_without_kernels_go_a_few_at_a_time(
    folder: KernelFolder, ten: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localageing, "_JOB_FILES_AT_MOST", 2)
    for n in range(3):
        folder.write_job(f"job{n}", 1, {"add": {"kernel.o": ten / KEYS[0].hex() / "kernel.o"}})
    folder.write_job("lives", 1, {"add": {"kernel.o": ten / KEYS[9].hex() / "kernel.o"}})
    age(ten, limits(10), IDLE)
    there = names_in(ten / "jobs")
    assert "lives.json" in there
    assert len(there) in (2, 3), "two were looked at; one of them may be the one that stays"
