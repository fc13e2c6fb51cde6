"""announce, when the job has gone on, or ended, without the caller: incarnations, floors, graves."""

from __future__ import annotations

from dataclasses import replace

from farm.index.jobs import Holding
from farm.index.outcomes import Failure, UnknownJob
from tests.lua.world import CLAIM_LEASE, LEASE, QUEUE, RULES, World, key, keys, record_of


def test_the_id_lives_on_as_another_incarnation(world: World) -> None:
    who = world.join()
    held = world.compiled(who, key(1))
    world.end(who)
    new = world.join()
    with world.unchanged():
        assert world.index.announce(who, held) == UnknownJob(new.incarnation)
        world.resend("announce")


def test_a_member_that_was_away_too_long_brings_its_job_back_to_life(world: World) -> None:
    """Its job has ended and is being buried; what is buried and what is held again are counted once."""
    who = world.join()
    held = world.compiled(who, *keys(6))
    world.claim(who, key(9))
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 1
    world.index.bury(limit=2)
    world.index.announce(who, held)
    world.resend_unchanged("announce")
    world.index.acquire(who, keys(6))
    assert world.pins(*keys(6)) == [1] * 6
    taken = world.index.take(QUEUE, "w", "t", CLAIM_LEASE)
    world.end(who)
    assert world.pins(*keys(6), key(9)) == [0] * 7
    assert not world.snapshot().graves
    assert taken


def test_an_announcement_that_comes_after_the_end_pins_for_one_lease_only(world: World) -> None:
    who = world.join()
    held = world.compiled(who, *keys(3))
    world.index.announce(who, held)
    world.index.leave(who)
    world.index.bury(limit=1)
    world.resend("announce")
    assert world.pins(*keys(3)) == [1, 1, 1]
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 1
    world.drain()
    assert world.pins(*keys(3)) == [0, 0, 0]


def test_a_raise_that_a_failover_lost_comes_back(world: World) -> None:
    who = world.join()
    held = Holding(3, key(1), record_of(7))
    assert world.index.announce(replace(who, floor=2), [held]) == [held.record]
    assert world.snapshot().generation == 3
    world.resend_unchanged("announce")
    world.end(who)
    assert set(world.snapshot().idle) == {(3, key(1))}


def test_an_older_holding_takes_nothing_from_what_the_job_has_since(world: World) -> None:
    """One member asked again after the loss and waits for a newer generation; another still holds the old."""
    who, other = world.join(), world.join(member="m2")
    held = world.compiled(who, *keys(2))
    world.lose_everything()
    world.index.announce(other, [])
    world.claim(replace(other, floor=2), key(0), key(1))
    assert world.index.announce(who, held) == [None, None]
    world.resend_unchanged("announce")
    assert len(world.snapshot().claims) == 2
    world.publish(world.take("t"))
    world.drain()
    assert len(world.told(other)) == 1
    world.resend_unchanged("announce")


def test_nothing_comes_back_from_below_the_floor(world: World) -> None:
    who = world.join()
    held = Holding(1, key(1), record_of(7))
    assert world.index.announce(replace(who, floor=2), [held]) == [None]
    assert world.snapshot().generation == 2
    assert not world.snapshot().entries
    world.resend_unchanged("announce")


def test_a_newer_holding_takes_the_place_of_what_the_job_had(world: World) -> None:
    who = world.join()
    world.compiled(who, key(1))
    newer = Holding(2, key(1), record_of(7))
    assert world.index.announce(who, [newer]) == [newer.record]
    world.resend_unchanged("announce")
    assert world.pins(key(1)) == [0]
    assert world.pins(key(1), generation=2) == [1]


def test_what_a_member_holds_is_pinned_although_the_job_was_refused_it_later(world: World) -> None:
    """After a loss another member asked first, in a later generation; the first still uses what it has."""
    first, second = world.join(member="first"), world.join(member="second")
    held = world.compiled(first, key(1))
    world.lose_everything()
    world.index.raise_to(2)
    second = world.join(member="second")
    world.claim(second, key(1))
    world.index.fail(world.take("d").claim, Failure("rejected", "why"), RULES)
    world.index.acquire(second, [key(1)])
    first = replace(first, incarnation=second.incarnation)
    assert world.index.announce(first, held) == [held[0].record]
    assert world.pins(key(1)) == [1]
