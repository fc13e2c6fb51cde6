"""fail, reclaim: attempts that end without an entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from farm.index.outcomes import Failed, Failure, Lost, Refused, Removed, Requeued
from tests.lua.world import CLAIM_LEASE, QUEUE, RULES, World, key, keys, kinds


def refused(world: World, who, k: bytes) -> Refused:  # type: ignore[no-untyped-def]
    (answer,) = world.index.acquire(who, [k])  # type: ignore[misc]
    assert isinstance(answer, Refused)
    return answer


def test_a_rejection_is_final_told_and_remembered_for_a_while(world: World) -> None:
    who, other = world.join(), world.join("other")
    world.claim(who, key(4))
    world.index.acquire(other, [key(4)])
    taken = world.take("t")
    said = Failure("rejected", "add.cpp:3: error: no", "line\nline\n")
    assert world.index.fail(taken.claim, said, RULES) == Failed()
    with world.unchanged():
        assert world.index.fail(taken.claim, said, RULES) == Lost()
    world.drain()
    assert world.told(who) == world.told(other) == {key(4)}
    assert refused(world, who, key(4)) == Refused(said, remembered=False)
    world.resend_unchanged("fail", "acquire")
    later = world.join("later")
    assert refused(world, later, key(4)) == Refused(said, remembered=True)
    world.pass_time(RULES.remember_ms)
    late = world.join("after it is forgotten")
    assert kinds(world.claim(late, key(4), nonce="again")) == "C"
    with world.unchanged():
        assert world.index.fail(taken.claim, said, RULES) == Lost()
    assert refused(world, later, key(4)) == Refused(said, remembered=True)


def test_who_was_told_of_a_failure_has_it_as_answer_however_late_it_asks(world: World) -> None:
    who, joined = world.join(), world.join("joined")
    world.claim(who, key(4))
    said = Failure("rejected", "no")
    world.index.fail(world.take("t").claim, said, RULES)
    again = world.join("again")
    world.index.acquire(joined, [key(4)])
    world.drain()
    world.lose(b"f")  # as time itself does
    world.check()
    for each in (who, joined):
        assert refused(world, each, key(4)).failure == said
    assert kinds(world.claim(again, key(4), nonce="n")) == "C"


def test_who_joined_another_compile_before_he_was_told_is_answered_by_that(world: World) -> None:
    who = world.join()
    world.claim(who, key(4))
    world.index.fail(world.take("t").claim, Failure("rejected", "no"), RULES, remember=False)
    assert kinds(world.claim(world.join("other"), key(4), nonce="n")) == "C"
    assert kinds(world.claim(who, key(4), nonce="n2")) == "J"
    world.drain()
    world.publish(world.take("t2"))
    assert kinds(world.claim(who, key(4), nonce="n3")) == "H"


def test_a_purge_forgets_rejections_for_who_asks_later(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    world.index.fail(world.take("t").claim, Failure("rejected", "no"), RULES)
    world.index.raise_to(2)
    assert refused(world, who, key(1)).failure.message == "no"  # this job's answer for as long as it lives
    later = world.join("later")
    assert kinds(world.index.acquire(later, [key(1)])) == "A"  # type: ignore[arg-type]
    assert kinds(world.claim(later, key(1))) == "C"


def test_three_attempts_and_what_happened_each_time(world: World) -> None:
    who = world.join()
    world.claim(who, key(3))
    for n, worker in enumerate(("host-a:1", "host-b:2", "host-c:3"), 1):
        taken = world.take(f"t{n}", worker=worker)
        assert taken.attempt == n
        failure = Failure("transient", f"killed by signal {n}\nsecond line", f"log {n}")
        assert world.index.fail(taken.claim, failure, RULES) == (Requeued(QUEUE) if n < 3 else Failed())
        with world.unchanged():
            assert world.resend("fail") == [b"lost"]
    world.drain()
    told = refused(world, who, key(3))
    assert not told.remembered
    assert told.failure == Failure(
        "transient",
        "failed after 3 attempts\n"
        "attempt 1 on host-a:1: killed by signal 1\nsecond line\n"
        "attempt 2 on host-b:2: killed by signal 2\nsecond line\n"
        "attempt 3 on host-c:3: killed by signal 3\nsecond line",
        "log 3",
    )
    assert kinds(world.claim(world.join("others may try"), key(3), nonce="n2")) == "C"
    assert world.take("fresh").attempt == 1


def test_a_lost_worker_is_an_attempt_and_its_claim_goes_ahead_of_others(world: World) -> None:
    who = world.join()
    world.claim(who, *keys(6))
    lost = world.take("dies", worker="host-a:1")
    world.pass_time(CLAIM_LEASE - 1)
    assert world.index.reclaim(RULES) == []
    world.resend_unchanged("reclaim")
    world.pass_time(1)
    assert world.index.reclaim(RULES) == [QUEUE]
    world.resend_unchanged("reclaim")
    again = world.take("again", worker="host-b:2")
    assert again.claim.key == lost.claim.key
    assert again.claim.token > lost.claim.token
    assert again.attempt == 2
    world.resend_unchanged("reclaim")
    for n in range(2):
        world.pass_time(CLAIM_LEASE)
        assert world.index.reclaim(RULES) == [QUEUE] * (1 - n)
        if n == 0:
            world.take("third", worker="host-c:3")
    world.resend_unchanged("reclaim")
    lines = refused(world, who, lost.claim.key).failure.message.splitlines()
    assert lines[1:] == [
        f"attempt {n} on {worker}: worker lost, its lease ended"
        for n, worker in enumerate(("host-a:1", "host-b:2", "host-c:3"), 1)
    ]


def test_a_failure_stands_while_others_compile_the_key_again(world: World) -> None:
    failed, other = world.join("failed"), world.join("other")
    world.claim(failed, key(1))
    world.index.fail(world.take("d1").claim, Failure("rejected", "why"), RULES, remember=False)
    assert kinds(world.claim(failed, key(1))) == "R"
    assert kinds(world.claim(other, key(1))) == "C"
    assert kinds(world.claim(failed, key(1))) == "R"


def test_a_released_claim_is_no_attempt(world: World) -> None:
    world.claim(world.join(), key(1), key(2))
    first = world.take("t1")
    assert world.index.release(first.claim) == Requeued(QUEUE)
    with world.unchanged():
        assert world.index.release(first.claim) == Lost()
    again = world.take("t2")
    assert (again.claim.key, again.attempt) == (first.claim.key, 1)
    world.resend_unchanged("fail")


def test_what_nobody_wants_any_more_is_not_queued_again(world: World) -> None:
    ends: tuple[Literal["transient", "cancelled", "released", "reclaimed"], ...]
    ends = ("transient", "cancelled", "released", "reclaimed")
    for end in ends:
        who = world.join(f"job {end}")
        world.claim(who, key(end))
        taken = world.take(end)
        world.end(who)
        if end == "reclaimed":
            world.pass_time(CLAIM_LEASE)
            assert world.index.reclaim(RULES) == []
        elif end == "released":
            assert world.index.release(taken.claim) == Removed()
        else:
            assert world.index.fail(taken.claim, Failure(end, ""), RULES) == Removed()
        assert not world.snapshot().claims
        world.resend_unchanged("reclaim" if end == "reclaimed" else "fail")


def test_a_cancelled_compile_that_somebody_joined_is_queued_again_and_not_an_attempt(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    taken = world.take("t")
    world.index.leave(who, "cancel")
    world.drain()
    assert world.index.renew([taken.claim], CLAIM_LEASE) == ["unwanted"]
    joiner = world.join("joiner")
    world.index.acquire(joiner, [key(1)])
    assert world.index.fail(taken.claim, Failure("cancelled", ""), RULES) == Requeued(QUEUE)
    world.resend_unchanged("fail")
    again = world.take("again")
    assert again.attempt == 1
    assert world.index.renew([again.claim], CLAIM_LEASE) == ["kept"]
    world.publish(again)
    world.drain()
    assert world.told(joiner) == {key(1)}


def test_a_deadline_without_a_claim_is_cleared_away(world: World) -> None:
    world.claim(world.join(), *keys(2))
    world.take("t1")
    world.watched = False
    world.lose(b"c")
    world.pass_time(CLAIM_LEASE)
    assert world.index.reclaim(RULES) == []
    assert not world.snapshot().running


def test_reclaim_is_bounded(world: World) -> None:
    world.claim(world.join(), *keys(9))
    for n in range(9):
        world.take(f"t{n}")
    world.pass_time(CLAIM_LEASE)
    assert [len(world.index.reclaim(RULES, limit=4)) for _ in range(4)] == [4, 4, 1, 0]


def test_a_failure_is_kept_as_long_as_it_is_remembered_or_a_waiter_may_be_away(world: World) -> None:
    world.claim(world.join(), key(1), key(2))
    for n, remember in enumerate((True, False)):
        taken = world.take(f"t{n}")
        world.index.fail(taken.claim, Failure("rejected", "no"), RULES, remember=remember)
        left_ms = world.redis.pttl(f"{world.index.prefix}f:1:".encode() + taken.claim.key)
        kept_ms = RULES.remember_ms if remember else RULES.keep_ms
        assert kept_ms - 60_000 < left_ms <= kept_ms


def test_who_has_the_key_of_a_later_generation_by_now_is_not_refused_it(world: World) -> None:
    """It was promised that generation before it was told."""
    who = world.join()
    world.claim(who, key(1))
    world.index.fail(world.take("d1").claim, Failure("rejected", "why"), RULES)
    promised = replace(who, floor=2)
    world.claim(promised, key(1), nonce="n2")
    world.drain()
    assert kinds(world.index.acquire(promised, [key(1)])) == "J"
    assert world.pins(key(1), generation=2) == [1]
