"""``jobs/<job>.json``: one file for all members of a job."""

import json
from pathlib import Path

import pytest

from farm.client.folder import KernelFolder
from tests.support.entries import SHA, bundle, names_in


def job(path: Path) -> dict[str, object]:
    return json.loads(path.read_bytes())


def test_members_of_a_job_add_to_one_file(folder: KernelFolder, root: Path) -> None:
    files = folder.unpack(bundle(), SHA)
    path = folder.write_job("cluster.17.0.0", 3, {"add": files})
    assert path == root / "sm_90" / "jobs" / "cluster.17.0.0.json"
    folder.write_job("cluster.17.0.0", 3, {"mul": {"kernel.o": "/x"}})
    assert job(path) == {
        "job_id": "cluster.17.0.0",
        "incarnation": 3,
        "operators": {"add": {name: str(at) for name, at in files.items()}, "mul": {"kernel.o": "/x"}},
    }
    assert names_in(path.parent) == [path.name]


def test_a_later_incarnation_replaces_an_earlier_one_and_not_the_reverse(folder: KernelFolder) -> None:
    path = folder.write_job("j", 2, {"old": {}})
    folder.write_job("j", 3, {"new": {}})
    folder.write_job("j", 2, {"late": {}})
    assert job(path) == {"job_id": "j", "incarnation": 3, "operators": {"new": {}}}


@pytest.mark.parametrize(
    "job_id", ["../../x", "/etc/passwd", ".", "..", "", "a b", "作业", "a\nb", "\udcff", "x" * 5000]
)
def test_any_job_id_has_a_file_of_its_own(folder: KernelFolder, root: Path, job_id: str) -> None:
    path = folder.write_job(job_id, 1, {})
    assert path.parent == root / "sm_90" / "jobs"
    assert names_in(path.parent) == [path.name]
    assert names_in(root / "sm_90") == ["jobs"]


def test_long_job_ids_do_not_collide(folder: KernelFolder) -> None:
    assert folder.write_job("x" * 300 + "a", 1, {}) != folder.write_job("x" * 300 + "b", 1, {})


@pytest.mark.parametrize("there", [b"", b"{", b"[]", b'{"incarnation": "x"}', b"\xff", b"[" * 100_000])
def test_a_damaged_job_file_is_replaced(folder: KernelFolder, there: bytes) -> None:
    path = folder.write_job("j", 1, {})
    path.write_bytes(there)
    folder.write_job("j", 1, {"add": {}})
    assert job(path)["operators"] == {"add": {}}


def test_a_link_at_the_job_file_is_replaced_and_not_followed(folder: KernelFolder, root: Path) -> None:
    victim = root.parent / "victim"
    victim.write_text('{"incarnation": 1, "operators": {"x": {}}}')
    path = folder.write_job("j", 1, {})
    path.unlink()
    path.symlink_to(victim)
    folder.write_job("j", 1, {"add": {}})
    assert not path.is_symlink()
    assert job(path)["operators"] == {"add": {}}
    assert victim.read_text() == '{"incarnation": 1, "operators": {"x": {}}}'
