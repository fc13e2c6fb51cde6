"""The registry's defaults, order of preference and clocks; rows of a newer version are read too."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from farm.index import names
from farm.index.registry import Offer, Registry, Worker
from tests.lua.world import T0, World

OLD, NEW = Offer("host", "a" * 64, "11.0"), Offer("host", "b" * 64, "12.0")
TTL = 15_000


@pytest.fixture
def registry(world: World) -> Registry:
    return Registry(world.redis, now_ms=T0)


def worker(name: str, *offers: Offer, clock_ms: int = 0) -> Worker:
    return Worker(name, "host-a", 7, 4, tuple(offer.queue for offer in offers), clock_ms=clock_ms)


def fingerprints(registry: Registry) -> str:
    return "".join(offer.fingerprint[0] for offer in registry.preferred())


def test_a_default_comes_before_live_ones_and_those_before_higher_versions(registry: Registry) -> None:
    registry.register(worker("w1", OLD), [OLD], TTL)
    registry.register(worker("w2", NEW), [NEW], TTL)
    assert fingerprints(registry) == "ba"
    registry.leave("w2")
    assert fingerprints(registry) == "ab"
    registry.set_default("host", NEW.fingerprint)
    registry.set_default("host", NEW.fingerprint)
    assert (fingerprints(registry), registry.defaults()) == ("ba", {"host": NEW.fingerprint})
    registry.set_default("host", None)
    registry.set_default("host", None)
    assert (fingerprints(registry), registry.defaults()) == ("ab", {})


def test_workers_say_what_they_lack_and_what_they_are(registry: Registry) -> None:
    told = replace(
        worker("w1", OLD), missing={"cuda": "no wheel"}, versions={"opfarm": "1"}, settings={"FARM_MAX_ATTEMPTS": 3.0}
    )
    registry.register(told, [OLD], TTL)
    assert registry.workers() == [told]
    assert registry.workers()[0].missing == {"cuda": "no wheel"}


def test_clocks_are_compared_with_the_servers_at_registration(registry: Registry) -> None:
    registry.register(worker("ahead", OLD, clock_ms=T0 + 7_000), [OLD], TTL)
    registry.register(worker("behind", OLD, clock_ms=T0 - 90_000), [OLD], TTL)
    registry.register(worker("silent", OLD), [OLD], TTL)
    assert registry.clock_leads_ms() == {"ahead": 7_000, "behind": -90_000}


def test_rows_of_another_version_are_read(registry: Registry) -> None:
    registry.register(worker("w1", OLD), [OLD], TTL)
    server = registry.server
    for name, field in ((names.WORKERS, "w1"), (names.TOOLCHAINS, f"host.{OLD.fingerprint}")):
        row = msgpack.unpackb(server.hget(name, field))
        server.hset(name, field, msgpack.packb(row | {"of a newer version": 1}))
    assert registry.workers() == [worker("w1", OLD)]
    assert [offer.fingerprint for offer in registry.offers()] == [OLD.fingerprint]
    # A worker from before these fields were published.
    old_row = {"id": "w1", "host": "h", "pid": 1, "slots": 2, "queues": []}
    server.hset(names.WORKERS, "w1", msgpack.packb(old_row))
    assert registry.workers() == [Worker("w1", "h", 1, 2, ())]
    assert registry.clock_leads_ms() == {}
