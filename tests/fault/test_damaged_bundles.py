"""A bundle in the store that is not what was published: compiled once again, then hits; neighbours untouched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import farm
from farm.client import fetch
from farm.index.record import Record
from tests.support.kit import Kit, op, running


def truncate(bundle: Path, neighbour: Path) -> None:
    bundle.write_bytes(bundle.read_bytes()[: bundle.stat().st_size // 2])


def empty(bundle: Path, neighbour: Path) -> None:
    bundle.write_bytes(b"")


def flip(bundle: Path, neighbour: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)


def replace_by_another_keys(bundle: Path, neighbour: Path) -> None:
    shutil.copyfile(neighbour, bundle)


def zero(bundle: Path, neighbour: Path) -> None:
    bundle.write_bytes(bytes(bundle.stat().st_size))


def remove(bundle: Path, neighbour: Path) -> None:
    bundle.unlink()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone was published a moment ago; it is not waited for as on a slow network filesystem."""
    monkeypatch.setattr(fetch, "VISIBLE_WITHIN_SECONDS", 0.1)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    with running(tmp_path_factory.mktemp("farm")) as kit:
        yield kit


@pytest.mark.parametrize("damage", [truncate, empty, flip, zero, replace_by_another_keys, remove])
def test_a_damaged_bundle_is_compiled_once_again(kit: Kit, damage: Callable[[Path, Path], None]) -> None:
    name = damage.__name__
    manifest = kit.manifest(op(kit, f"bad-{name}"), op(kit, f"good-{name}"))
    requests = farm.load(str(manifest))
    bad, good = kit.job(f"{name}-1").compile(requests)
    entries = kit.redis().hgetall(kit.index().prefix + "e:1")
    bundle, neighbour = (next(kit.store.glob(f"default/*/1/{result.key}-*")) for result in (bad, good))
    bundle.chmod(0o644)
    damage(bundle, neighbour)

    notices: list[str] = []
    with kit.job(f"{name}-2") as job:
        healed = job.compile(requests, progress=lambda moment: notices.append(moment.notice or ""))
        assert [result.outcome for result in healed] == ["compiled", "hit"]
        assert len([notice for notice in notices if notice]) == 1
        assert healed[0].files["kernel.o"].read_bytes() == bad.files["kernel.o"].read_bytes()
    assert [result.outcome for result in kit.job(f"{name}-3").compile(requests)] == ["hit", "hit"]
    assert (kit.compiles(f"bad-{name}"), kit.compiles(f"good-{name}")) == (2, 1)

    key = bytes.fromhex(bad.key)
    after = kit.redis().hgetall(kit.index().prefix + "e:1")
    assert after[bytes.fromhex(good.key)] == entries[bytes.fromhex(good.key)]
    assert after[key] != entries[key]
    # A second report of the old path comes late: the new entry stays.
    old_token = Record.unpack(entries[key]).token
    assert kit.index().drop(1, key, old_token) is False
    assert kit.redis().hgetall(kit.index().prefix + "e:1") == after


def test_entries_whose_bundles_are_all_gone_are_compiled_again_once_each(kit: Kit) -> None:
    requests = farm.load(str(kit.manifest(*[op(kit, f"row{n}") for n in range(20)])))
    results = kit.job("rows-1").compile(requests)
    for result in results:
        next(kit.store.glob(f"default/*/1/{result.key}-*")).unlink()
    again = kit.job("rows-2").compile(requests)
    assert {result.outcome for result in again} == {"compiled"}
    assert all(kit.compiles(f"row{n}") == 2 for n in range(20))
