"""A node's kernels as a list, and clearing them: never one in use, never what the farm did not make."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from farm.client import inuse, localcache, nodelock, removal, staging
from farm.client.folder import KernelFolder
from farm.client.inuse import InUse
from farm.client.localcache import LocalEntry
from farm.errors import FarmError, InputError
from tests.support.disks import read_only
from tests.support.entries import SHA, bundle, bytes_of, content, names_in

A, B, C = (bytes([n]) * 32 for n in (10, 11, 12))
SOC = "sm_90"


@pytest.fixture
def three(folder: KernelFolder) -> KernelFolder:
    """Three entries; jobs call the first two by names."""
    files = {key: folder.unpack(bundle(key=key), SHA) for key in (A, B, C)}
    folder.write_job("one", 1, {"add": files[A], "mul": files[B]})
    folder.write_job("two", 1, {"sum": files[A]})
    return folder


def listed(root: Path) -> dict[bytes, LocalEntry]:
    return {row.key: row for row in localcache.entries(root, SOC)}


def remove(root: Path, *keys: bytes) -> set[bytes]:
    rows = listed(root)
    return {row.key for row in localcache.remove(root, SOC, [rows[key] for key in keys])}


def test_what_is_there(three: KernelFolder, root: Path) -> None:
    rows = listed(root)
    assert [rows[key].operators for key in (A, B, C)] == [("add", "sum"), ("mul",), ()]
    size = sum(map(len, bytes_of().values()))
    assert {(row.soc, row.files, row.size_bytes, row.in_use) for row in rows.values()} == {(SOC, 3, size, False)}
    assert localcache.socs(root) == [SOC]


def test_those_in_use_come_first_then_those_used_last(three: KernelFolder, root: Path) -> None:
    for key, seconds in ((A, 10), (B, 20), (C, 30)):
        os.utime(root / SOC / key.hex() / ".opfarm.json", (seconds, seconds))
    use = InUse()
    use.add(root / SOC, [A])
    rows = localcache.entries(root, SOC)
    found = [(row.key, row.last_used_ms // 1000, row.in_use) for row in rows]
    assert found == [(A, 10, True), (C, 30, False), (B, 20, False)]
    use.close()


def test_an_entry_that_is_removed_is_fetched_again(three: KernelFolder, root: Path) -> None:
    assert remove(root, A, B) == {A, B}
    assert set(listed(root)) == {C}
    assert three.present(A, SHA) is None
    assert content(three.unpack(bundle(key=A), SHA)) == bytes_of()
    assert names_in(root / SOC) == sorted([A.hex(), C.hex(), "jobs", ".inuse"])


def test_what_is_in_use_stays_also_when_the_use_began_after_the_list_was_read(three: KernelFolder, root: Path) -> None:
    rows = localcache.entries(root, SOC)
    use = InUse()
    use.add(root / SOC, [B])
    assert {row.key for row in localcache.remove(root, SOC, rows)} == {A, C}
    assert content(three.present(B, SHA)) == bytes_of()
    use.close()
    assert remove(root, B) == {B}


def test_more_than_are_put_aside_at_once(root: Path, folder: KernelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_AT_ONCE", 2)
    for n in range(5):
        folder.unpack(bundle(key=bytes([n]) * 32), SHA)
    assert len(remove(root, *listed(root))) == 5
    assert names_in(root / SOC) == [".inuse"]


def test_the_files_of_jobs_go_with_their_last_kernel(three: KernelFolder, root: Path) -> None:
    jobs = root / SOC / "jobs"
    remove(root, A)
    assert names_in(jobs) == ["one.json"], "job two had nothing else"
    remove(root, B)
    assert names_in(jobs) == []


def test_what_the_farm_did_not_make_is_neither_listed_nor_removed(three: KernelFolder, root: Path) -> None:
    folder, elsewhere = root / SOC, root.parent / "elsewhere"
    KernelFolder(elsewhere, SOC).unpack(bundle(key=b"\7" * 32), SHA)
    (folder / ("07" * 32)).symlink_to(elsewhere / SOC / ("07" * 32))
    (folder / ("08" * 32)).mkdir()
    (folder / ("08" * 32) / "kernel.o").write_bytes(b"theirs")
    (folder / ("09" * 32)).write_bytes(b"theirs")
    (folder / "notes").mkdir()
    before = set(names_in(folder)) - {key.hex() for key in (A, B, C)}
    assert remove(root, *listed(root)) == {A, B, C}
    assert set(names_in(folder)) - {".inuse"} == before
    assert (elsewhere / SOC / ("07" * 32) / "kernel.o").exists()


def test_an_entry_that_was_replaced_by_something_else_meanwhile_is_left_alone(three: KernelFolder, root: Path) -> None:
    rows = localcache.entries(root, SOC)
    staging.remove(root / SOC / A.hex())
    (root / SOC / A.hex()).mkdir()
    assert {row.key for row in localcache.remove(root, SOC, rows)} == {B, C}
    assert (root / SOC / A.hex()).is_dir()


def test_a_remover_that_was_killed_leaves_no_half_entry(
    three: KernelFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "remove", lambda path: None)
    assert remove(root, A) == {A}
    monkeypatch.undo()
    assert A not in listed(root)
    staging.remove_strays(root / SOC)
    assert names_in(root / SOC) == sorted([B.hex(), C.hex(), "jobs", ".inuse"])


@pytest.mark.parametrize("answer", [None, True])
def test_where_locks_do_not_work_nothing_is_removed(
    three: KernelFolder, root: Path, monkeypatch: pytest.MonkeyPatch, answer: bool | None
) -> None:
    rows = localcache.entries(root, SOC)
    monkeypatch.setattr(nodelock, "try_lock", lambda descriptor, shared=False: answer)
    with pytest.raises(FarmError, match="locks do not work"):
        list(localcache.remove(root, SOC, rows))
    monkeypatch.undo()
    assert set(listed(root)) == {A, B, C}


def test_who_uses_entries_waits_only_while_they_are_put_aside(
    three: KernelFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the bytes are deleted the gate is open."""
    passed = []

    def deleting(path: Path) -> None:
        with nodelock.gate(root / SOC / inuse.FOLDER / "gate", alone=False, patience_seconds=0) as inside:
            passed.append(inside)

    monkeypatch.setattr(staging, "remove", deleting)
    remove(root, A, B, C)
    assert passed == [True, True, True]


@pytest.mark.parametrize("operators", [{"x": 1}, {"x": {"f": 2}}, {"x": {"f": "\0"}}, {"x": ["y"]}])
def test_a_job_file_that_others_wrote_into_is_passed_over(
    three: KernelFolder, root: Path, operators: dict[str, object]
) -> None:
    (root / SOC / "jobs" / "odd.json").write_text(json.dumps({"incarnation": 1, "operators": operators}))
    assert set(listed(root)) == {A, B, C}
    remove(root, C)


def test_looking_writes_nothing_and_needs_no_right_to(
    three: KernelFolder, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    use, ended = InUse(), InUse()
    use.add(root / SOC, [A])
    ended.add(root / SOC, [B])
    for path, descriptor in ended._lists.values():
        os.close(descriptor)  # as a process leaves its list that is killed
        dead = path
    os.utime(root / SOC / B.hex() / ".opfarm.json", (10, 10))
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    with read_only(root, tmp_path / "view") as view:
        rows = listed(view)
        assert {key: row.in_use for key, row in rows.items()} == {A: True, B: False, C: False}
        assert rows[A].operators == ("add", "sum")
        with pytest.raises(InputError, match="can not be used: Read-only file system"):
            list(localcache.remove(view, SOC, [rows[B]]))
    assert set(listed(root)) == {A, B, C}
    assert before == {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    assert caplog.messages == []
    assert inuse.look(root / SOC).keys == {A}
    assert not dead.exists(), "who may write tidies up"
    use.close()


def test_a_folder_that_is_not_there_holds_nothing_and_what_is_none_is_named(tmp_path: Path) -> None:
    assert localcache.socs(tmp_path / "kernel_cache") == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path)
    for name, told in (("file", "is no folder"), ("link", "symbolic link"), ("file/kernel_cache", "Not a directory")):
        with pytest.raises(InputError, match=told):
            localcache.socs(tmp_path / name)
