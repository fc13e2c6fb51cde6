from __future__ import annotations

import threading

import pytest
from redis.exceptions import ConnectionError as LostConnection

from farm.index.registry import Offer, Worker
from farm.request.options import from_wire
from tests.unit.workers.requests import ShellToolchain
from workers import registration
from workers.registration import Registration, offer_of
from workers.toolchains import host

WORKER = Worker("id", "host", 1, 2, ("compile.shell.555555555555",))


class FakeRegistry:
    """Notes who registers; does not answer the first ``broken`` times."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken
        self.calls = 0
        self.rows: dict[str, tuple[Worker, list[Offer], int]] = {}
        self.called = threading.Semaphore(0)

    def register(self, worker: Worker, offers: list[Offer], ttl_ms: int) -> None:
        self.calls += 1
        if self.calls > self.broken:
            self.rows[worker.id] = (worker, offers, ttl_ms)
        self.called.release()
        if self.calls <= self.broken:
            raise LostConnection("no server")

    def leave(self, worker_id: str) -> None:
        if self.broken > 99:
            raise LostConnection("no server")
        self.rows.pop(worker_id, None)


def test_a_worker_registers_again_and_again_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "EVERY_SECONDS", 0.001)
    registry, offer = FakeRegistry(broken=2), offer_of(ShellToolchain())
    one = Registration(registry, WORKER, [offer])  # type: ignore[arg-type]
    one.start()
    for _ in range(5):
        assert registry.called.acquire(timeout=5)
    assert registry.rows == {"id": (WORKER, [offer], 15_000)}
    one.close()
    assert registry.rows == {}


def test_leaving_without_a_server_is_no_error() -> None:
    Registration(FakeRegistry(broken=100), WORKER, []).close()  # type: ignore[arg-type]


def test_an_offer_carries_the_schema() -> None:
    toolchain = ShellToolchain()
    toolchain.schema = host.SCHEMA
    offer = offer_of(toolchain)
    assert (offer.toolchain, offer.queue, offer.socs) == ("shell", WORKER.queues[0], ())
    assert from_wire(offer.schema) == host.SCHEMA
