"""The fair order of a queue: jobs take turns, urgent ones go first, what is queued again goes ahead."""

from __future__ import annotations

import pytest

from farm.index.outcomes import Failure
from tests.lua.world import CLAIM_LEASE, QUEUE, RULES, World, key


@pytest.fixture
def crowded(world: World) -> World:
    """One job has 5,000 claims queued, 100 of its compiles are done."""
    world.watched = False
    world.claim(world.join("large"), *(key(n) for n in range(5000)))
    for n in range(100):
        world.publish(world.take(f"early {n}"))
    return world


def takes(world: World, count: int) -> list[bytes]:
    return [world.take(f"take {len(world.scripts.sent)}").claim.key for _ in range(count)]


def test_five_claims_are_among_the_next_ten_although_thousands_wait(crowded: World) -> None:
    small = [key(f"small {n}") for n in range(5)]
    crowded.claim(crowded.join("small"), *small)
    assert set(small) <= set(takes(crowded, 10))
    crowded.watched = True
    crowded.check()


def test_three_jobs_take_turns(crowded: World) -> None:
    second, third = ([key(f"{name} {n}") for n in range(10)] for name in ("second", "third"))
    crowded.claim(crowded.join("second"), *second)
    crowded.claim(crowded.join("third"), *third)
    for _ in range(10):
        turn = takes(crowded, 3)
        assert len(set(turn) & set(second)) == len(set(turn) & set(third)) == 1


def test_what_goes_ahead_of_all_does_not_turn_time_back(world: World) -> None:
    first = [key(n) for n in range(20)]
    world.claim(world.join("first"), *first)
    for n in range(9):
        world.publish(world.take(f"early {n}"))
    world.index.release(world.take("released").claim)
    takes(world, 1)
    second = [key(f"second {n}") for n in range(5)]
    world.claim(world.join("second"), *second)
    assert len(set(takes(world, 4)) & set(second)) == 2


def test_a_job_that_comes_back_has_saved_nothing_up(crowded: World) -> None:
    small = crowded.join("small")
    crowded.claim(small, key("early bird"))
    takes(crowded, 1000)
    more = [key(f"more {n}") for n in range(100)]
    crowded.claim(small, *more)
    assert 10 <= len(set(takes(crowded, 30)) & set(more)) <= 20


def test_urgent_is_next_and_bulk_is_last(crowded: World) -> None:
    bulk, urgent = ([key(f"{name} {n}") for n in range(3)] for name in ("bulk", "urgent"))
    crowded.claim(crowded.join("bulk", priority=2), *bulk)
    crowded.claim(crowded.join("urgent", priority=0), *urgent)
    assert set(takes(crowded, 3)) == set(urgent)
    assert not set(takes(crowded, 4900)) & set(bulk)
    assert set(takes(crowded, 3)) == set(bulk)


def test_what_is_queued_again_goes_ahead_of_its_class_but_not_of_an_urgent_one(crowded: World) -> None:
    failed, lost = crowded.take("fails"), crowded.take("is lost")
    crowded.index.fail(failed.claim, Failure("transient", "out of memory"), RULES)
    crowded.pass_time(CLAIM_LEASE)
    assert crowded.index.reclaim(RULES, limit=1000) == [QUEUE]
    urgent = key("urgent")
    crowded.claim(crowded.join("urgent", priority=0), urgent)
    order = takes(crowded, 4)
    assert order[0] == urgent
    assert set(order[1:3]) == {failed.claim.key, lost.claim.key}
    crowded.watched = True
    crowded.check()


def test_queues_of_two_toolchains_do_not_count_against_each_other(crowded: World) -> None:
    other = "compile.cuda.0123456789ab"
    crowded.claim(crowded.join("small"), *(key(f"cuda {n}") for n in range(5)), queue=other)
    assert [crowded.take(f"o{n}", queue=other).claim.key for n in range(5)]
    assert crowded.index.wake(QUEUE, 10_000) == 4900
    assert crowded.index.wake(other, 10_000) == 0
