"""``cache export`` at one farm, ``cache import`` at another: the same bytes, verified, nothing replaced."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.client import portions
from farm.client.importing import Importing, Report
from farm.client.wholefile import whole_file
from farm.errors import FarmError, InputError
from farm.index import names
from farm.index.registry import Offer, Worker
from farm.namespace import BundleId, Namespace
from farm.request.job_options import JobOptions
from farm.request.key import key as key_of
from farm.request.wire import pack as pack_request
from farm.request.wire import unpack as unpack_request
from farm.store.archive import ArchiveReader, ArchiveWriter, Header, Member
from farm.store.bundle import Bundle, identify
from farm.store.bundle import pack as pack_bundle
from tests.support import forked
from tests.support.kit import CELERY, SOC, Kit, op, running, until
from tests.support.led import SHORT, objects, start_leader

OPS = 5


@dataclass
class Sites:
    """Two farms, and what the first has exported."""

    here: Kit
    there: Kit
    manifest: Path
    archive: Path


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    root = tmp_path_factory.mktemp("sites")
    with running(root / "here") as here, running(root / "there", **SHORT) as there:
        manifest = here.manifest(*[op(here, f"op{n}") for n in range(OPS)])
        assert here.submit(manifest).returncode == 0
        archive = root / "cache.tar"
        document = run(here, "export", str(archive))
        assert (document["entries"], document["passed_over"]) == (OPS, [])
        start_leader(there)
        yield Sites(here, there, manifest, archive)


def run(kit: Kit, *words: str, code: int = 0, **environment: str) -> dict[str, Any]:
    """One ``cache`` command's JSON document."""
    done = kit.celery("cache", *words, "--json", **environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def counted(document: dict[str, Any]) -> tuple[int, int, int]:
    return document["imported"], document["present"], len(document["damaged"])


def bring(kit: Kit, data: bytes, cache: str, each: Callable[[], None] = lambda: None) -> Report:
    """Import in this process; ``each`` is called after each portion."""
    importing = Importing(kit.farm().connection, cache, lambda text: None, lambda entries, stored_bytes: each())
    return importing.run(io.BytesIO(data))


def entries(kit: Kit, cache: str) -> set[tuple[int, bytes, int]]:
    return {row for chunk in kit.index(cache=cache).entries() for row in chunk}


def members(sites: Sites) -> list[tuple[Member, bytes]]:
    with sites.archive.open("rb") as file:
        reader = ArchiveReader(file)
        return [(one, reader.read(one)) for one in reader.members() if isinstance(one, Member)]


def archive(*rows: tuple[Namespace, bytes, bytes], **header: Any) -> bytes:
    """An archive of any bundles, as another farm may have made it."""
    file, listed = io.BytesIO(), tuple(dict.fromkeys(namespace for namespace, _, _ in rows))
    about = Header(1, 2, "another", "2026-12-01T00:00:00+00:00", listed)
    writer = ArchiveWriter(file, replace(about, **header))
    for row in rows:
        writer.add(*row)
    writer.close()
    return file.getvalue()


def files(submitted: subprocess.CompletedProcess[str]) -> dict[str, bytes]:
    """The bytes of every kernel that a submission got."""
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    rows = json.loads(submitted.stdout)["ops"]
    return {row["name"]: Path(path).read_bytes() for row in rows for path in row["files"].values()}


def test_another_site_is_prewarmed_and_a_second_import_finds_all_present(sites: Sites) -> None:
    document = run(sites.there, "import", str(sites.archive))
    assert counted(document) == (OPS, 0, 0)
    (made_by,) = document["toolchains"]
    assert (made_by["toolchain"], made_by["entries"], document["unknown_toolchains"]) == ("command", OPS, [])
    submitted = sites.there.submit(sites.manifest)
    assert json.loads(submitted.stdout)["counts"]["hit"] == OPS
    assert sites.here.compiles() == OPS
    assert files(submitted) == files(sites.here.submit(sites.manifest))

    before = objects(sites.there)
    assert counted(run(sites.there, "import", str(sites.archive))) == (0, OPS, 0)
    assert objects(sites.there) == before
    assert run(sites.there, "verify")["clean"]


def test_through_a_pipe(sites: Sites) -> None:
    written = forked.run([*CELERY, "cache", "export", "-"], env=sites.here.env, cwd=sites.here.root)
    assert written.returncode == 0
    assert b"5 entries exported" in written.stderr
    (sites.there.root / "piped").write_bytes(written.stdout)
    command = " ".join([*CELERY, "cache", "import", "-", "--cache", "piped", "--json"])
    done = subprocess.run(
        f"cat piped | {command}", shell=True, env=sites.there.env, cwd=sites.there.root, capture_output=True, check=True
    )
    assert counted(json.loads(done.stdout)) == (OPS, 0, 0)
    assert {key for _, key, _ in entries(sites.there, "piped")} == {one.key for one, _ in members(sites)}


def test_only_what_a_live_job_holds(sites: Sites, tmp_path: Path) -> None:
    kit, target = sites.here, str(tmp_path / "job.tar")
    requests = farm.load(str(sites.manifest))[:2]
    with kit.job(job_id="train") as job:
        job.compile(requests, check=True)
        document = run(kit, "export", target, "--job", "train")
        assert (document["entries"], document["passed_over"]) == (2, [])
        with kit.farm().job("debugging", mode="disable", op_compiler_cache_dir=tmp_path) as private:
            private.compile(requests, check=True)
            assert run(kit, "export", str(tmp_path / "private.tar"), "--job", "debugging")["entries"] == 0
            assert run(kit, "export", str(tmp_path / "all.tar"))["entries"] == OPS
    assert counted(run(sites.there, "import", target, "--cache", "of-job")) == (2, 0, 0)
    gate = tmp_path / "gate"
    waiting = sites.here.manifest(op(kit, "op0"), op(kit, "waiting", gate=str(gate)), name="waiting.json")
    kit.submit(waiting, "--no-wait", "--job-id", "starting")
    document = run(kit, "export", target, "--job", "starting", "--overwrite")
    assert [row["reason"] for row in document["passed_over"]] == ["it is not compiled yet"]
    assert document["entries"] == 1
    kit.celery("job", "cancel", "starting")
    for name in ("nobody", "starting"):
        gone = run(kit, "export", target, "--job", name, "--overwrite", code=2)
        assert "no live job" in gone["error"]["message"]
    assert kit.redis().zscore(f"{kit.index().prefix}jobs", "starting") is None, "it was brought back"


def test_what_is_bad_or_gone_is_passed_over_and_named(sites: Sites, tmp_path: Path) -> None:
    kit, cache = sites.there, "bad-bundles"
    bring(kit, sites.archive.read_bytes(), cache)
    paths = sorted((kit.store / cache / SOC / "1").iterdir())
    paths[0].unlink()
    paths[1].chmod(0o600)
    paths[1].write_bytes(paths[1].read_bytes()[:-1] + b"!")
    done = kit.celery("cache", "export", str(tmp_path / "x.tar"), "--cache", cache)
    assert done.returncode == 0
    assert done.stderr.count("passed over op") == 2
    assert "3 entries exported (0.0 MB), 2 passed over" in done.stdout


def test_a_file_that_is_there_stays_unless_it_shall_be_replaced(sites: Sites, tmp_path: Path) -> None:
    target = tmp_path / "x.tar"
    target.write_text("mine")
    assert "there already" in run(sites.here, "export", str(target), code=2)["error"]["message"]
    assert target.read_text() == "mine"
    run(sites.here, "export", str(target), "--overwrite")
    assert tarfile.is_tarfile(target)
    assert "no regular file" in run(sites.here, "export", "/dev/null", "--overwrite", code=2)["error"]["message"]
    assert "can not write" in run(sites.here, "export", str(tmp_path / "no/x.tar"), code=2)["error"]["message"]
    with pytest.raises(KeyError), whole_file(tmp_path / "half", overwrite=False) as file:
        file.write(b"x")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


def test_a_purge_while_it_is_exported_leaves_no_file(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from farm.client.exporting import Exporting

    cache, kit = "purged-export", sites.there
    bring(kit, sites.archive.read_bytes(), cache)
    exporting = Exporting(kit.farm().connection, lambda text: None, lambda *_: purge(kit, cache))
    monkeypatch.setattr(portions, "ENTRIES", 2)
    with (
        pytest.raises(FarmError, match="purged while it was exported"),
        whole_file(tmp_path / "x.tar", overwrite=False) as file,
    ):
        exporting.run([kit.index(cache=cache)], file)
    assert list(tmp_path.iterdir()) == []


def purge(kit: Kit, cache: str) -> None:
    run(kit, "purge", "--yes", "--cache", cache)


def test_what_is_imported_when_a_purge_comes_is_purged_too(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    kit, cache = sites.there, "purged"
    monkeypatch.setattr(portions, "ENTRIES", 2)
    report = bring(kit, sites.archive.read_bytes(), cache, lambda: purge(kit, cache))
    assert report.stopped and "purged while it was imported" in report.stopped.message
    assert [one.entries for one in report.namespaces.values()] == [2]
    until(lambda: entries(kit, cache) == set(), what="what was imported before the purge is drained")
    again = bring(kit, sites.archive.read_bytes(), cache)
    assert [(one.generation, one.entries) for one in again.namespaces.values()] == [(2, OPS)]


def test_a_job_that_forced_is_not_served_what_was_made_before(sites: Sites, tmp_path: Path) -> None:
    kit = sites.there
    with kit.farm().job("forced", mode="force", cache="forced", op_compiler_cache_dir=tmp_path) as job:
        job.compile(farm.load(str(sites.manifest))[:1], check=True)
        refused = run(kit, "import", str(sites.archive), "--cache", "forced", code=1)
        assert "job forced lives in forced/test-soc with mode force" in refused["error"]["message"]
        assert len(entries(kit, "forced")) == 1
    assert counted(run(kit, "import", str(sites.archive), "--cache", "forced")) == (OPS - 1, 1, 0)


def test_an_entry_and_a_running_compile_are_not_replaced(sites: Sites, tmp_path: Path) -> None:
    kit, cache, gate = sites.there, "kept", tmp_path / "gate"
    slow = op(sites.here, "slow", gate=str(gate))
    gate.touch()
    manifest = sites.here.manifest(slow, name="slow.json")
    assert sites.here.submit(manifest, "--cache", "slow").returncode == 0
    target = tmp_path / "slow.tar"
    run(sites.here, "export", str(target), "--cache", "slow")
    gate.unlink()
    kit.submit(manifest, "--cache", cache, "--no-wait")
    until(lambda: kit.index(cache=cache).compiling(), what="it compiles there")
    document = run(kit, "import", str(target), "--cache", cache)
    assert (counted(document), document["in_flight"]) == ((0, 0, 0), 1)
    gate.touch()
    until(lambda: entries(kit, cache), what="compiled")
    compiled = entries(kit, cache)
    assert counted(run(kit, "import", str(target), "--cache", cache)) == (0, 1, 0)
    assert entries(kit, cache) == compiled


def test_a_file_that_was_cut_off_lands_as_far_as_it_goes_and_the_whole_one_goes_on(
    sites: Sites, tmp_path: Path
) -> None:
    whole = sites.archive.read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: members(sites)[3][0].offset + 10])
    document = run(sites.there, "import", str(tmp_path / "cut.tar"), "--cache", "cut", code=1)
    assert counted(document) == (3, 0, 0)
    assert "cut off" in document["stopped"]["message"]
    assert "import the whole file again" in document["stopped"]["fix"]
    assert counted(run(sites.there, "import", str(sites.archive), "--cache", "cut")) == (2, 3, 0)


def test_killed_between_put_and_adopt_it_leaves_orphans_that_are_collected(sites: Sites) -> None:
    kit, cache = sites.there, "killed"
    index = kit.index(cache=cache)
    done = kit.celery("cache", "import", str(sites.archive), "--cache", cache, FARM_FAILPOINT="import.after_put:kill")
    assert done.returncode == -signal.SIGKILL
    lie = bundles(kit, cache)
    assert (len(lie), entries(kit, cache)) == (OPS, set())
    assert counted(run(kit, "import", str(sites.archive), "--cache", cache)) == (OPS, 0, 0)
    assert index.condemn_orphans(bundles(kit, cache)) == 0
    kit.redis().delete(index.prefix + "coming")  # ten minutes later, when the places have lapsed
    assert index.condemn_orphans(bundles(kit, cache)) == OPS
    until(lambda: len(bundles(kit, cache)) == OPS, what="the orphans are swept")
    assert not {path for path, _ in lie} & objects(kit)
    assert len(entries(kit, cache)) == OPS


def test_killed_after_a_portion_what_has_landed_stays_and_the_next_import_goes_on(sites: Sites) -> None:
    kit, cache = sites.there, "portion"
    command = ("cache", "import", str(sites.archive), "--cache", cache)
    assert kit.celery(*command, FARM_FAILPOINT="import.after_portion:kill").returncode == -signal.SIGKILL
    landed = len(entries(kit, cache))
    assert landed == len(bundles(kit, cache)) > 0
    assert counted(run(kit, "import", str(sites.archive), "--cache", cache)) == (OPS - landed, landed, 0)


def bundles(kit: Kit, cache: str) -> list[tuple[str, BundleId]]:
    """What a search for orphans finds in the store."""
    rows = ((path, path.split("/", 2)[2]) for path in objects(kit) if path.startswith(f"{cache}/"))
    return [(path, bundle) for path, name in rows if (bundle := BundleId.parse(name))]


def test_a_search_for_orphans_between_put_and_adopt_condemns_nothing(sites: Sites) -> None:
    kit, cache = sites.there, "searched"
    command = [*CELERY, "cache", "import", str(sites.archive), "--cache", cache]
    process = kit.popen(command, FARM_FAILPOINT="import.after_put:stop")
    until(lambda: stopped(process.pid), 30, "it has put its bundles")
    assert len(bundles(kit, cache)) == OPS
    assert kit.index(cache=cache).condemn_orphans(bundles(kit, cache)) == 0
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
    assert len(entries(kit, cache)) == OPS


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_what_is_damaged_or_not_what_its_name_says_is_named_and_the_rest_lands(sites: Sites, tmp_path: Path) -> None:
    (one, first), (two, second), (three, third) = members(sites)[:3]
    at, foreign = one.namespace, Namespace("default", "sm_90")
    bundle = identify(third, key=three.key)[0]
    request, fingerprint = unpack_request(bundle.request), bundle.provenance["fingerprint"]
    private = replace(request, job_options=JobOptions(private="train@1"))
    private_key = key_of(private, fingerprint)
    own = replace(bundle, key=private_key, request=pack_request(private, lambda blob: True))
    claimed = Bundle(b"k" * 32, bundle.files, bundle.request, bundle.provenance)
    anonymous = Bundle(three.key, bundle.files, bundle.request, {"fingerprint": 5})
    nonsense = Bundle(b"n" * 32, bundle.files, b"nonsense", {})
    rows = {
        "its content differs": (at, one.key, first[:-1] + bytes([first[-1] ^ 1])),
        "not begin like a bundle": (at, hashlib.sha256(b"x").digest(), b"x" * 700),
        "bundle of key": (at, b"o" * 32, first),
        "for one job alone": (at, private_key, pack_bundle(own)),
        "compiled for test-soc": (foreign, two.key, second),
        "its key is not that of its request": (at, b"k" * 32, pack_bundle(claimed)),
        "its key is not that of its request and toolchain": (at, three.key, pack_bundle(anonymous)),
        "not a packed request": (at, b"n" * 32, pack_bundle(nonsense)),
    }
    (tmp_path / "bad.tar").write_bytes(archive(*rows.values(), (at, two.key, second)))
    document = run(sites.there, "import", str(tmp_path / "bad.tar"), "--cache", "damaged", code=1)
    assert counted(document) == (1, 0, len(rows))
    reasons = {row["member"]: row["reason"] for row in document["damaged"]}
    for reason, (namespace, key, _) in rows.items():
        assert reason in reasons[f"{namespace}/{key.hex()}"]
    assert {key for _, key, _ in entries(sites.there, "damaged")} == {two.key}


def test_archives_of_other_versions_are_refused_and_a_list_that_lies_is_told(sites: Sites) -> None:
    ((one, data),) = members(sites)[:1]
    row = (one.namespace, one.key, data)
    for versions in ({"schema": 9}, {"key_schema": 9}):
        with pytest.raises(InputError, match="nothing in it would ever be found"):
            bring(sites.there, archive(row, **versions), "versions")
    report = bring(sites.there, archive(row, namespaces=()), "versions")
    assert [bad.reason for bad in report.damaged] == ["its namespace is not in the archive's own list"]
    assert entries(sites.there, "versions") == set()
    twice = bring(sites.there, archive(row, row), "versions")
    assert [(done.entries, done.present) for done in twice.namespaces.values()] == [(1, 1)]


def test_toolchains_that_no_worker_had_are_told(sites: Sites) -> None:
    kit = sites.there
    ((one, data),) = members(sites)[:1]
    bundle = identify(data, key=one.key)[0]
    key = key_of(unpack_request(bundle.request), "f" * 64)
    made = replace(bundle, key=key, provenance=dict(bundle.provenance) | {"fingerprint": "f" * 64, "version": "9"})
    data = archive((one.namespace, key, pack_bundle(made)))
    report = bring(kit, data, "unknown-1")
    assert (report.toolchains, report.known) == ({("command", "f" * 64, "9"): 1}, set())
    registry = kit.farm().connection.registry
    registry.register(Worker("w", "h", 1, 1, ()), [Offer("command", "f" * 64, "9")], 1)
    try:
        assert bring(kit, data, "unknown-2").known == {("command", "f" * 64, "9")}
    finally:
        kit.redis().hdel(names.TOOLCHAINS, "command." + "f" * 64)


def test_a_store_that_does_not_answer_ends_it_and_what_has_landed_stays(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, cache = sites.there, "no-store"
    monkeypatch.setattr(portions, "ENTRIES", 2)
    moved = kit.store.with_name("moved")
    try:
        with pytest.raises(FarmError) as caught:
            bring(kit, sites.archive.read_bytes(), cache, lambda: shutil.move(kit.store, moved))
        assert caught.value.exit_code == 3
        assert len(entries(kit, cache)) == 2
    finally:
        shutil.move(moved, kit.store)
    (done,) = bring(kit, sites.archive.read_bytes(), cache).namespaces.values()
    assert (done.entries, done.present) == (OPS - 2, 2)
