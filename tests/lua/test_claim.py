"""claim, wake: who compiles what is absent, and the messages for it."""

from __future__ import annotations

from dataclasses import replace

from farm.index.outcomes import Failure, Requeued, UnknownJob
from tests.lua.world import QUEUE, RULES, World, key, keys, kinds


def test_a_claim_is_queued_once_and_the_same_call_answers_the_same(world: World) -> None:
    who = world.join()
    assert kinds(world.claim(who, *keys(6))) == "CCCCCC"
    world.resend_unchanged("claim")
    with world.unchanged():
        assert kinds(world.claim(who, *keys(6))) == "CCCCCC"
    assert kinds(world.claim(who, *keys(6), nonce="another call")) == "JJJJJJ"
    taken = world.take("t")
    assert taken.request == b"request of " + taken.claim.key
    world.resend_unchanged("claim")


def test_claims_of_two_jobs_are_one_compile(world: World) -> None:
    first, second = world.join("first"), world.join("second")
    assert kinds(world.claim(first, key(1))) == "C"
    assert kinds(world.claim(second, key(1), key(2), nonce="n2")) == "JC"
    assert world.pins(key(1), key(2)) == [2, 1]
    world.resend_unchanged("claim")
    for n in range(2):
        world.publish(world.take(f"t{n}"))
    assert kinds(world.claim(second, key(1), key(2), nonce="n2")) == "HH"
    world.resend_unchanged("claim")
    world.drain()
    assert world.told(first) == {key(1)}
    assert world.told(second) == {key(1), key(2)}


def test_a_key_twice_in_one_call_is_one_claim(world: World) -> None:
    who = world.join()
    assert kinds(world.claim(who, key(1), key(2), key(1))) == "CCC"
    assert world.pins(key(1), key(2)) == [1, 1]
    world.end(who)
    assert world.pins(key(1), key(2)) == [0, 0]


def test_a_claim_that_comes_late_claims_nothing_that_is_there(world: World) -> None:
    who = world.join()
    world.compiled(who, key(1))
    world.resend_unchanged("claim")
    world.claim(who, key(2))
    world.index.fail(world.take("t").claim, Failure("rejected", "no"), RULES)
    assert kinds(world.index.acquire(who, [key(2)])) == "R"  # type: ignore[arg-type]
    world.resend_unchanged("claim")
    world.end(who)
    with world.unchanged():
        assert world.resend("claim") == [b"unknown"]
        assert world.index.claim(who, [], "n") == []
    world.join()
    with world.unchanged():
        assert world.resend("claim") == [b"unknown"]


def test_a_dropped_entry_is_claimed_again_in_its_own_generation(world: World) -> None:
    keeper, forcing = world.join("keeper"), world.join("forcing")
    (held,) = world.compiled(keeper, key(1))
    world.index.acquire(replace(forcing, floor=2), [key(1)])
    world.index.drop(1, key(1), held.record.token)
    assert kinds(world.claim(keeper, key(1), nonce="again")) == "C"
    assert kinds(world.claim(replace(forcing, floor=2), key(1), nonce="force")) == "C"
    assert {ref[0] for ref in world.snapshot().claims} == {1, 2}
    assert world.pins(key(1)) == [1]


def test_the_last_to_leave_takes_a_queued_claim_along(world: World) -> None:
    first, second = world.join("first"), world.join("second")
    world.claim(first, *keys(6))
    world.claim(second, key(1), nonce="n2")
    world.end(first)
    assert [ref[1] for ref in world.snapshot().claims] == [key(1)]
    world.end(second)
    assert not world.snapshot().claims
    assert not world.snapshot().queues


def test_a_running_claim_finishes_for_the_cache_when_all_have_left(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    taken = world.take("t")
    world.end(who)
    assert world.index.renew([taken.claim], 1000) == ["kept"]
    world.publish(taken)
    assert set(world.snapshot().idle) == {(1, key(1))}


def test_a_cancelled_compile_is_stopped_if_nobody_else_wants_it(world: World) -> None:
    first, second = world.join("first"), world.join("second")
    world.claim(first, key(1), key(2))
    world.claim(second, key(2), nonce="n2")
    running = {each.claim.key: each.claim for each in (world.take("t1"), world.take("t2"))}
    world.index.leave(first, "cancel")
    world.drain()
    world.resend_unchanged("bury", "leave")
    assert world.index.renew([running[key(1)], running[key(2)]], 1000) == ["unwanted", "kept"]
    world.resend_unchanged("renew")
    # Somebody comes before the worker has stopped it: wanted again, and not an attempt.
    third = world.join("third")
    assert kinds(world.index.acquire(third, [key(1)])) == "J"  # type: ignore[arg-type]
    assert world.index.renew([running[key(1)]], 1000) == ["kept"]
    assert world.index.fail(running[key(1)], Failure("cancelled", ""), RULES) == Requeued(QUEUE)
    world.resend_unchanged("fail")
    assert world.take("t3").attempt == 1


def test_wake_sends_what_waits_at_most_once_a_while(world: World) -> None:
    who = world.join()
    assert world.index.wake(QUEUE, 4) == 0
    world.claim(who, *keys(6))
    assert world.index.wake(QUEUE, 4) == 4
    world.resend_unchanged("wake")
    assert world.index.wake(QUEUE, 4) == 0
    world.pass_time(10_000)
    for n in range(4):
        world.take(f"t{n}")
    assert world.index.wake(QUEUE, 4) == 2
    world.resend_unchanged("wake")


def test_a_key_that_is_named_twice_is_one_claim_and_takes_one_turn(world: World) -> None:
    first, second = world.join("first"), world.join("second")
    assert kinds(world.claim(first, key(1), key(1), key(1), key(2))) == "CCCC"
    world.claim(second, key(3), key(4))
    turns = [world.take(f"t{n}").claim.key for n in range(4)]
    assert {*turns[:2]} == {key(1), key(3)}
    assert {*turns[2:]} == {key(2), key(4)}
    assert world.rows()[b"meta"][b"misses"] == b"4"


def test_a_claim_of_a_job_that_is_gone_is_unknown(world: World) -> None:
    who = replace(world.join(), incarnation=1)
    with world.unchanged():
        assert isinstance(world.index.acquire(who, keys(2)), UnknownJob)
        assert world.scripts.run("claim", who.job, 1, "m", 1000, 0, "n", key(1), b"r", QUEUE) == [b"unknown"]


def test_what_is_counted(world: World) -> None:
    first, second = world.join("first"), world.join("second")
    world.claim(first, *keys(4))
    world.index.acquire(second, keys(4))
    for n in range(3):
        world.publish(world.take(f"t{n}"))
    third = world.join("third")
    for who in (first, second, third, third):
        world.index.acquire(who, keys(4))
    meta = world.rows()[b"meta"]
    counted = {name: int(meta[name.encode()]) for name in ("misses", "joins", "hits", "compiles")}
    assert counted == {"misses": 4, "joins": 5, "hits": 3, "compiles": 3}
