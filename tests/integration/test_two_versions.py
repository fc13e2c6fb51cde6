"""Two versions of one toolchain on two workers: a job uses one of them, whatever comes and goes meanwhile."""

from __future__ import annotations

import platform
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import farm
from farm.client.results import Result
from tests.support.kit import Kit, running, until

#: A compiler of another version: it says so, and differs in nothing else.
WRAPPER = """#!/bin/sh
case "$*" in
  --version) echo "wrapped {version}" ;;
  *-dumpfullversion*) echo {version} ;;
  *) exec {compiler} "$@" ;;
esac
"""


def wrapper(root: Path, version: str) -> str:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "the tests need a C++ compiler"
    path = root / f"g++-{version}"
    path.write_text(WRAPPER.format(version=version, compiler=compiler))
    path.chmod(0o755)
    return str(path)


def operators(kit: Kit, name: str, count: int) -> list[farm.Request]:
    ops = [
        {"name": f"{name}-{n}", "type": "Add", "source": {"text": f"int {name}_{n}() {{ return {n}; }}"}}
        for n in range(count)
    ]
    manifest = kit.manifest(*ops, name=f"{name}.json")
    return farm.load(str(manifest), soc=platform.machine(), toolchain="host")


def keys(results: Sequence[Result]) -> list[str]:
    assert {result.error for result in results} == {None}
    return [result.key for result in results]


def start(kit: Kit, version: str) -> subprocess.Popen[bytes]:
    return kit.start_worker(slots=1, CXX=wrapper(kit.root, version))


def stop(kit: Kit, worker: subprocess.Popen[bytes]) -> None:
    before = len(kit.farm().connection.registry.workers())
    worker.send_signal(signal.SIGTERM)
    worker.wait(20)
    until(lambda: len(kit.farm().connection.registry.workers()) == before - 1, what="the worker has left")


def versions(kit: Kit) -> dict[str, str]:
    """Fingerprint -> version of toolchain host."""
    offers = kit.farm().connection.registry.offers()
    return {offer.fingerprint: offer.version for offer in offers if offer.toolchain == "host"}


def chosen(kit: Kit, job: str) -> str:
    """The version that a live job uses."""
    index = kit.index(platform.machine())
    return versions(kit)[index.server.hget(f"{index.prefix}j:{job}", "fp:host").decode()]


def test_members_of_a_job_use_one_version_and_no_key_changes(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, FARM_ALLOW_ADHOC_COMMANDS="0") as kit:
        first, second = operators(kit, "first", 2), operators(kit, "second", 2)
        old = start(kit, "1.0")
        with kit.job("rank0", "train") as rank0:
            before = keys(rank0.compile(first))
            start(kit, "2.0")
            assert sorted(versions(kit).values()) == ["1.0", "2.0"]
            with kit.job("rank1", "train") as rank1:
                assert keys(rank1.compile(first)) == before
                stop(kit, old)
                # A key that the old version has made is a hit also while nobody offers that version.
                assert [result.outcome for result in rank1.compile(first)] == ["hit"] * 2
                old = start(kit, "1.0")
                both = keys(rank0.compile(second)), keys(rank1.compile(second))
                assert both[0] == both[1]
                assert chosen(kit, "train") == "1.0"
                assert len(versions(kit)) == 2, "a worker that starts again is the same version"
        with kit.job("new", "new") as new:
            assert not set(keys(new.compile(first + second))) & {*before, *both[0]}
            assert chosen(kit, "new") == "2.0"
            again = keys(new.compile(first + second))
            stop(kit, old)
            assert keys(new.compile(first + second)) == again
        with kit.job("newer", "newer") as newer:
            assert keys(newer.compile(first + second)) == again
