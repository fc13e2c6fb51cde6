"""What is kept for late calls goes by itself, when nobody can ask for it any more; and who is called when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from farm.index import names
from farm.index.jobs import Want
from farm.index.outcomes import Failure
from farm.namespace import BundleId
from tests.lua.world import CLAIM_LEASE, LEASE, QUEUE, RULES, World, key, keys, record_of


def left_ms(world: World, kind: str) -> int:
    """How long the only row of its kind is still kept."""
    [name] = world.redis.scan_iter(match=f"{world.index.prefix}{kind}:*")
    return int(world.redis.pttl(name))  # type: ignore[arg-type]


def test_a_purge_request_and_its_answer_are_kept_for_an_hour(world: World) -> None:
    world.index.ask_purge("r")
    assert 3_590_000 < left_ms(world, "asked") <= 3_600_000
    world.redis.pexpire(f"{world.index.prefix}asked:r", 1000)
    world.index.raise_to(2)
    assert 3_590_000 < left_ms(world, "asked") <= 3_600_000


@pytest.mark.parametrize("queued", [True, False])
def test_what_a_message_took_is_known_for_ten_minutes(world: World, queued: bool) -> None:
    if queued:
        world.claim(world.join(), key(1))
    world.index.take(QUEUE, "w", "d", CLAIM_LEASE)
    assert 590_000 < left_ms(world, "d") <= 600_000


@pytest.mark.parametrize(("remember", "kept_ms"), [(True, RULES.remember_ms), (False, LEASE)])
def test_a_failure_is_kept_for_those_who_wait_and_as_long_as_it_is_remembered(
    world: World, remember: bool, kept_ms: int
) -> None:
    world.claim(world.join(), key(1))
    world.index.fail(world.take("d").claim, Failure("rejected", "why"), RULES, remember=remember)
    assert kept_ms - 10_000 < left_ms(world, "f") <= kept_ms


class Calls:
    """What the coordinators are called with."""

    def __init__(self, world: World) -> None:
        self.channel = world.redis.pubsub(ignore_subscribe_messages=True)
        self.channel.subscribe(names.WAKE_CHANNEL)
        self.channel.get_message(timeout=1)

    def read(self) -> list[bytes]:
        """Since it was read last."""
        found = []
        while message := self.channel.get_message(timeout=0.05):
            found.append(message["data"])
        return found


@pytest.fixture
def calls(world: World) -> Iterator[Calls]:
    calls = Calls(world)
    yield calls
    calls.channel.close()


def test_a_purge_request_calls_the_leader_once(world: World, calls: Calls) -> None:
    for _ in range(2):
        world.index.ask_purge("r")
    assert calls.read() == [f"{world.index.prefix}meta".encode()]


def test_a_publish_calls_the_leader_when_the_limit_is_crossed_and_then_no_more(world: World, calls: Calls) -> None:
    world.index.set_limits(2000, 50, "default", True)
    world.claim(world.join(), *keys(4))
    for n in range(4):
        world.publish(world.take(f"d{n}"))
    assert len(calls.read()) == 1
    world.index.set_limits(4500, 50, "default", False)
    world.claim(world.join(), key(9), nonce="n9")
    world.publish(world.take("d9"))
    assert calls.read() == []


def test_a_private_entry_calls_nobody(world: World, calls: Calls) -> None:
    who = world.join()
    world.compiled(who, key(1), key(2))
    world.index.set_limits(2000, 50, "default", True)
    world.index.claim(who, [Want(key(3), b"request", QUEUE)], "private", "private")
    world.publish(world.take("d3"))
    assert calls.read() == []


def condemned_at(world: World) -> list[float]:
    return [score for _, score in world.redis.zrange(f"{world.index.prefix}tombs", 0, -1, withscores=True)]


def test_what_is_condemned_keeps_its_time_whoever_finds_it_again(world: World) -> None:
    """Else a late call, or each search for orphans, would put its deletion off."""
    who = world.join()
    world.claim(who, key(1))
    lost = world.take("d1").claim
    world.pass_time(CLAIM_LEASE)
    world.index.reclaim(RULES)
    path = BundleId(1, key(1), lost.token).path(world.index.namespace)
    since = world.index.now_ms
    world.index.publish(lost, record_of(lost.token))
    for _ in range(2):
        assert condemned_at(world) == [since]
        world.pass_time(1000)
        world.index.publish(lost, record_of(lost.token))
        assert world.index.condemn_orphans([(path, BundleId(1, key(1), lost.token))]) == 0


@pytest.mark.parametrize("then", ["leaves", "is promised a later generation"])
def test_who_failed_and_is_interested_no_more_takes_nobody_elses_pin_along(world: World, then: str) -> None:
    failed, waits = world.join("failed"), world.join("waits")
    world.claim(failed, key(1))
    world.index.fail(world.take("d1").claim, Failure("rejected", "why"), RULES, remember=False)
    world.index.acquire(failed, [key(1)])
    world.claim(waits, key(1), nonce="n2")
    if then == "leaves":
        world.end(failed)
    else:
        world.index.acquire(replace(failed, floor=2), [key(1)])
    assert world.pins(key(1)) == [1]
