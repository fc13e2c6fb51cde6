"""The disk of the store, or of a worker's scratch folder, is full: named, nothing half there, well again by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import farm
from farm.errors import NodeDiskFull
from tests.support.disks import small_disk
from tests.support.kit import Kit, op, running
from tests.support.led import assert_clean, objects

MEGABYTE = 1 << 20


def fill(disk: Path) -> Path:
    """Another program takes all that is left."""
    filler = disk / "filler"
    filler.write_bytes(b"x" * (shutil.disk_usage(disk).free & ~4095))
    return filler


def compile_one(kit: Kit, name: str, **told: object) -> farm.Result:
    with kit.job(name) as job:
        (result,) = job.compile(farm.load(str(kit.manifest(op(kit, name, **told)))))
    return result


def test_the_stores_disk_is_full_long_before_the_limit(tmp_path: Path) -> None:
    """No answer is made up and no row is left; the hits of others go on; with room again it compiles."""
    with (
        small_disk(tmp_path / "disk", "size=4m") as disk,
        running(
            tmp_path / "farm", workers=0, FARM_STORE_URL=f"file://{disk}/store", FARM_CLAIM_LEASE_SECONDS="2"
        ) as kit,
    ):
        kit.store = disk / "store"
        kit.start_worker()
        before = compile_one(kit, "before")
        assert before.outcome == "compiled"
        filler = fill(disk)
        refused = compile_one(kit, "refused", files={"kernel.o": MEGABYTE})
        assert refused.error is not None
        assert refused.error.failure.kind == "transient"
        assert f"disk {disk} is full" in refused.error.failure.message
        assert kit.redis().hlen(f"{kit.index().prefix}e:1") == len(objects(kit)) == 1
        assert compile_one(kit, "before").outcome == "hit"
        filler.unlink()
        assert compile_one(kit, "refused", files={"kernel.o": MEGABYTE}).outcome == "compiled"
        assert_clean(kit)


def test_the_nodes_own_disk_is_full_and_that_is_said_at_once(tmp_path: Path) -> None:
    """It is no word about the farm: a launcher that goes on without one would meet the same disk."""
    with small_disk(tmp_path / "disk", "size=1m") as disk, running(tmp_path / "farm") as kit:
        manifest = farm.load(str(kit.manifest(op(kit, "large", files={"kernel.o": 2 * MEGABYTE}))))
        with kit.job(folder=disk / "cache") as job, pytest.raises(NodeDiskFull, match=f"disk {disk} is full") as told:
            job.compile(manifest)
        assert (told.value.exit_code, told.value.code) == (1, "disk_full")
        assert not list(disk.rglob("*.o"))
        with kit.job() as job:
            assert job.compile(manifest)[0].outcome == "hit"
        assert_clean(kit)


def test_a_workers_scratch_is_full_and_another_worker_compiles(tmp_path: Path) -> None:
    """The sick one names its disk, rests, and leaves the claim to the other; nobody's attempts are used up."""
    with (
        small_disk(tmp_path / "disk", "size=1m") as disk,
        running(tmp_path / "farm", workers=0, FARM_CLAIM_LEASE_SECONDS="8") as kit,
    ):
        sick = kit.start_worker(1, TMPDIR=str(disk))
        fill(disk)
        kit.start_worker(1)
        with kit.job() as job:
            names = [f"op{n}" for n in range(6)]
            results = job.compile(farm.load(str(kit.manifest(*[op(kit, name, seconds=0.2) for name in names]))))
        assert [result.outcome for result in results] == ["compiled"] * 6
        log = (kit.root / f"log-{kit.processes.index(sick)}").read_text()
        assert f"disk {disk} is full" in log
        assert "taking no claim for 2 s" in log
        assert_clean(kit)


def test_a_compile_that_fills_its_scratch_is_no_word_of_the_compiler(tmp_path: Path) -> None:
    """It fails as passing trouble that names the disk, is not remembered, and leaves the folder empty."""
    with (
        small_disk(tmp_path / "disk", "size=2m") as disk,
        running(tmp_path / "farm", workers=0, FARM_CLAIM_LEASE_SECONDS="2", FARM_MAX_ATTEMPTS="1") as kit,
    ):
        kit.start_worker(1, TMPDIR=str(disk))
        result = compile_one(kit, "large", files={"kernel.o": 4 * MEGABYTE})
        assert result.error is not None
        assert result.error.failure.kind == "transient"
        assert str(disk) in result.error.failure.message
        assert not result.error.remembered
        assert compile_one(kit, "small").outcome == "compiled"
        left = [path for path in disk.rglob("*") if path.is_file() and path.stat().st_size]
        assert left == []
