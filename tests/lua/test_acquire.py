"""acquire: answers, pins, floors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from farm.index.index import Index
from farm.index.outcomes import Absent, Failure, Hit, Joined, Refused, UnknownJob
from tests.lua.world import LEASE, QUEUE, RULES, World, key, keys, kinds, record_of


def acquire(world: World, who, *which: bytes) -> list:  # type: ignore[no-untyped-def, type-arg]
    answers = world.index.acquire(who, which)
    assert isinstance(answers, list)
    return answers


def test_an_absent_key_fixes_nothing(world: World) -> None:
    who = world.join()
    with world.unchanged():
        assert acquire(world, who, *keys(6)) == [Absent()] * 6
        world.resend("acquire")


def test_a_hit_is_pinned_once_however_often_it_is_asked_for(world: World) -> None:
    held = world.idle(*keys(6))
    who = world.join()
    assert acquire(world, who, *keys(6)) == [Hit(1, each.record.pack()) for each in held]
    assert world.pins(*keys(6)) == [1] * 6
    world.resend_unchanged("acquire")
    other = world.join(member="other member of the same job")
    acquire(world, other, *keys(6))
    assert world.pins(*keys(6)) == [1] * 6
    acquire(world, world.join("another job"), *keys(6)[:3])
    assert world.pins(*keys(6)) == [2, 2, 2, 1, 1, 1]
    world.resend_unchanged("acquire")


def test_an_acquire_that_comes_after_the_end_changes_nothing(world: World) -> None:
    world.idle(*keys(4))
    who = world.join()
    acquire(world, who, *keys(4))
    world.end(who)
    with world.unchanged():
        assert world.resend("acquire") == [b"unknown"]
    world.join()
    with world.unchanged():
        assert world.index.acquire(who, keys(4)) == UnknownJob()


def test_every_answer_in_one_batch(world: World) -> None:
    pinned, compiling, failing, failed = (world.join(job) for job in ("pinned", "compiling", "failing", "failed"))
    world.compiled(pinned, key(0))
    world.idle(key(1))
    world.claim(failing, key(3))
    world.index.fail(world.take("f").claim, Failure("rejected", "no such type"), RULES)
    world.claim(compiling, key(2))
    who = world.join()
    answers = acquire(world, who, *keys(5))
    assert kinds(answers) == "HHJRA"
    assert answers[2:4] == [Joined(1), Refused(Failure("rejected", "no such type"), remembered=True)]
    assert world.snapshot().maps[who.run] == {key(0): (1, "i"), key(1): (1, "i"), key(2): (1, "i"), key(3): (1, "f")}
    world.resend_unchanged("acquire")
    world.index.choose(failed, "host", "a" * 64)
    world.resend_unchanged("acquire")


def test_two_thousand_idle_entries_for_a_fresh_job(world: World) -> None:
    world.watched = False
    wanted = keys(2000)
    prefix = world.index.prefix
    for k in wanted:
        world.redis.hset(f"{prefix}e:1", k, record_of(1).pack())
        world.redis.zadd(f"{prefix}idle:1", {k: 5})
    assert kinds(acquire(world, world.join(), *wanted)) == "H" * 2000
    assert world.pins(*wanted) == [1] * 2000
    assert world.redis.zcard(f"{prefix}idle:1") == 0


def test_a_key_twice_in_one_call_is_counted_once(world: World) -> None:
    world.idle(key(1))
    world.claim(world.join("compiling"), key(2))
    who = world.join()
    assert kinds(acquire(world, who, key(1), key(2), key(1), key(2))) == "HJHJ"
    assert world.pins(key(1), key(2)) == [1, 2]
    world.end(who)
    assert world.pins(key(1), key(2)) == [0, 1]


def test_who_joins_is_told_and_may_ask_again(world: World) -> None:
    world.claim(world.join("first"), key(3))
    who = world.join()
    assert acquire(world, who, key(3)) == [Joined(1)]
    world.resend_unchanged("acquire")
    record = world.publish(world.take("t"))
    world.drain()
    assert world.told(who) == {key(3)}
    assert acquire(world, who, key(3)) == [Hit(1, record.pack())]
    assert world.pins(key(3)) == [2]


def test_a_floor_raises_the_namespace_and_is_never_answered_from_below(world: World) -> None:
    world.idle(*keys(3))
    keeper, forcing = world.join("keeper"), replace(world.join("forcing"), floor=2)
    assert kinds(acquire(world, keeper, *keys(3))) == "HHH"
    assert kinds(acquire(world, forcing, *keys(3))) == "AAA"
    assert world.snapshot().generation == 2
    world.resend_unchanged("acquire")
    # Who had them keeps them; whoever comes later does not see them.
    assert kinds(acquire(world, keeper, *keys(3))) == "HHH"
    assert kinds(acquire(world, world.join("later"), *keys(3))) == "AAA"
    world.compiled(forcing, key(0))
    assert [answer.generation for answer in acquire(world, forcing, key(0))] == [2]
    assert world.pins(*keys(3)) == [1, 1, 1]
    world.end(keeper)
    assert len(world.snapshot().tombs) == 3


def test_what_a_job_held_below_a_new_floor_is_given_back_once(world: World) -> None:
    who = world.join()
    world.compiled(who, key(0))
    world.claim(who, key(1))
    raised = replace(who, floor=5)
    assert kinds(acquire(world, raised, *keys(3))) == "AAA"
    assert world.pins(*keys(3)) == [0, 0, 0]
    assert len(world.snapshot().tombs) == 1
    assert not world.snapshot().claims
    world.resend_unchanged("acquire")
    assert kinds(world.claim(raised, *keys(2))) == "CC"
    world.resend_unchanged("acquire")
    assert world.pins(*keys(2), generation=5) == [1, 1]


def test_a_failure_is_this_jobs_answer_for_good(world: World) -> None:
    who, other = world.join(), world.join("other")
    world.claim(who, key(0))
    world.index.fail(world.take("t").claim, Failure("rejected", "no", "log"), RULES, remember=False)
    told = Refused(Failure("rejected", "no", "log"), remembered=False)
    assert acquire(world, who, key(0)) == [told]
    assert world.pins(key(0)) == [0]
    world.resend_unchanged("acquire")
    # Not remembered: others may try, and what they get is not this job's.
    assert acquire(world, other, key(0)) == [Absent()]
    world.compiled(other, key(0))
    assert acquire(world, who, key(0)) == [told]


def test_a_server_that_forgot_its_scripts_is_given_them(world: World) -> None:
    world.idle(*keys(3))
    who = world.join()
    world.redis.script_flush()
    assert kinds(acquire(world, who, *(key(n % 3) for n in range(1000)))) == "H" * 1000
    assert world.pins(*keys(3)) == [1, 1, 1]


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_answer_alike(world: World, protocol: int) -> None:
    url = f"unix://{world.redis.connection_pool.connection_kwargs['path']}"
    with redis.Redis.from_url(url, protocol=protocol) as client:
        index = Index(client, world.index.namespace, now_ms=world.index.now_ms)
        who = world.join()
        assert index.last_notice(who.run) == "0-0"
        assert index.wait_notices(who.run, "0-0", 1) == ("0-0", set())
        world.claim(who, *keys(6))
        for n in range(6):
            world.publish(world.take(f"t{n}"))
        world.drain()
        position, told = index.wait_notices(who.run, "0-0", 1)
        assert told == set(keys(6))
        assert position == index.last_notice(who.run)
        assert index.wait_notices(who.run, position, 1) == (position, set())
        assert kinds(index.acquire(who, keys(6))) == "HHHHHH"  # type: ignore[arg-type]
        world.claim(who, key(9))
        assert index.take(QUEUE, "w", "n", LEASE).claim.key == key(9)  # type: ignore[union-attr]
        assert index.compiling() == [key(9)]
