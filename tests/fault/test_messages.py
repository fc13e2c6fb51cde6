"""How many messages an hour of waiting costs: counted in the broker, the hour passed by the scripts' test clock."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from farm.celery import create
from farm.client.claiming import Claiming
from farm.coordinator.loop import Coordinator
from farm.coordinator.messages import Messages
from farm.index.index import Index
from farm.index.jobs import Member, Want, as_member
from farm.index.outcomes import Claimed, Membership, Taken
from farm.index.registry import Offer, Worker
from farm.namespace import Namespace
from tests.lua.world import record_of
from tests.support.kit import Kit, running
from workers import tasks
from workers.worker import CompileWorker

CLAIMS, TICK_MS, HOUR_MS = 5000, 10_000, 3_600_000
OFFER = Offer("command", "a" * 64, "1")
NAMESPACE = Namespace("default", "test-soc")


class Slot:
    """A worker's only slot; it is asked as the worker's own task asks, and its compiles last as long as it is told."""

    has_more = CompileWorker.has_more

    def __init__(self, index: Index) -> None:
        self.index = index
        self._stopping = threading.Event()
        self.running: Taken | None = None
        self.queues = (OFFER.queue,)

    def _index(self, namespace: Namespace) -> Index:
        return self.index

    def take(self) -> None:
        taken = self.index.take(OFFER.queue, "w", secrets.token_hex(16), 20_000)
        self.running = taken if isinstance(taken, Taken) else None

    def serve(self, namespace: Namespace, queue: str) -> None:
        """The end of the compile that runs; the task looks for more afterwards."""
        if self.running:
            self.index.publish(self.running.claim, record_of(self.running.claim.token))
            self.running = None


class Hour:
    """A farm with one slot and 5,000 claims; its time passes tick by tick."""

    def __init__(self, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kit = kit
        connection = kit.farm().connection
        self.broker = redis.Redis(unix_socket_path=str(kit.socket), db=1)
        application = create(connection.addresses)
        self.coordinator = Coordinator(connection, Messages(application), {})
        self.index = self.coordinator._space(NAMESPACE).index
        self.now_ms = round(connection.server.time()[0]) * 1000
        self.pass_time(0)
        self.index.open(1)
        connection.server.sadd("opfarm:{farm}:namespaces", str(NAMESPACE))
        self.coordinator.tick()
        connection.registry.register(Worker("w", "host", 1, 1, (OFFER.queue,)), [OFFER], HOUR_MS)
        self.slot = Slot(self.index)
        monkeypatch.setattr(tasks, "_worker", self.slot)
        monkeypatch.setattr(tasks, "app", application)
        self.claiming = Claiming(connection.addresses, print)
        self.fetched = self.thrown_away = 0

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.index.now_ms = self.coordinator._leadership.now_ms = self.now_ms

    def claim(self) -> None:
        """As a client does it, its messages included."""
        who = Member("job", "m", "enable", 1, b"{}", 2 * HOUR_MS)
        joined = self.index.join(who)
        assert isinstance(joined, Membership)
        wants = [Want(secrets.token_bytes(32), b"request", OFFER.queue) for _ in range(CLAIMS)]
        answers = self.index.claim(as_member(who, joined), wants, "n")
        assert isinstance(answers, list)
        part = type("Named", (), {"namespace": NAMESPACE})()
        self.claiming.send(part, {OFFER.queue: sum(isinstance(one, Claimed) for one in answers)})

    def waiting(self) -> int:
        return int(self.broker.llen(OFFER.queue))

    def sent(self) -> int:
        """Every message that was ever in the broker."""
        return self.fetched + self.thrown_away + self.waiting()

    def fetch(self) -> bool:
        """A free slot fetches the next message and takes a claim."""
        if not self.broker.rpop(OFFER.queue):
            return False
        self.fetched += 1
        self.slot.take()
        return self.slot.running is not None

    def finish(self) -> None:
        """The compile ends, and the task of the worker with it."""
        tasks.compile.run(str(NAMESPACE), OFFER.queue)

    def tick(self) -> None:
        self.pass_time(TICK_MS)
        if self.slot.running:
            assert self.index.renew([self.slot.running.claim], 20_000) == ["kept"]
        self.coordinator.tick()


@pytest.fixture
def hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hour]:
    with running(tmp_path, workers=0) as kit:
        for name in ("FARM_INDEX_URL", "FARM_STORE_URL", "FARM_STATE_DIR"):  # Celery looks when a task is first called
            monkeypatch.setenv(name, kit.env[name])
        hour = Hour(kit, monkeypatch)
        hour.claim()
        yield hour
        hour.broker.close()


def test_5000_claims_that_wait_an_hour_behind_one_slot_cost_one_message_each(hour: Hour) -> None:
    assert hour.waiting() == CLAIMS
    assert hour.fetch()
    for _ in range(HOUR_MS // TICK_MS):
        hour.tick()
    assert hour.sent() <= CLAIMS * 1.05
    served = 0
    while hour.slot.running and served < 300:
        hour.finish()
        hour.fetch()
        served += 1
    assert served == 300
    assert hour.sent() <= CLAIMS * 1.05


def test_after_celerys_purge_each_claim_costs_one_message_more_and_waiting_none(hour: Hour) -> None:
    """What is thrown away is sent again one by one, when a slot is free for it: by the leader, then by the worker."""
    assert hour.fetch()
    hour.thrown_away = hour.waiting()
    hour.kit.celery("purge", "-f", "-Q", OFFER.queue).check_returncode()
    assert hour.waiting() == 0
    for tick in range(HOUR_MS // TICK_MS):
        hour.tick()
        if tick % 3 == 2 and hour.slot.running:  # a compile of half a minute
            hour.finish()
            assert hour.fetch()
    served = int(hour.index.server.hget(f"{hour.index.prefix}meta", "compiles"))
    assert served == HOUR_MS // TICK_MS // 3
    assert hour.sent() - CLAIMS <= served + 2
