"""local ls and clean on a node where a job runs, one was killed, and nobody can be asked."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import Forked
from tests.support.kit import CELERY, SOC, Kit, op, running

RANK = Path(__file__).parents[1] / "support" / "rank.py"


def local(kit: Kit, *arguments: str, folder: str = "kernels") -> tuple[int, Any]:
    done = kit.celery("local", *arguments, "--op-compiler-cache-dir", str(kit.root / folder), "--json")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def rank(kit: Kit, manifest: Path, job_id: str) -> subprocess.Popen[str]:
    """A process that has what the manifest asks for and keeps it until its input is closed."""
    process = Forked(
        [sys.executable, str(RANK), str(manifest), str(kit.root / "kernels"), job_id, "hold"],
        env=kit.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["outcomes"]
    return process


def test_what_a_running_job_uses_stays(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        a, b, c = (op(kit, name) for name in "abc")
        assert kit.submit(kit.manifest(a, b, c)).returncode == 0
        lives = rank(kit, kit.manifest(a, name="a.json"), "lives")
        killed = rank(kit, kit.manifest(b, name="b.json"), "killed")
        code, listed = local(kit, "ls")
        by_name = {row["operators"][0]: row for row in listed["entries"]}
        assert code == 0
        assert {name: row["in_use"] for name, row in by_name.items()} == {"a": True, "b": True, "c": False}
        assert listed["folder"] == str(kit.root / "kernels" / "kernel_cache")
        assert listed["bytes"] == sum(row["bytes"] for row in listed["entries"]) > 0
        assert all(Path(row["path"], "kernel.o").is_file() and row["soc"] == SOC for row in listed["entries"])

        killed.kill()
        killed.communicate()
        code, cleaned = local(kit, "clean", by_name["a"]["key"][:12], "--yes")
        assert (code, cleaned["removed"], cleaned["kept"][0]["in_use"]) == (1, [], True)
        code, cleaned = local(kit, "clean", "--all", "--yes")
        assert (code, {row["operators"][0] for row in cleaned["removed"]}) == (0, {"b", "c"})
        assert Path(by_name["a"]["path"], "kernel.o").is_file()

        lives.communicate("")
        assert [row["in_use"] for row in local(kit, "ls")[1]["entries"]] == [False]
        check_ageing(kit)
        # The farm itself is not needed, and what was removed comes from it without a compile.
        assert kit.submit(kit.manifest(a, b, c)).returncode == 0
        kit.kill_server()
        assert local(kit, "clean", "--all", "--yes")[0] == 0
        assert local(kit, "ls")[1]["entries"] == []
        assert kit.compiles() == 4


def check_ageing(kit: Kit) -> None:
    """A job that finds the folder full takes the old kernels out; its environment holds, although the file is there."""
    big, small = op(kit, "big", files={"kernel.o": 2 << 20}), op(kit, "a")
    environment = {"ASCEND_MAX_OP_CACHE_SIZE": "2", "ASCEND_REMAIN_CACHE_SIZE_RATIO": "0", "FARM_MIN_IDLE_SECONDS": "0"}
    assert kit.submit(kit.manifest(big)).returncode == 0
    assert (kit.root / "kernels" / "op_cache.ini").stat().st_mode & 0o777 == 0o640
    done = kit.submit(kit.manifest(small), **environment)
    assert done.returncode == 0
    assert "the kernel folder was full: removed 1 unused kernel (2.0 MB) from" in done.stderr
    assert done.stderr.count("ASCEND_REMAIN_CACHE_SIZE_RATIO = '0' is not a whole number from 1 to 100") == 1
    kit.env["ASCEND_MAX_OP_CACHE_SIZE"] = "-1"
    _, listed = local(kit, "ls")
    del kit.env["ASCEND_MAX_OP_CACHE_SIZE"]
    assert [row["operators"] for row in listed["entries"]] == [["a"]]
    assert (listed["limit_origin"], listed["ageing"], listed["limit_bytes"]) == ("environment", False, 524288000)


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    """No farm at all."""
    kit = Kit(tmp_path)
    yield kit
    kit.close()


def test_wrong_use(kit: Kit) -> None:
    for arguments, told in (
        ([], "either KEYs or --all"),
        (["--all", "abcdabcd"], "either KEYs or --all"),
        (["--all"], "not a terminal"),
        (["abcdabcd"], "not a terminal"),
        (["abc", "--yes"], "is no key"),
        (["abcdabcd", "--yes"], "no kernel on this node"),
        (["--all", "--yes", "--nonsense"], "--nonsense"),
    ):
        code, refused = local(kit, "clean", *arguments)
        assert (code, refused["error"]["code"]) == (2, "input"), arguments
        assert told in refused["error"]["message"]
    code, refused = local(kit, "ls", folder="a folder with blanks")
    assert (code, "not allowed" in refused["error"]["message"]) == (2, True)
    limits = {"limit_bytes": 524288000, "keep_ratio": 50, "ageing": True, "limit_origin": "default"}
    folder = str(kit.root / "kernels" / "kernel_cache")
    assert local(kit, "ls") == (0, {"folder": folder, "entries": [], "bytes": 0, **limits})
    assert local(kit, "clean", "--all", "--yes") == (0, {"folder": folder, "removed": [], "kept": [], "bytes": 0})
    assert not (kit.root / "kernels").exists(), "who only looks makes nothing"


def entry(kit: Kit) -> Path:
    from farm.client.folder import KernelFolder
    from tests.support.entries import KEY, SHA, bundle

    root = kit.root / "kernels" / "kernel_cache"
    root.mkdir(parents=True)
    KernelFolder(root, SOC).unpack(bundle(), SHA)
    return root / SOC / KEY.hex()


@pytest.mark.parametrize(("answer", "code", "stays"), [(b"n\n", 1, True), (b"\n", 1, True), (b"y\n", 0, False)])
def test_a_terminal_is_asked(kit: Kit, answer: bytes, code: int, stays: bool) -> None:
    path = entry(kit)
    here, there = pty.openpty()
    process = Forked(
        [*CELERY, "local", "clean", "--all", "--op-compiler-cache-dir", str(kit.root / "kernels")],
        env=kit.env, cwd=kit.root, stdin=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.write(here, answer)
    out, err = process.communicate(timeout=60)
    os.close(here)
    os.close(there)
    assert "Remove 1 entry (0.0 MB) from " in err
    assert (process.returncode, path.exists()) == (code, stays), (out, err)
