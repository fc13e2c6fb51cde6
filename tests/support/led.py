"""Coordinators for tests: real processes with short times, and entries put straight into index and store."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import farm
from farm.client.toolchains import prepare
from farm.index.index import Index
from farm.index.invariants import check
from farm.index.leader import Leader, Leadership
from farm.index.record import Record
from farm.index.snapshot import read
from farm.namespace import BundleId, bundle_path
from farm.request.wire import pack as pack_request
from farm.store.bundle import Bundle, BundleFile, identify
from farm.store.bundle import pack as pack_bundle
from tests.support.kit import CELERY, SOC, Kit, until

#: Times of a farm under test; the heartbeat fits into the grace twice.
SHORT = {
    "FARM_TICK_SECONDS": "0.1", "FARM_LEADER_LEASE_SECONDS": "1", "FARM_SWEEP_GRACE_SECONDS": "1",
    "FARM_HEARTBEAT_SECONDS": "0.5", "FARM_JOB_LEASE_SECONDS": "6", "FARM_CLAIM_LEASE_SECONDS": "4",
}  # fmt: skip
#: The same for clients in the test's own process.
SHORT_SETTINGS: dict[str, Any] = {name.removeprefix("FARM_").lower(): float(value) for name, value in SHORT.items()}


def start_coordinator(kit: Kit, **environment: str) -> subprocess.Popen[bytes]:
    """Start a coordinator; it may lead or stand by."""
    return kit.popen([*CELERY, "coordinator"], **environment)


def start_planner(kit: Kit, **environment: str) -> subprocess.Popen[bytes]:
    """Start a planner; what it is sent before it is there waits."""
    name = f"p{len(kit.processes)}@%h"
    alone = ("--without-gossip", "--without-mingle")
    return kit.popen([*CELERY, "worker", "-Q", "farm.jobs", "-c", "2", "-n", name, "-l", "INFO", *alone], **environment)


def leader(kit: Kit) -> Leader | None:
    """Who leads now."""
    return Leadership(kit.redis()).current()


def led_by(kit: Kit, process: subprocess.Popen[bytes]) -> bool:
    """Whether that process leads."""
    now = leader(kit)
    return now is not None and now.name.split(":")[1] == str(process.pid)


def start_leader(kit: Kit, **environment: str) -> subprocess.Popen[bytes]:
    """Start a coordinator and wait until it leads."""
    process = start_coordinator(kit, **environment)
    until(lambda: led_by(kit, process) or process.poll() is not None, 30, "it leads")
    assert process.poll() is None, kit.logs()
    return process


def log_of(kit: Kit, process: subprocess.Popen[bytes]) -> str:
    """What a process of the kit has printed."""
    return (kit.root / f"log-{kit.processes.index(process)}").read_text(errors="replace")


def put_entries(kit: Kit, requests: Sequence[farm.Request], size_bytes: int = 100, generation: int = 1) -> list[bytes]:
    """Compiled entries of these requests, idle, without compiling; their keys, in order."""
    connection = kit.farm().connection
    offers = {offer.toolchain: offer for offer in connection.registry.offers()}
    made = [prepare(request, offers[request.toolchain]) for request in requests]
    put_bundles(
        kit, [(key, pack_request(resolved, lambda blob: True)) for resolved, key in made], size_bytes, generation
    )
    return [key for _, key in made]


def put_bundles(
    kit: Kit,
    rows: Iterable[tuple[bytes, bytes]],
    size_bytes: int = 100,
    generation: int = 1,
    soc: str = SOC,
    cache: str = "default",
) -> list[BundleId]:
    """Bundles of these keys and packed requests, in the store and as idle entries."""
    connection, index = kit.farm().connection, kit.index(soc, cache)
    connection.server.sadd("opfarm:{farm}:namespaces", str(index.namespace))
    index.open(generation)
    found: list[tuple[BundleId, Record]] = []
    for key, request in rows:
        token = time.time_ns() // 1000 + len(found)
        bundle = Bundle(key, (BundleFile("kernel.o", 0o444, os.urandom(size_bytes)),), request, {"compile_ms": 1})
        data = pack_bundle(bundle)
        connection.store.put(bundle_path(index.namespace, generation, key, token), data)
        record = Record(token, len(data), hashlib.sha256(data).digest(), "put", "Put", "command", 1)
        found.append((BundleId(generation, key, token), record))
    index.adopt(found)
    return [at for at, _ in found]


def objects(kit: Kit) -> set[str]:
    """The paths of all bundles of the store, as the disk has them."""
    names = (str(path.relative_to(kit.store)) for path in kit.store.rglob("*-*") if path.is_file())
    return {name for name in names if BundleId.parse(name.split("/", 2)[-1])}


def entry_paths(index: Index) -> set[str]:
    """The paths of the bundles of all entries."""
    return {
        bundle_path(index.namespace, generation, key, token)
        for chunk in index.entries()
        for generation, key, token in chunk
    }


def assert_clean(kit: Kit) -> None:
    """All invariants hold, every entry's bundle is there and whole, and no other bundle lies in the store."""
    index = kit.index()
    until(lambda: not check(read(index)), 5, f"invariants: {check(read(index))}")
    for path in entry_paths(index):
        name = Path(path).name
        identify((kit.store / path).read_bytes(), key=bytes.fromhex(name.partition("-")[0]))
    until(lambda: objects(kit) == entry_paths(kit.index()), 20, "the store holds the entries' bundles and no other")
