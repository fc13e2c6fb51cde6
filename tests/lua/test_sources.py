"""Sources in the store stay as long as a claim may name them, and go afterwards; also in a race, on the real server."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import pytest

from farm.coordinator.sources import SourceCare
from farm.index.jobs import Member, Want
from farm.index.outcomes import Claimed, Failure, Stale, Taken
from farm.index.sources import SOURCE_LEASE_MS, SourceEpochs
from farm.store.inventory import take_inventory
from farm.store.sourcepath import source_path
from farm.store.store import Store
from tests.lua.world import CLAIM_LEASE, QUEUE, RULES, T0, World, key, keys, record_of

BLOBS = {hashlib.sha256(data).digest(): data for data in (b"one", b"two", b"three")}


class Farm:
    """Submitters, workers and leaders over one namespace and a store in memory, on one virtual clock."""

    def __init__(self, world: World) -> None:
        self.world, self.index = world, world.index
        self.store = Store.open("memory://")
        self.epochs = SourceEpochs(world.redis, now_ms=T0)
        self.cares = [SourceCare(self.epochs, self.store, lambda: [self.index], 0) for _ in range(2)]

    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)
        self.epochs.now_ms = self.index.now_ms

    def submit(self, who: Member, k: bytes, sha256: bytes) -> Iterator[None]:
        """As the client does it; anything may happen at each yield."""
        while True:
            lease = self.epochs.lease()
            yield
            self.store.put_source(sha256, lease.epoch, BLOBS[sha256])
            yield
            if not isinstance(self.index.claim(who, [Want(k, sha256, QUEUE)], "n", sources=lease), Stale):
                return
            yield

    def collect(self, care: SourceCare) -> Iterator[None]:
        """As the leader does it."""
        found = take_inventory(self.store).sources
        yield
        yield from care.collect(found)

    def sources(self) -> set[str]:
        return set(self.store.names())

    def missing(self) -> list[str]:
        """What live claims name and the store does not have."""
        claims = self.world.snapshot().claims
        named = [
            source_path(self.world.redis.hget(f"{self.index.prefix}c:{ref[0]}:".encode() + ref[1], "request"), epoch)
            for ref, claim in claims.items()
            if (epoch := claim.sources)
        ]
        return [path for path in named if not self.store.exists(path)]


@pytest.fixture
def farm(world: World) -> Farm:
    return Farm(world)


def run(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def test_sources_stay_for_their_claims_and_then_go(farm: Farm) -> None:
    world, care, (sha256, *_) = farm.world, farm.cares[0], BLOBS
    run(farm.submit(world.join(), key(1), sha256))
    taken = world.take("t")
    path = source_path(sha256, taken.sources)
    for _ in range(3):
        farm.pass_time(SOURCE_LEASE_MS)
        run(farm.collect(care))
        assert farm.sources() == {path}
    world.index.fail(taken.claim, Failure("transient", "killed"), RULES)
    run(farm.collect(care))
    again = world.take("t2")
    assert again.sources == taken.sources
    world.publish(again)
    assert farm.sources() == {path}
    run(farm.collect(care))
    assert farm.sources() == set()


def test_a_take_says_where_the_sources_are_also_when_it_is_sent_again(farm: Farm) -> None:
    lease = farm.epochs.lease()
    farm.index.claim(farm.world.join(), [Want(key(1), b"request", QUEUE)], "n", sources=lease)
    farm.index.claim(farm.world.join(), [Want(key(2), b"request", QUEUE)], "n")
    for nonce, epoch in (("t1", lease.epoch), ("t2", 0)):
        assert [farm.world.take(nonce).sources for _ in range(2)] == [epoch, epoch]


def test_nothing_of_the_epoch_in_force_goes_nor_while_leases_on_the_last_one_run(farm: Farm) -> None:
    care, (sha256, *_) = farm.cares[0], BLOBS
    farm.store.put_source(sha256, farm.epochs.lease().epoch, BLOBS[sha256])
    farm.pass_time(SOURCE_LEASE_MS)
    late = farm.epochs.lease()
    run(farm.collect(care))
    assert farm.epochs.lease().epoch > late.epoch
    farm.pass_time(SOURCE_LEASE_MS - 1)
    run(farm.collect(care))
    assert farm.sources() == {source_path(sha256, late.epoch)}
    answers = farm.index.claim(farm.world.join(), [Want(key(1), sha256, QUEUE)], "n", sources=late)
    assert [type(answer) for answer in answers] == [Claimed]  # type: ignore[union-attr]
    farm.pass_time(1)
    run(farm.collect(care))
    assert farm.sources() == {source_path(sha256, late.epoch)}


def test_a_claim_that_comes_too_late_is_stale_and_claims_nothing(farm: Farm) -> None:
    world, who = farm.world, farm.world.join()
    lease = farm.epochs.lease()
    farm.pass_time(SOURCE_LEASE_MS)
    wants = [Want(k, b"request", QUEUE) for k in keys(3)]
    assert farm.index.claim(who, wants, "n", sources=lease) == Stale()
    world.resend_unchanged("claim")
    assert not world.snapshot().claims
    assert isinstance(farm.index.claim(who, wants, "n", sources=farm.epochs.lease()), list)
    world.resend_unchanged("claim")
    assert len(world.snapshot().claims) == 3


def test_an_epoch_is_turned_once_and_grows_on_a_server_that_lost_it(farm: Farm) -> None:
    first = farm.epochs.lease().epoch
    second = farm.epochs.turn(first)
    assert second > first
    farm.pass_time(5)
    assert farm.epochs.turn(first) == farm.epochs.lease().epoch == second
    farm.world.lose_everything()
    farm.pass_time(0)
    assert farm.epochs.lease().epoch > second


def test_an_epoch_goes_only_when_it_was_dead_a_grace_ago(farm: Farm) -> None:
    """A restored snapshot may bring back a claim that had ended; by then its sources must still be there."""
    world, (sha256, *_) = farm.world, BLOBS
    patient = SourceCare(farm.epochs, farm.store, lambda: [farm.index], 60)
    run(farm.submit(world.join(), key(1), sha256))
    image = {name: world.redis.dump(name) for name in world.redis.scan_iter(match="opfarm:*")}
    world.publish(world.take("t"))
    for _ in range(2):
        farm.pass_time(SOURCE_LEASE_MS)
        run(farm.collect(patient))
    world.redis.flushdb()
    for name, data in image.items():
        world.redis.restore(name, 0, data)
    assert farm.missing() == []
    assert farm.store.get_source(sha256, world.take("t2").sources) == BLOBS[sha256]


def test_foreign_objects_and_what_killed_writers_left(farm: Farm) -> None:
    sha256, name = next(iter(BLOBS)), next(iter(BLOBS)).hex()
    found = [f"sources/{name}", f"sources/{name}-0", f"sources/{name}-x", f"sources/{name}-5/a", f"a/sources/{name}-5"]
    for path in found:
        farm.store.put(path, b"not yours")
    farm.store.put_source(sha256, 5, BLOBS[sha256])
    farm.epochs.lease()
    farm.pass_time(SOURCE_LEASE_MS)
    run(farm.collect(farm.cares[0]))
    assert farm.sources() == set(found)


class Race:
    """Submitters, workers and two leaders, a step at a time in any order; each may stop for long at any step."""

    def __init__(self, farm: Farm, seed: int) -> None:
        self.farm, self.index, self.chance = farm, farm.index, random.Random(seed)
        self.who = farm.world.join()
        self.under_way: list[Iterator[None]] = []
        self.taken: list[Taken] = []
        self.served = 0
        farm.world.watched = False  # what is watched here is looked at below; the walks watch the rest

    def step(self) -> None:
        acts = {self.submit: 3, self.collect: 2, self.take: 3, self.serve: 3, self.go_on: 12, self.wait: 2}
        self.chance.choices(list(acts), list(acts.values()))[0]()
        assert self.farm.missing() == []

    def wait(self) -> None:
        self.farm.pass_time(self.chance.choice([1, 1000, SOURCE_LEASE_MS // 3, SOURCE_LEASE_MS]))
        self.index.heartbeat(self.who)

    def submit(self) -> None:
        k, sha256 = key(self.chance.randrange(6, 40)), self.chance.choice(list(BLOBS))
        self.under_way.append(self.farm.submit(self.who, k, sha256))

    def collect(self) -> None:
        self.under_way.append(self.farm.collect(self.chance.choice(self.farm.cares)))

    def go_on(self) -> None:
        if self.under_way:
            one = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            if next(one, "over") != "over":
                self.under_way.append(one)

    def take(self) -> None:
        taken = self.index.take(QUEUE, "w", f"d{self.chance.random()}", CLAIM_LEASE)
        if isinstance(taken, Taken):
            self.taken.append(taken)

    def serve(self) -> None:
        if self.taken:
            one = self.taken.pop(self.chance.randrange(len(self.taken)))
            assert self.farm.store.get_source(one.request, one.sources) == BLOBS[one.request]
            self.served += 1
            self.index.publish(one.claim, record_of(one.claim.token))
            self.index.drop(one.claim.generation, one.claim.key, one.claim.token)

    def end(self) -> None:
        """All leave, and in time nothing is left."""
        for one in self.taken:
            self.index.publish(one.claim, record_of(one.claim.token))
        self.farm.world.end(self.who)
        for _ in range(4):
            self.farm.pass_time(SOURCE_LEASE_MS)
            run(self.farm.collect(self.farm.cares[0]))
        self.farm.world.watched = True
        self.farm.world.check()
        assert self.farm.sources() == set()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_order_no_live_claim_lacks_its_source(farm: Farm, seed: int) -> None:
    race = Race(farm, seed)
    for _ in range(300):
        race.step()
    assert race.served > 1
    race.end()
