"""One claim from take to publish on a real index, with a store in memory and sh as the compiler."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from farm.embedded.server import Server
from farm.errors import FarmUnavailable
from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.jobs import Member, Want, as_member
from farm.index.outcomes import Answer, Claimed, Hit, Joined, Membership, Refused, Taken
from farm.index.sources import SourceEpochs, SourceLease
from farm.namespace import Namespace, bundle_path
from farm.request.key import key
from farm.request.model import Request
from farm.request.wire import pack, unpack
from farm.store import bundle
from farm.store.errors import DiskFull
from farm.store.store import Store
from tests.unit.workers.requests import ShellToolchain, shell
from workers.compile import Compiler
from workers.keeping import Limits
from workers.leases import Leases
from workers.patience import Patience
from workers.scratch import ScratchArea

NAMESPACE = Namespace("default", "any")
QUEUE = "compile.shell.555555555555"


class Bench:
    """A worker's compiler and one job that asks."""

    def __init__(self, url: str, tmp_path: Path) -> None:
        self.redis = redis.Redis.from_url(url)
        self.index = Index(self.redis, NAMESPACE)
        self.index.open(1)
        who = Member("job", "m", "enable", 1, b"{}", 60_000)
        joined = self.index.join(who)
        assert isinstance(joined, Membership)
        self.who = as_member(who, joined)
        self.store = Store.open("memory://")
        self.sent: list[tuple[str, str]] = []
        self.stopping = threading.Event()
        self.leases = Leases(lease_seconds=20, every_seconds=0.02)
        self.area = ScratchArea.open(tmp_path)
        self.compiler = Compiler(
            worker_id="w",
            store=self.store,
            toolchains={QUEUE: ShellToolchain()},
            index=lambda namespace: self.index,
            leases=self.leases,
            area=self.area,
            limits=Limits(timeout_seconds=30),
            rules=RetryRules(max_attempts=2),
            patience=Patience(30, self.stopping),
            store_patience=Patience(0.2, self.stopping),
            send=lambda namespace, queue: self.sent.append((str(namespace), queue)),
        )

    def claim(
        self, asked: Request, *, lie: Request | None = None, inline: bool = True, sources: SourceLease | None = None
    ) -> bytes:
        name = key(asked, ShellToolchain.fingerprint)
        want = Want(name, pack(lie or asked, lambda blob: inline), QUEUE)
        answers = self.index.claim(self.who, [want], "nonce", sources=sources)
        assert isinstance(answers, list) and isinstance(answers[0], Claimed | Joined)
        return name

    def serve(self, **changed: Any) -> None:
        replace(self.compiler, **changed).serve(NAMESPACE, QUEUE)

    def ask(self, name: bytes) -> Answer:
        answers = self.index.acquire(self.who, [name])
        assert isinstance(answers, list)
        return answers[0]

    def refusal(self, name: bytes) -> Refused:
        answer = self.ask(name)
        assert isinstance(answer, Refused), answer
        return answer


@pytest.fixture
def bench(server: Server, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(server.url, tmp_path)
    yield bench
    bench.leases.close()
    bench.area.close()
    bench.redis.close()


def test_a_claim_becomes_an_entry_and_a_bundle(bench: Bench) -> None:
    asked = shell("echo code > $OUT/a.o; echo a warning")
    name = bench.claim(asked)
    after = bench.index.last_notice(bench.who.run)
    bench.serve()
    answer = bench.ask(name)
    assert isinstance(answer, Hit)
    record = answer.record
    assert (record.name, record.type, record.toolchain) == ("op", "Add", "shell")
    data = bench.store.get(bundle_path(NAMESPACE, 1, name, record.token))
    got = bundle.unpack(data, key=name, sha256=record.sha256, stored_bytes=record.stored_bytes)
    assert [(file.name, file.data) for file in got.files] == [("a.o", b"code\n")]
    assert unpack(got.request) == asked
    assert got.provenance["worker"] == "w"
    assert got.provenance["log_tail"] == "a warning\n"
    assert got.provenance["compile_ms"] == record.compile_ms
    assert bench.index.wait_notices(bench.who.run, after, 100)[1] == {name}
    assert bench.sent == []


def test_a_message_without_a_claim_does_nothing(bench: Bench) -> None:
    bench.serve()
    bench.claim(shell("echo x >> $OUT/a.o"))
    bench.serve()
    bench.serve()
    assert bench.redis.hget(f"{bench.index.prefix}meta", "compiles") == b"1"


def test_a_worker_in_trouble_reports_it_and_then_rests(bench: Bench) -> None:
    name = bench.claim(shell("echo x > $OUT/a.o"))
    bench.claim(shell("exit 1"))
    sick = ScratchArea(Path("/proc/nowhere"), -1)
    slot = threading.Thread(target=lambda: bench.serve(area=sick, rest_seconds=60))
    slot.start()
    while not bench.sent:
        time.sleep(0.01)
    assert slot.is_alive()
    for _ in range(2):  # the healthy worker, meanwhile, also finds the claim that was queued again
        bench.serve(rest_seconds=60)
    assert isinstance(bench.ask(name), Hit)
    bench.stopping.set()
    slot.join(timeout=5)
    assert not slot.is_alive()


def test_a_source_that_travelled_through_the_store(bench: Bench) -> None:
    asked = shell("echo code > $OUT/a.o")
    assert asked.source.main.data is not None
    lease = SourceEpochs(bench.redis).lease()
    bench.store.put_source(asked.source.main.sha256, lease.epoch, asked.source.main.data)
    name = bench.claim(asked, inline=False, sources=lease)
    assert bench.index.source_epochs() == {lease.epoch}
    bench.serve()
    assert isinstance(bench.ask(name), Hit)
    assert bench.index.source_epochs() == set()


def test_a_source_that_is_not_in_the_store_is_tried_again_and_then_told(bench: Bench) -> None:
    name = bench.claim(shell("echo"), inline=False)
    bench.serve()
    assert bench.sent == [(str(NAMESPACE), QUEUE)]
    bench.serve()
    failure = bench.refusal(name).failure
    assert (failure.kind, failure.message.count("there is no such object")) == ("transient", 2)
    assert len(bench.sent) == 1


def test_a_rejection_is_remembered_with_who_said_it(bench: Bench) -> None:
    name = bench.claim(shell("echo 'a.c:1:1: error: no' >&2; exit 1"))
    bench.serve()
    failure = bench.refusal(name).failure
    assert failure.kind == "rejected"
    assert failure.message == "a.c:1:1: error: no (exit code 1) [shell 1, w]"
    assert failure.log_tail == "a.c:1:1: error: no\n"
    bench.index.leave(bench.who)
    assert bench.redis.exists(f"{bench.index.prefix}f:1:".encode() + name)


def test_a_crash_is_tried_again_ahead_of_others(bench: Bench, tmp_path: Path) -> None:
    first = tmp_path / "first"
    name = bench.claim(shell(f"test -e {first} || {{ touch {first}; kill -9 $$; }}; echo x > $OUT/a"))
    bench.serve()
    assert isinstance(bench.ask(name), Joined)
    assert bench.sent == [(str(NAMESPACE), QUEUE)]
    bench.serve()
    assert isinstance(bench.ask(name), Hit)


def test_a_claim_with_another_request_runs_and_remembers_nothing(bench: Bench, tmp_path: Path) -> None:
    name = bench.claim(shell("echo x > $OUT/a"), lie=shell(f"touch {tmp_path}/ran; echo evil > $OUT/a"))
    bench.serve()
    assert "not the one that its key stands for" in bench.refusal(name).failure.message
    assert not (tmp_path / "ran").exists()
    assert not bench.redis.exists(f"{bench.index.prefix}e:1")
    expires_ms = int(bench.redis.hget(f"{bench.index.prefix}f:1:".encode() + name, "expires_ms") or 0)
    now = bench.redis.time()
    assert expires_ms <= now[0] * 1000 + now[1] // 1000


def waiting(tmp_path: Path) -> Request:
    return shell(f"touch {tmp_path}/started; sleep 1001")


def in_background(bench: Bench, tmp_path: Path) -> threading.Thread:
    """Serve, and come back once the compiler runs."""
    bench.leases.start()
    thread = threading.Thread(target=bench.serve)
    thread.start()
    while not (tmp_path / "started").exists():
        assert thread.is_alive()
    return thread


def test_a_compile_that_nobody_wants_is_stopped(bench: Bench, tmp_path: Path) -> None:
    bench.claim(waiting(tmp_path))
    thread = in_background(bench, tmp_path)
    bench.index.leave(bench.who, "cancel")
    while bench.index.bury():
        pass
    thread.join(10)
    assert not thread.is_alive()
    assert bench.redis.zcard(f"{bench.index.prefix}running") == 0
    assert bench.sent == []


def test_a_compile_whose_claim_was_taken_over_is_stopped_and_publishes_nothing(bench: Bench, tmp_path: Path) -> None:
    name = bench.claim(waiting(tmp_path))
    thread = in_background(bench, tmp_path)
    time = bench.redis.time()
    later = Index(bench.redis, NAMESPACE, now_ms=time[0] * 1000 + 60_000)
    assert later.reclaim(RetryRules()) == [QUEUE]
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(bench.ask(name), Joined)
    taken = bench.index.take(QUEUE, "other", "n", 20_000)
    assert isinstance(taken, Taken) and taken.attempt == 2


def test_a_worker_that_stops_gives_its_claim_back_uncounted(bench: Bench, tmp_path: Path) -> None:
    bench.claim(waiting(tmp_path))
    thread = in_background(bench, tmp_path)
    bench.stopping.set()
    bench.leases.stop_all()
    thread.join(10)
    assert bench.sent == [(str(NAMESPACE), QUEUE)]
    taken = bench.index.take(QUEUE, "other", "n", 20_000)
    assert isinstance(taken, Taken) and taken.attempt == 1


def test_a_worker_that_stops_takes_nothing_more_and_passes_the_message_on(bench: Bench) -> None:
    bench.claim(shell(""))
    bench.stopping.set()
    bench.serve()
    assert bench.sent == [(str(NAMESPACE), QUEUE)]
    assert isinstance(bench.index.take(QUEUE, "other", "n", 20_000), Taken)


class BadStore:
    """A store whose writes fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tries = 0

    def put(self, *_: object) -> None:
        self.tries += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "tries"), [(DiskFull("disk /data is full"), 1), (FarmUnavailable("store s3://x does not answer"), 2)]
)
def test_a_store_that_can_not_be_written(error: Exception, tries: int, bench: Bench) -> None:
    name = bench.claim(shell("echo x > $OUT/a"))
    for _ in range(2):
        bench.serve(store=(store := BadStore(error)))
        assert store.tries >= tries
    failure = bench.refusal(name).failure
    assert failure.kind == "transient"
    assert str(error) in failure.message


def test_outputs_that_fit_into_no_bundle_are_rejected(bench: Bench) -> None:
    name = bench.claim(shell("echo x > $OUT/.opfarm.json; echo x > $OUT/a"))
    bench.serve()
    failure = bench.refusal(name).failure
    assert failure.kind == "rejected"
    assert ".opfarm" in failure.message


def test_a_fault_of_the_workers_own_is_told(bench: Bench) -> None:
    class Faulty(ShellToolchain):
        def command(self, *_: object) -> Any:
            raise KeyError("bug")

    name = bench.claim(shell(""))
    for _ in range(2):
        bench.serve(toolchains={QUEUE: Faulty()})
    assert "the worker itself failed: KeyError('bug')" in bench.refusal(name).failure.message


def test_an_index_that_is_gone_for_a_moment_costs_no_compile(bench: Bench, server: Server) -> None:
    name = bench.claim(shell("echo x > $OUT/a"))
    lossy = Index(bench.redis, NAMESPACE)
    calls: list[str] = []
    scripts = lossy.scripts

    class Lossy:
        def run(self, script: str, *arguments: Any, now_ms: int | None = None) -> Any:
            calls.append(script)
            if script == "publish" and calls.count("publish") < 3:
                if calls.count("publish") == 2:  # done, but the answer was lost
                    scripts.run(script, *arguments, now_ms=now_ms)
                raise redis.exceptions.ConnectionError("gone")
            return scripts.run(script, *arguments, now_ms=now_ms)

    lossy.scripts = Lossy()  # type: ignore[assignment]
    bench.serve(index=lambda namespace: lossy)
    assert calls.count("publish") == 3
    assert isinstance(bench.ask(name), Hit)
    assert bench.redis.hget(f"{bench.index.prefix}meta", "compiles") == b"1"


def test_an_index_that_is_gone_for_good_ends_a_message_quietly(bench: Bench) -> None:
    name = bench.claim(shell("echo x > $OUT/a"))
    with redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=1) as nowhere:
        bench.serve(index=lambda namespace: Index(nowhere, NAMESPACE), patience=Patience(0.1, bench.stopping))
    bench.serve()
    assert isinstance(bench.ask(name), Hit)
