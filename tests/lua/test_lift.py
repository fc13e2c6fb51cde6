"""A more urgent job that joins a queued claim lifts it to its own class and turn; nothing is ever lowered."""

from __future__ import annotations

import pytest

from farm.index.outcomes import Failure
from tests.lua.world import CLAIM_LEASE, QUEUE, RULES, World, key, keys, kinds

URGENT, NORMAL, BULK = 0, 1, 2


def order(world: World, count: int) -> list[bytes]:
    return [world.take(f"take {len(world.scripts.sent)}").claim.key for _ in range(count)]


def priorities(world: World, *which: bytes) -> list[int]:
    claims = world.snapshot().claims
    return [claims[1, k].priority for k in which]


@pytest.fixture
def queued(world: World) -> World:
    """A bulk job has five claims queued, a normal one five more."""
    world.claim(world.join("bulk", priority=BULK), *keys(5))
    world.claim(world.join("normal", priority=NORMAL), *(key(n) for n in range(10, 15)))
    return world


@pytest.mark.parametrize("asks_by", ["acquire", "claim"])
def test_an_urgent_job_lifts_what_it_joins_and_nothing_else(queued: World, asks_by: str) -> None:
    urgent = queued.join("urgent", priority=URGENT)
    if asks_by == "acquire":
        queued.index.acquire(urgent, [key(3), key(11)])
    else:
        assert kinds(queued.claim(urgent, key(3), key(11), nonce="of the urgent job")) == "JJ"
    queued.resend_unchanged(asks_by)
    assert priorities(queued, key(3), key(11)) == [URGENT, URGENT]
    assert priorities(queued, key(2), key(12)) == [BULK, NORMAL]
    assert order(queued, 2) == [key(3), key(11)]
    assert set(order(queued, 4)) == {key(10), key(12), key(13), key(14)}


def test_a_key_asked_for_twice_in_one_call_is_lifted_once(queued: World) -> None:
    urgent, other = queued.join("urgent", priority=URGENT), queued.join("other", priority=URGENT)
    queued.index.acquire(urgent, [key(3), key(3), key(4)])
    assert [queued.seen.queues[QUEUE][1, key(n)] for n in (3, 4)] == [1, 2]
    queued.index.acquire(other, [key(1)])
    assert set(order(queued, 2)) == {key(3), key(1)}


def test_what_is_lifted_takes_turns_with_others_of_its_new_class(world: World) -> None:
    """Who joins ten claims of a bulk job does not get ahead of the normal jobs that wait already."""
    bulk, normal = [key(n) for n in range(20, 30)], [key(n) for n in range(30, 35)]
    world.claim(world.join("bulk", priority=BULK), *bulk)
    world.claim(world.join("normal"), *normal)
    world.index.acquire(world.join("joins"), bulk)
    first = order(world, 10)
    assert len(set(first) & set(normal)) == len(set(first) & set(bulk)) == 5


def test_nothing_is_lowered(queued: World) -> None:
    bulk, normal = queued.join("another bulk", priority=BULK), queued.join("another normal")
    places = queued.snapshot().queues
    for who in (bulk, normal):
        queued.index.acquire(who, [key(11)])
    queued.index.acquire(bulk, [key(3)])
    assert queued.snapshot().queues == places
    urgent = queued.join("urgent", priority=URGENT)
    queued.index.acquire(urgent, [key(3)])
    queued.index.acquire(normal, [key(3)])
    queued.end(urgent)
    assert priorities(queued, key(3), key(11)) == [URGENT, NORMAL]
    queued.resend_unchanged("acquire")


def test_a_running_claim_is_left_alone_until_it_is_queued_again(queued: World) -> None:
    urgent = queued.join("urgent", priority=URGENT)
    (normal,) = order(queued, 1)
    running = queued.snapshot().claims[1, normal]
    queued.index.acquire(urgent, [normal])
    assert queued.snapshot().claims[1, normal] == running
    queued.pass_time(CLAIM_LEASE)
    assert queued.index.reclaim(RULES) == [QUEUE]
    assert priorities(queued, normal) == [NORMAL]
    queued.index.acquire(urgent, [normal])
    assert priorities(queued, normal) == [URGENT]
    queued.resend_unchanged("acquire")


def test_a_lifted_claim_that_is_tried_again_stays_lifted(queued: World) -> None:
    queued.index.acquire(queued.join("urgent", priority=URGENT), [key(3)])
    taken = queued.take("t")
    assert taken.claim.key == key(3)
    queued.index.fail(taken.claim, Failure("transient", "out of memory"), RULES)
    queued.resend_unchanged("acquire")
    assert order(queued, 1) == [key(3)]


def test_an_acquire_that_comes_late_lifts_nothing(queued: World) -> None:
    urgent = queued.join("urgent", priority=URGENT)
    queued.index.acquire(urgent, [key(3)])
    queued.end(urgent)
    queued.resend_unchanged("acquire")
    assert order(queued, 1) == [key(3)]
    queued.resend_unchanged("acquire")


def test_the_class_is_read_once_and_only_when_something_is_joined(world: World) -> None:
    world.idle(key(40))
    world.claim(world.join("bulk", priority=BULK), *keys(5))
    urgent = world.join("urgent", priority=URGENT)
    world.watched = False

    def reads(*wanted: bytes) -> int:
        """The fields read one by one when the job asks again for what it holds."""
        world.index.acquire(urgent, wanted)
        world.redis.config_resetstat()
        world.index.acquire(urgent, wanted)
        return int(world.redis.info("commandstats")["cmdstat_hget"]["calls"])

    none, one, five = reads(key(40)), reads(key(1)), reads(*keys(5))
    assert one - none == 2, "the class, and whether the job is interested already"
    assert five - one == 4, "the latter for each key"
