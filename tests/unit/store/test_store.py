"""The store keeps what it was given, never overwrites, and says which disk or URL is at fault."""

import hashlib
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from farm.errors import FarmRefused, FarmUnavailable, InputError
from farm.namespace import Namespace
from farm.store.errors import StoreDamaged, StoreMissing
from farm.store.store import FarmIdentity, Store

PATH = "default/sm_90/0/" + "ab" * 32 + "-17"
NS = Namespace("default", "sm_90")


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path: Path) -> Store:
    return Store.open(f"file://{tmp_path}/store" if request.param == "file" else "memory://")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def local(folder: Path) -> Store:
    return Store.open(folder.as_uri())


def everything_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_get_what_was_put(store: Store) -> None:
    for data in (b"", b"x", os.urandom(3 << 20)):
        path = f"{PATH}{len(data)}"
        assert not store.exists(path)
        store.put(path, data)
        assert store.exists(path)
        assert store.get(path) == data


def test_missing_is_not_unavailable(store: Store) -> None:
    with pytest.raises(StoreMissing):
        store.get(PATH)


def test_same_bytes_again_are_fine_other_bytes_are_refused(store: Store) -> None:
    store.put(PATH, b"first")
    store.put(PATH, b"first")
    with pytest.raises(StoreDamaged, match="nothing was overwritten"):
        store.put(PATH, b"other")
    assert store.get(PATH) == b"first"


@pytest.mark.parametrize(
    "path",
    ["", "/", "/etc/passwd", "a//b", "a/", "..", "../a", "a/../../b", "./a", ".hidden", "a/.hidden", "-a",
     "a b", "a\\b", "a\0b", "a\nb", "a#1", "a%2e%2e", "算", "x" * 256],
)  # fmt: skip
def test_paths_that_could_leave_the_root_are_refused(store: Store, path: str) -> None:
    for call in (store.get, store.exists, lambda path: store.put(path, b"")):
        with pytest.raises(InputError, match="object path"):
            call(path)


def test_sources_are_addressed_and_checked_by_content(local: Store, folder: Path) -> None:
    data = b"__global__ void k() {}"
    digest = hashlib.sha256(data).digest()
    with pytest.raises(StoreMissing):
        local.get_source(digest, 7)
    local.put_source(digest, 7, data)
    local.put_source(digest, 7, data)
    assert local.get_source(digest, 7) == data
    assert everything_below(folder) == {f"sources/{digest.hex()}-7": data}


def test_source_with_a_false_digest_is_not_put(local: Store, folder: Path) -> None:
    with pytest.raises(InputError, match="digest"):
        local.put_source(b"\0" * 32, 7, b"data")
    assert everything_below(folder) == {}


@pytest.mark.parametrize("damage", [b"", b"zzzz", b"dat"])
def test_a_damaged_source_is_told_and_mended_by_putting_it_again(local: Store, folder: Path, damage: bytes) -> None:
    digest = hashlib.sha256(b"data").digest()
    local.put_source(digest, 7, b"data")
    lies_at = folder / "sources" / f"{digest.hex()}-7"
    lies_at.unlink()
    lies_at.write_bytes(damage)
    with pytest.raises(StoreDamaged, match=digest.hex()):
        local.get_source(digest, 7)
    local.put_source(digest, 7, b"data")
    assert local.get_source(digest, 7) == b"data"


def test_an_object_too_large_to_be_ours_is_not_read(local: Store, folder: Path) -> None:
    local.put(PATH, b"x")
    (folder / PATH).chmod(0o644)
    os.truncate(folder / PATH, 1 << 40)
    with pytest.raises(StoreDamaged, match="at most"):
        local.get(PATH)


def test_identity_is_written_once(store: Store) -> None:
    assert store.read_identity() is None
    first, second = FarmIdentity("farm-a", 1), FarmIdentity("farm-b", 2)
    assert store.write_identity(first) == first
    assert store.write_identity(second) == first
    assert store.read_identity() == first


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"farm_id": "a"}', b'{"schema": 1}', b"\xff"])
def test_a_farm_json_that_is_not_ours_is_refused(local: Store, folder: Path, text: bytes) -> None:
    (folder / "farm.json").write_bytes(text)
    with pytest.raises(FarmRefused, match="identity"):
        local.read_identity()
    assert (folder / "farm.json").read_bytes() == text


def test_an_unmounted_store_does_not_look_like_one_without_entries(local: Store, folder: Path) -> None:
    local.write_identity(FarmIdentity("farm-a", 1))
    local.put(PATH, b"x")
    with pytest.raises(StoreMissing):
        local.get(PATH + "1")
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(FarmUnavailable, match="not mounted"):
        local.get(PATH)
    folder.mkdir()
    with pytest.raises(FarmUnavailable, match="not mounted"):
        local.get(PATH)


def test_a_vanished_root_is_not_made_anew(local: Store, folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(FarmUnavailable, match="make folder"):
        local.put(PATH, b"x")
    assert not folder.exists()


def test_largest_generation(store: Store) -> None:
    assert store.largest_generation(NS) == 0
    for n in (1, 2, 10, 9):
        store.put(f"{NS}/generations/{n}", b"")
    store.put(f"{NS}/generations/notes", b"")
    store.put("default/sm_90a/generations/77", b"")
    assert store.largest_generation(NS) == 10


def test_self_test_leaves_nothing(local: Store, folder: Path) -> None:
    local.self_test()
    assert everything_below(folder) == {}


def test_foreign_files_are_not_touched(local: Store, folder: Path) -> None:
    (folder / "default" / "sm_90" / "0").mkdir(parents=True)
    foreign = {"notes.txt": b"mine", "default/sm_90/0/notes": b"mine too", "sources": b"a file, not a folder"}
    for name, data in foreign.items():
        (folder / name).write_bytes(data)
    local.put(PATH, b"x")
    local.self_test()
    with pytest.raises(FarmUnavailable):
        local.put_source(hashlib.sha256(b"x").digest(), 7, b"x")
    assert everything_below(folder) == foreign | {PATH: b"x"}


@pytest.mark.parametrize(
    "url",
    ["", "store", "/abs", "file://", "file:relative", "file://host/a", "s3://", "http://host/", "memory://x",
     "gs://bucket"],
)  # fmt: skip
def test_unknown_urls_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="FARM_STORE_URL"):
        Store.open(url)


def put_one(url: str, number: int, barrier) -> None:
    barrier.wait()
    Store.open(url).put(PATH, b"the same bytes" * 100_000)


def test_processes_that_put_the_same_object_at_once(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    processes = [context.Process(target=put_one, args=(folder.as_uri(), n, barrier)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert everything_below(folder) == {PATH: b"the same bytes" * 100_000}


def test_objects_are_plain_json_for_other_tools(local: Store, folder: Path) -> None:
    local.write_identity(FarmIdentity("farm-a", 1))
    assert json.loads((folder / "farm.json").read_bytes()) == {"farm_id": "farm-a", "schema": 1}
