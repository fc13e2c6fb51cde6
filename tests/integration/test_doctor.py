"""Doctor on real farms: a healthy one, and one for each thing that can be wrong with it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from farm.commands.doctor import node, server, store, workers
from farm.commands.doctor.examination import CHECKS
from farm.commands.doctor.subject import Finding, Subject
from farm.errors import FarmError, FarmUnavailable
from farm.index import names
from farm.index.registry import Offer, Registry, Worker
from tests.support.disks import small_disk
from tests.support.kit import CELERY, HOST, SOC, Kit, op, running, until

MISLEADING = ("LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "CPATH", "CFLAGS", "CXXFLAGS", "LDFLAGS")
OFFER = Offer("cuda", "ab" * 32, "13.0")


def doctor(kit: Kit, **environment: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, the document, and its checks by name."""
    quiet = dict.fromkeys(MISLEADING, "")
    done = kit.celery("doctor", "--json", timeout=110, **quiet | environment)
    assert "Traceback" not in done.stderr, done.stderr
    document = json.loads(done.stdout)
    assert [check["name"] for check in document["checks"]] == list(CHECKS)
    assert all(set(check) == {"name", "ok", "detail", "fix"} and check["detail"] for check in document["checks"])
    return done.returncode, document, {check["name"]: check for check in document["checks"]}


def failed(checks: dict[str, Any]) -> set[str]:
    return {name for name, check in checks.items() if not check["ok"]}


def test_a_healthy_farm_and_what_breaks_one_by_one(tmp_path: Path) -> None:
    with running(tmp_path, **HOST) as kit:
        code, document, checks = doctor(kit)
        assert (code, failed(checks)) == (0, set()), document
        assert (document["index_url"], document["store_url"]) == (kit.env["FARM_INDEX_URL"], kit.env["FARM_STORE_URL"])
        assert "host" in checks["toolchains"]["detail"]

        code, _, checks = doctor(
            kit, FARM_CLAIM_LEASE_SECONDS="7", FARM_INDX_URL="x", CELERY_BROKER_URL="redis://o/1",
            FARM_BROKER_URL="redis://127.0.0.1:1/0", FARM_RESULT_URL="redis://127.0.0.1:1/0", CXX="no-such-compiler",
        )  # fmt: skip
        assert (code, failed(checks)) == (
            1, {"environment", "celery_variables", "broker", "results", "worker_settings"},
        )  # fmt: skip
        assert "FARM_CLAIM_LEASE_SECONDS is 7 here and 20 on worker" in checks["worker_settings"]["detail"]
        assert "127.0.0.1:1" in checks["broker"]["detail"]

        kit.redis().config_set("maxmemory-policy", "allkeys-lru")
        kit.redis().config_set("appendonly", "no")
        code, _, checks = doctor(kit)
        assert code == 1
        assert failed(checks) == {"server_policy", "server_persistence"}, checks
        assert "allkeys-lru" in checks["server_policy"]["detail"]

        kit.kill_server()
        code, document, checks = doctor(kit)
        assert (code, document["index_url"]) == (3, kit.env["FARM_INDEX_URL"])
        assert {name for name, check in checks.items() if check["ok"]} == {
            "settings", "environment", "celery_variables", "store", "store_space", "cache_folder", "file_locks",
        }  # fmt: skip
        assert "does not answer" in checks["server"]["detail"] and checks["server"]["fix"]
        done = subprocess.run(
            [*CELERY, "doctor"], env=kit.env, cwd=kit.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 3
        assert done.stdout.count("fix: mend check server first") == 2, "said once for all that hang on it in a row"


def test_claims_that_wait_without_a_worker(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        worker = kit.processes[-1]
        requests = [op(kit, name, seconds=60) for name in ("a", "b", "c", "d")]
        client = kit.popen([*CELERY, "submit", str(kit.manifest(*requests)), "--op-compiler-cache-dir", str(tmp_path)])
        queued = f"{kit.index().prefix}queue:*"
        until(lambda: any(kit.redis().zcard(name) == 2 for name in kit.redis().scan_iter(match=queued)), what="2 wait")
        _, _, checks = doctor(kit)
        assert checks["queues"] == {
            "name": "queues", "ok": True, "detail": "2 claims wait, each queue has a worker", "fix": ""
        }  # fmt: skip
        kit.kill(worker)
        kit.redis().delete(names.WORKERS, names.WORKER_LEASES)
        code, _, checks = doctor(kit)
        assert code == 1 and {"queues", "toolchains"} <= failed(checks)
        assert f"default/{SOC} for command 1" in checks["queues"]["detail"]
        assert "no worker lives" in checks["toolchains"]["detail"]
        kit.kill(client)


@pytest.fixture
def subject(server: Any, tmp_path: Path) -> Subject:
    """A farm on the tests' server, examined in this process."""
    return Subject({"FARM_INDEX_URL": server.url, "FARM_STORE_URL": f"file://{tmp_path}/store", "HOME": str(tmp_path)})


def register(subject: Subject, name: str, *offers: Offer, **told: Any) -> None:
    row = Worker(name, "host-" + name, 7, 4, tuple(offer.queue for offer in offers), **told)
    Registry(subject.server).register(row, list(offers), 15_000)


def found(check: Any, subject: Subject) -> Finding:
    """What a check says, an error of the farm as the command shows it."""
    try:
        result: Finding = check(subject)
    except FarmError as error:
        return Finding(False, error.message, error.fix)
    return result


def test_why_a_toolchain_is_missing(subject: Subject) -> None:
    host = Offer("host", "cd" * 32, "12.2")
    register(subject, "w1", host, missing={"cuda": "no NVRTC wheel"})
    register(subject, "w2", host, OFFER)
    said = found(workers.toolchains, subject)
    assert said.ok
    assert "host 12.2@cdcdcdcdcdcd on 2 of 2" in said.detail
    assert "cuda (no NVRTC wheel; host-w1)" in said.detail


def test_a_toolchain_and_a_default_that_lost_their_workers(subject: Subject) -> None:
    newer = Offer("cuda", "ef" * 32, "13.5")
    register(subject, "w1", OFFER)
    register(subject, "w2", newer)
    subject.registry.set_default("cuda", newer.fingerprint)
    assert found(workers.toolchains, subject).ok
    subject.registry.leave("w2")
    del subject.workers
    said = found(workers.toolchains, subject)
    assert not said.ok and "no live worker offers cuda@efefefefefef, the default" in said.detail
    subject.registry.set_default("cuda", None)
    assert found(workers.toolchains, subject).ok, "another version serves new jobs"
    subject.registry.leave("w1")
    register(subject, "w3", Offer("host", "cd" * 32, "12.2"))
    del subject.workers
    said = found(workers.toolchains, subject)
    assert not said.ok and "no live worker offers cuda;" in said.detail


def test_clocks(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    register(subject, "right", OFFER, clock_ms=round(time.time() * 1000))
    assert found(workers.clocks, subject).ok
    register(subject, "wrong", OFFER, clock_ms=round(time.time() * 1000) - 60_000)
    said = found(workers.clocks, subject)
    assert not said.ok
    assert "worker wrong -60.0 s" in said.detail and "right" not in said.detail
    ahead = time.time() + 600
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert "this host +600." in found(workers.clocks, subject).detail


def test_versions_and_settings_that_differ_between_workers(subject: Subject) -> None:
    from farm.versions import versions

    register(subject, "same", OFFER, versions=versions(), settings=subject.settings.shared())
    register(subject, "older", OFFER)  # from before workers said so
    assert found(workers.versions_agree, subject).ok and found(workers.settings_agree, subject).ok
    other = {"opfarm": "0.0.9", "python": "3.12.1"}
    register(subject, "other", OFFER, versions=other, settings={"FARM_MAX_ATTEMPTS": 9.0, "FARM_OF_TOMORROW": 1.0})
    del subject.workers
    said = found(workers.versions_agree, subject)
    assert not said.ok and "opfarm 0.0.9 on Python 3.12: worker other" in said.detail
    said = found(workers.settings_agree, subject)
    assert not said.ok and said.detail == "FARM_MAX_ATTEMPTS is 3 here and 9 on worker other"


def test_index_and_store_of_two_farms(subject: Subject) -> None:
    assert found(store.identities, subject).detail == "a new farm: index and store are empty"
    subject.server.hset(names.IDENTITY, mapping={"farm_id": "one", "schema": 1})
    assert "is empty, but the index knows farm one" in found(store.identities, subject).detail
    (Path(str(subject.environ["HOME"])) / "store" / "farm.json").write_text('{"farm_id": "two", "schema": 1}')
    assert "belongs to farm two" in found(store.identities, subject).detail
    subject.server.hset(names.IDENTITY, mapping={"farm_id": "two", "schema": 9})
    assert "schema version 9" in found(store.identities, subject).detail
    subject.server.hset(names.IDENTITY, "schema", 1)
    assert found(store.identities, subject) == Finding(True, "farm two, schema version 1", "")


def test_looking_at_a_new_farm_does_not_name_it(subject: Subject) -> None:
    for check in CHECKS.values():
        found(check, subject)
    assert subject.server.keys("*") == []
    assert not (Path(str(subject.environ["HOME"])) / "store" / "farm.json").exists()


@pytest.mark.parametrize(
    ("told", "ok", "detail"),
    [
        ({"aof_enabled": 1}, True, "append-only file, appendfsync everysec"),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, False, "write to the append-only file failed"),
        ({"aof_enabled": 1, "rdb_last_bgsave_status": "err"}, False, "snapshot failed"),
        ({"aof_enabled": 0}, False, "nothing is kept"),
        ({"aof_enabled": 0, "save": "3600 1"}, False, "only snapshots (save 3600 1)"),
    ],
)
def test_persistence(subject: Subject, told: dict[str, Any], ok: bool, detail: str) -> None:
    class Told:
        def info(self, section: str) -> dict[str, Any]:
            return told

        def config_get(self, name: str) -> dict[str, Any]:
            return {"save": told.get("save", ""), "appendfsync": "everysec"}

    subject.__dict__["reached"] = (Told(), 0.0)
    said = found(server.persistence, subject)
    assert said.ok is ok and detail in said.detail and (said.fix or ok)


@pytest.mark.parametrize(
    ("maxmemory", "machine", "used", "ok", "detail"),
    [
        (1000, 0, 799, True, "80%; maxmemory)"),
        (1000, 0, 801, False, "80%; maxmemory)"),
        (0, 1000, 500, True, "50%; the machine's memory"),
        (0, 1000, 900, False, "90%; the machine's memory"),
        (0, 0, 900, True, "900 MB used, no limit known"),
    ],
)
def test_memory(subject: Subject, maxmemory: int, machine: int, used: int, ok: bool, detail: str) -> None:
    class Told:
        def info(self, section: str) -> dict[str, Any]:
            return {"maxmemory": maxmemory << 20, "total_system_memory": machine << 20, "used_memory": used << 20}

    subject.__dict__["reached"] = (Told(), 0.0)
    said = found(server.memory, subject)
    assert said.ok is ok and detail in said.detail


@pytest.mark.parametrize(
    ("spoken", "ok"), [("6.2.0", True), ("7.0.15", True), ("10.0", True), ("6.0.16", False), ("5.0.7", False)]
)
def test_old_servers(subject: Subject, spoken: str, ok: bool) -> None:
    class Told:
        def info(self, section: str) -> dict[str, Any]:
            return {"redis_version": spoken}

    subject.__dict__["reached"] = (Told(), 0.0)
    assert found(server.version, subject).ok is ok


def test_a_store_that_is_full_and_a_node_that_is(subject: Subject, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        full = Subject(dict(subject.environ) | {"FARM_STORE_URL": f"file://{disk}/s", "ASCEND_CACHE_PATH": str(disk)})
        assert found(store.usable, full).ok and found(store.space, full).ok
        assert found(node.cache_folder, full).ok and found(node.file_locks, full).ok
        with pytest.raises(OSError, match="No space left"):
            (disk / "filler").write_bytes(b"x" * 100_000)
        said = found(store.usable, full)
        assert not said.ok and str(disk) in said.detail and said.fix
        said = found(store.space, full)
        assert not said.ok and str(disk) in said.fix
        assert not found(node.cache_folder, full).ok


def test_a_node_without_working_locks(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from farm.client import nodelock

    monkeypatch.setattr(nodelock, "try_lock", lambda descriptor: True)
    assert not found(node.file_locks, subject).ok
    assert found(node.cache_folder, subject).ok
    wrong = Subject(subject.environ, cache_dir="/proc/nowhere")
    said = found(node.cache_folder, wrong)
    assert not said.ok and "/proc" in said.detail


def test_a_server_that_hangs_is_told_in_bounded_time(tmp_path: Path) -> None:
    import signal

    with running(tmp_path, workers=0) as kit:
        assert kit.server
        kit.server.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        code, _, checks = doctor(kit)
        assert (code, checks["server"]["ok"]) == (3, False)
        assert time.monotonic() - started < 15
        started = time.monotonic()
        with pytest.raises(FarmUnavailable, match="does not answer"):
            kit.farm()
        assert time.monotonic() - started < 5, "and so is everybody else who connects"
