"""Files of the farm's own, on shared disks, that somebody else has written into."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from farm.client import entry, jobfile, localcache, sizes
from farm.client.folder import KernelFolder
from farm.embedded import state
from farm.store.store import IDENTITY_PATH, Store
from tests.fuzz.bounds import fuzz, outcome
from tests.fuzz.mutations import damaged, documents
from tests.fuzz.test_commands import celery
from tests.support.entries import KEY, SHA, bundle

PAGE = {
    "host": "h", "pid": 1, "index_url": "unix:///tmp/none?db=0", "broker_url": "b", "result_url": "r",
    "store_url": "file:///s", "started": "2026-12-01T00:00:00+00:00",
}  # fmt: skip
JOB = {"job_id": "j", "incarnation": 1, "operators": {"add": {"kernel.o": "/x/kernel.o"}, "算子": {"k": "/y"}}}
IDENTITY = {"farm_id": "0011223344556677", "schema": 1}
SIZES = {f"{KEY.hex()} 17": 5}
DEEP = [b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b"-Infinity", b"\\ud800", b"9" * 5000]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may name a process that lives; its server is not waited for."""
    monkeypatch.setattr(state, "_RESTART_SECONDS", 0.0)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node's kernel folder with one entry, and beside it the places of the other files."""
    root = tmp_path_factory.mktemp("node")
    KernelFolder(root / "kernel_cache", "sm_90").unpack(bundle(), SHA)
    (root / "kernel_cache" / "sm_90" / "jobs").mkdir()
    (root / "store").mkdir()
    return root


def readers(node: Path) -> dict[str, tuple[Path, Any, Callable[[], object]]]:
    """Each file with what belongs into it, and who reads it."""
    soc = node / "kernel_cache" / "sm_90"
    description = soc / KEY.hex() / entry.DESCRIPTION
    return {
        "state": (node / state.FILE, PAGE, lambda: state.read(node)),
        "job": (soc / "jobs" / "j.json", JOB, lambda: [*jobfile.read_all(soc / "jobs")]),
        "entry": (description, json.loads(description.read_bytes()), lambda: entry.is_right(soc / KEY.hex(), KEY, SHA)),
        "list": (soc / "jobs" / "j.json", JOB, lambda: [*localcache.entries(node / "kernel_cache", "sm_90")]),
        "sizes": (node / "sizes", SIZES, lambda: sizes.measure(soc, node / "sizes")),
        "store": (node / "store" / IDENTITY_PATH, IDENTITY, Store.open(f"file://{node}/store").read_identity),
    }


NAMES = ["state", "job", "entry", "list", "sizes", "store"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", DEEP, ids=range(len(DEEP)))
def test_what_json_can_not_take(node: Path, name: str, data: bytes) -> None:
    written(node, name, data)


@fuzz(60, st.sampled_from(NAMES), documents([PAGE, JOB, IDENTITY, SIZES]))
def test_any_document(node: Path, name: str, document: Any) -> None:
    try:
        data = json.dumps(document).encode()
    except ValueError:  # deeper than json writes
        return
    written(node, name, data)


@fuzz(30, st.sampled_from(NAMES), damaged([json.dumps(one).encode() for one in (PAGE, JOB, IDENTITY, SIZES)], DEEP[2:]))
def test_damaged_files(node: Path, name: str, data: bytes) -> None:
    written(node, name, data)


def written(node: Path, name: str, data: bytes) -> None:
    path, right, read = readers(node)[name]
    if path.exists():
        path.chmod(0o644)
    try:
        path.write_bytes(data)
        outcome(read)
    finally:
        path.write_bytes(json.dumps(right).encode())


@pytest.mark.parametrize("charset", ["latin-1", "utf-8"])
def test_names_that_a_terminal_has_no_letters_for(node: Path, charset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = KernelFolder(node / "kernel_cache", "sm_90")
    folder.write_job("j", 1, {"算子": folder.unpack(bundle(), SHA)})
    monkeypatch.setenv("ASCEND_CACHE_PATH", str(node))
    done = CliRunner(charset=charset).invoke(celery, ["-A", "farm", "local", "ls"], prog_name="celery")
    assert done.exit_code == 0, (done.exception, done.stderr)
    assert ("算子" if charset == "utf-8" else "\\u7b97\\u5b50") in done.stdout
