"""register, live: who compiles what."""

from __future__ import annotations

import pytest

from farm.index.registry import Offer, Registry, Worker
from tests.lua.world import T0, World

OFFER = Offer("host", "a" * 64, "12.2", (), {}, {"flags": ["strings", []]}, 0)
TTL = 15_000


@pytest.fixture
def registry(world: World) -> Registry:
    return Registry(world.redis, now_ms=T0)


def worker(name: str) -> Worker:
    return Worker(name, "host-a", 7, 4, (OFFER.queue,))


def everything(registry: Registry) -> dict[bytes, object]:
    server = registry.server
    return {
        name: server.hgetall(name) if server.type(name) == b"hash" else server.zrange(name, 0, -1, withscores=True)
        for name in server.scan_iter(match="opfarm:{farm}:*")
    }


def known(registry: Registry) -> tuple[list[bytes], list[bytes]]:
    """The workers that have a row, and those that have a lease."""
    server = registry.server
    return server.hkeys("opfarm:{farm}:workers"), server.zrange("opfarm:{farm}:worker_leases", 0, -1)


def test_a_worker_lives_as_long_as_it_registers(registry: Registry) -> None:
    registry.register(worker("w1"), [OFFER], TTL)
    before = everything(registry)
    registry.register(worker("w1"), [OFFER], TTL)
    assert everything(registry) == before
    registry.register(worker("w2"), [OFFER], TTL)
    registry.now_ms = T0 + TTL - 1
    assert registry.workers() == [worker("w1"), worker("w2")]
    registry.register(worker("w2"), [OFFER], TTL)
    registry.now_ms = T0 + TTL
    assert registry.workers() == [worker("w2")]
    registry.register(worker("w2"), [OFFER], TTL)
    assert known(registry) == ([b"w2"], [b"w2"])


def test_slots_are_the_sum_of_those_that_live(registry: Registry) -> None:
    assert registry.slots() == {}
    registry.register(worker("w1"), [OFFER], TTL)
    registry.register(worker("w1"), [OFFER], TTL)
    assert registry.slots() == {OFFER.queue: 4}
    registry.register(Worker("w2", "h", 1, 3, (OFFER.queue, "compile.other.1")), [OFFER], TTL)
    registry.register(Worker("none", "h", 1, 2, ()), [], TTL)
    registry.register(worker("w3"), [OFFER], 2 * TTL)
    assert registry.slots() == {OFFER.queue: 11, "compile.other.1": 3}
    registry.leave("w2")
    assert registry.slots() == {OFFER.queue: 8}
    registry.now_ms = T0 + TTL
    assert registry.slots() == {OFFER.queue: 4}
    registry.register(Worker("w3", "h", 1, 2, ("compile.other.1",)), [OFFER], TTL)
    assert registry.slots() == {"compile.other.1": 2}
    assert registry.server.hgetall("opfarm:{farm}:served") == {b"w3": b"2 compile.other.1"}
    registry.now_ms = T0 + 2 * TTL - 1
    assert registry.slots() == {"compile.other.1": 2}
    registry.now_ms = T0 + 2 * TTL
    assert registry.slots() == {}
    assert known(registry) == ([], [])
    assert not registry.server.exists("opfarm:{farm}:served", "opfarm:{farm}:slots")


def test_who_asks_for_the_slots_costs_the_same_however_many_workers_there_are(registry: Registry) -> None:
    def commands() -> int:
        registry.slots()
        before = registry.server.info("commandstats")
        registry.slots()
        after = registry.server.info("commandstats")
        return sum(row["calls"] - before.get(name, {"calls": 0})["calls"] for name, row in after.items())

    registry.register(worker("w0"), [OFFER], TTL)
    few = commands()
    for n in range(500):
        registry.register(worker(f"w{n}"), [OFFER], TTL)
    assert registry.slots() == {OFFER.queue: 2000}
    assert commands() == few


def test_a_worker_that_leaves_is_gone_at_once_and_its_toolchain_stays_known(registry: Registry) -> None:
    registry.register(worker("w1"), [OFFER], TTL)
    registry.leave("w1")
    before = everything(registry)
    registry.leave("w1")
    assert everything(registry) == before
    assert registry.workers() == []
    assert known(registry) == ([], [])
    assert [offer.fingerprint for offer in registry.offers()] == [OFFER.fingerprint]
    # A registration that comes late lives for its lease only.
    registry.register(worker("w1"), [OFFER], TTL)
    registry.now_ms = T0 + TTL
    assert registry.workers() == []


def test_the_best_offer_comes_first(registry: Registry) -> None:
    old, new, newest_version = (
        Offer("host", letter * 64, version) for letter, version in (("b", "9.1"), ("c", "9.1"), ("d", "10.0"))
    )
    for n, offer in enumerate((new, old, newest_version, Offer("cuda", "e" * 64, "odd version"))):
        registry.now_ms = T0 + n
        registry.register(worker(f"w{n}"), [offer], TTL)
    registry.now_ms = T0 + 100
    registry.register(worker("w0"), [new], TTL)
    first_seen = {offer.fingerprint[0]: offer.first_seen_ms for offer in registry.offers()}
    assert first_seen == {"c": T0, "b": T0 + 1, "d": T0 + 2, "e": T0 + 3}
    best = [(offer.toolchain, offer.fingerprint[0]) for offer in registry.offers()]
    assert best == [("cuda", "e"), ("host", "d"), ("host", "c"), ("host", "b")]


def test_many_workers(registry: Registry) -> None:
    """More than Lua can hand over in one call."""
    pipe = registry.server.pipeline(transaction=False)
    registry.register(worker("w"), [OFFER], TTL)
    row = registry.server.hget("opfarm:{farm}:workers", "w")
    for n in range(9000):
        pipe.hset("opfarm:{farm}:workers", f"w{n}", row)
        pipe.zadd("opfarm:{farm}:worker_leases", {f"w{n}": T0 + TTL})
    pipe.execute()
    assert len(registry.workers()) == 9001
