"""announce: what the index lost, its users bring back."""

from __future__ import annotations

from farm.index.jobs import Holding
from farm.index.outcomes import Failure, Hit, Lost, NotOpen, UnknownJob
from tests.lua.world import CLAIM_LEASE, RULES, World, key, keys, kinds, record_of


def test_after_a_flush_every_member_brings_back_what_it_holds(world: World) -> None:
    who, other = world.join(), world.join(member="m2")
    held = world.compiled(who, *keys(6))
    world.lose_everything()
    assert world.index.heartbeat(who) == UnknownJob()
    assert world.index.announce(who, held[:4]) == [each.record for each in held[:4]]
    world.resend_unchanged("announce")
    assert world.index.announce(other, held[2:]) == [each.record for each in held[2:]]
    world.resend_unchanged("announce")
    assert world.pins(*keys(6)) == [1] * 6
    assert world.index.acquire(who, keys(6)) == [Hit(1, each.record.pack()) for each in held]
    world.resend_unchanged("announce")
    assert world.join().incarnation == who.incarnation


def test_without_holdings_the_membership_alone_comes_back(world: World) -> None:
    who = world.join()
    world.lose_everything()
    assert world.index.announce(who, []) == []
    world.resend_unchanged("announce")
    assert kinds(world.claim(who, key(1))) == "C"
    world.resend_unchanged("announce")


def test_nothing_is_brought_back_into_a_namespace_that_is_not_open(world: World) -> None:
    who = world.join()
    held = world.compiled(who, key(1))
    world.redis.flushall()
    assert world.index.announce(who, held) == NotOpen()
    assert world.rows() == {}


def test_after_a_partial_loss_only_what_is_missing_comes_back(world: World) -> None:
    """A failover lost the last second: one interest, one publish, whose claim is back."""
    who, other = world.join(), world.join("other")
    held = world.compiled(other, key(0), key(1))
    world.claim(who, key(2))
    taken = world.take("t")
    world.index.acquire(other, [key(2)])
    mine = [*held, Holding(1, key(2), record_of(taken.claim.token))]
    assert world.index.announce(who, mine) == [each.record for each in mine]
    world.resend_unchanged("announce")
    assert world.pins(*keys(3)) == [2, 2, 2]
    assert world.index.renew([taken.claim], CLAIM_LEASE) == ["lost"]
    world.drain()
    assert key(2) in world.told(other)


def test_a_live_claim_is_over_when_somebody_has_the_bundle(world: World) -> None:
    holder = world.join("holder")
    held = world.compiled(holder, *keys(2))
    world.lose_everything()
    waiting = world.join("waiting")
    world.claim(waiting, *keys(2))
    taken = world.take("t")
    world.index.announce(holder, held)
    assert not world.snapshot().claims
    world.resend_unchanged("announce")
    assert world.index.publish(taken.claim, record_of(taken.claim.token)) == Lost()
    world.resend_unchanged("announce")
    world.drain()
    assert world.told(waiting) == set(keys(2))
    assert world.index.acquire(waiting, keys(2)) == [Hit(1, each.record.pack()) for each in held]


def test_the_waiters_of_a_claim_that_ended_twice_before_they_were_told(world: World) -> None:
    """A queued claim has no token: the waiters of the first end must not be forgotten at the second."""
    one, another = world.join("one"), world.join("another")
    (held,) = world.compiled(one, key(1))
    world.lose_everything()
    (other,) = world.compiled(world.join("another"), key(1))
    world.lose_everything()
    first, second = world.join("first"), world.join("second")
    world.claim(first, key(1), nonce="first")
    world.index.announce(one, [held])
    world.index.drop(1, key(1), held.record.token)
    world.claim(second, key(1), nonce="second")
    assert world.index.announce(another, [other]) == [other.record]
    world.drain()
    assert world.told(first) == world.told(second) == {key(1)}


def test_a_tombstone_is_taken_back(world: World) -> None:
    who = world.join()
    held = world.compiled(who, key(1))
    world.end(who)
    world.index.evict(0, 0)
    assert len(world.snapshot().tombs) == 1
    assert world.index.announce(who, held) == [held[0].record]
    assert not world.snapshot().tombs
    world.resend_unchanged("announce")


def test_a_tombstone_whose_object_is_being_deleted_is_not_taken_back(world: World) -> None:
    who = world.join()
    held = world.compiled(who, key(1), key(2))
    world.end(who)
    world.index.evict(0, 0)
    world.pass_time(1000)
    deleting = world.index.mark_deleting(grace_ms=1000, limit=1)
    answers = world.index.announce(who, held)
    assert sorted(answer is None for answer in answers) == [False, True]  # type: ignore[union-attr]
    world.resend_unchanged("announce")
    (gone,) = [each.key for each, answer in zip(held, answers, strict=True) if answer is None]  # type: ignore[arg-type]
    world.watched = False
    world.index.swept(deleting)
    world.watched = True
    assert kinds(world.claim(who, gone, nonce="again")) == "C"


def test_what_a_reader_found_bad_nobody_brings_back(world: World) -> None:
    """A member that was silent for a while has not heard of it; what is compiled instead goes on."""
    reader, silent = world.join("reader"), world.join("silent")
    (bad,) = world.compiled(silent, key(1))
    world.index.acquire(reader, [key(1)])
    world.index.drop(1, key(1), bad.record.token)
    world.claim(reader, key(1), nonce="again")
    taken = world.take("again")
    assert world.index.announce(silent, [bad]) == [None]
    world.resend_unchanged("announce")
    assert kinds(world.index.acquire(silent, [key(1)])) == "J"
    good = world.publish(taken)
    assert world.index.announce(silent, [bad]) == [good]
    world.end(reader)
    world.end(silent)
    assert not world.snapshot().dropped


def test_where_another_bundle_is_current_the_caller_switches_to_it(world: World) -> None:
    holder, other = world.join("holder"), world.join("other")
    (held,) = world.compiled(holder, key(1))
    world.lose_everything()
    (current,) = world.compiled(world.join("other"), key(1))
    assert current.record != held.record
    assert world.index.announce(holder, [held]) == [current.record]
    world.resend_unchanged("announce")
    assert world.pins(key(1)) == [2]
    assert world.index.heartbeat(other) == UnknownJob()


def test_an_idle_entry_is_pinned_again(world: World) -> None:
    held = world.idle(*keys(3))
    who = world.join()
    world.index.announce(who, held)
    world.resend_unchanged("announce")
    assert not world.snapshot().idle


def test_an_adopted_bundle_ends_an_old_failure(world: World) -> None:
    """Else a reader that drops it would be told of a failure from before it."""
    holder = world.join("holder")
    (held,) = world.compiled(holder, key(1))
    world.lose_everything()
    world.claim(world.join("failed"), key(1))
    world.index.fail(world.take("t").claim, Failure("rejected", "no"), RULES)
    world.index.announce(holder, [held])
    world.index.drop(1, key(1), held.record.token)
    assert kinds(world.index.acquire(holder, [key(1)])) == "A"  # type: ignore[arg-type]


def test_a_failed_answer_gives_way_to_a_bundle(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    world.index.fail(world.take("t").claim, Failure("rejected", "no"), RULES)
    world.index.acquire(who, [key(1)])
    held = Holding(1, key(1), record_of(7))
    assert world.index.announce(who, [held]) == [held.record]
    world.resend_unchanged("announce")
    assert world.pins(key(1)) == [1]
