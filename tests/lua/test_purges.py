"""ask_purge, purge_queue, raise: a request is answered once, by a purge that began after it."""

from __future__ import annotations

import pytest

from farm.index.outcomes import Hit
from farm.index.upkeep import Asked, NoJob, Purged, Raised
from tests.lua.world import LEASE, World, key, keys, kinds, record_of


def test_an_ask_waits_for_the_leader_and_is_answered_once(world: World) -> None:
    held = world.idle(key(1))
    assert world.index.ask_purge("r") == Asked()
    world.resend_unchanged("ask_purge")
    assert world.index.purge_queue() == (1, 0)
    world.resend_unchanged("purge_queue")
    assert world.index.raise_to(2) == Raised(2, 1, 0)
    world.resend_unchanged("raise")
    assert world.index.ask_purge("r") == Purged(2)
    world.resend_unchanged("ask_purge", "purge_queue", "raise")
    assert world.index.purge_queue() == (0, 0)
    assert held[0].generation == 1
    who = world.join()
    assert kinds(world.index.acquire(who, [key(1)])) == "A"


def test_ten_requests_cost_one_purge_and_a_later_one_another(world: World) -> None:
    for n in range(10):
        world.index.ask_purge(f"r{n}")
    assert world.index.raise_to(2, limit=4) == Raised(2, 4, 1)
    world.index.ask_purge("late")
    assert world.index.purge_queue() == (7, 6)
    assert world.index.raise_to(2, limit=4) == Raised(2, 4, 1)
    assert world.index.raise_to(2, limit=4) == Raised(2, 2, 0)
    assert world.index.raise_to(2) == Raised(2, 0, 0)
    assert world.index.ask_purge("late") == Asked()
    assert {world.index.ask_purge(f"r{n}") for n in range(10)} == {Purged(2)}
    assert world.index.raise_to(3) == Raised(3, 1, 0)
    assert world.index.ask_purge("late") == Purged(3)
    assert world.snapshot().generation == 3
    assert world.redis.hget(f"{world.index.prefix}meta", "purges") == b"2"


def test_a_job_is_given_its_floor_and_a_notice_and_its_members_ask_together(world: World) -> None:
    who, other = world.join(), world.join(member="other")
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == Asked()
    assert world.index.ask_purge(other.run, other.job, other.incarnation) == Asked()
    assert world.index.purge_queue() == (1, 0)
    world.index.raise_to(2)
    assert world.snapshot().jobs["job"].floor == 2
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == Purged(2)
    assert world.redis.xlen(f"{world.index.prefix}n:{who.run}") == 1
    assert world.join(member="third").floor == 2
    world.resend_unchanged("raise")


def test_a_job_that_ended_is_forgotten_before_it_costs_a_purge(world: World) -> None:
    who = world.join()
    world.index.ask_purge(who.run, who.job, who.incarnation)
    world.index.leave(who)
    assert world.index.purge_queue() == (0, 0)
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == NoJob()
    new = world.join()
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == NoJob()
    assert world.index.purge_queue() == (0, 0)
    assert world.index.ask_purge(new.run, new.job, new.incarnation) == Asked()


def test_a_job_that_ends_between_queue_and_raise_is_not_answered(world: World) -> None:
    who = world.join()
    world.index.ask_purge(who.run, who.job, who.incarnation)
    world.index.purge_queue()
    world.index.leave(who)
    assert world.index.raise_to(2) == Raised(2, 1, 0)
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == NoJob()
    assert "job" not in world.snapshot().jobs


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_job_whose_request_was_forgotten_asks_again_when_a_member_brings_it_back(
    world: World, is_raised: bool
) -> None:
    """Its last member was away for longer than its lease."""
    who = world.join()
    world.index.ask_purge(who.run, who.job, who.incarnation)
    world.index.leave(who)
    assert world.index.raise_to(2) == Raised(2, 1, 0) if is_raised else world.index.purge_queue() == (0, 0)
    world.index.announce(who, [])
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == Asked()
    assert world.index.purge_queue() == (1, 0)
    world.index.raise_to(3)
    assert world.index.ask_purge(who.run, who.job, who.incarnation) == Purged(3)


def test_a_raise_that_comes_late_lowers_nothing_and_answers_nobody(world: World) -> None:
    world.index.ask_purge("first")
    world.index.raise_to(2)
    world.index.ask_purge("second")
    world.index.raise_to(3)
    world.index.ask_purge("third")
    late = world.index.raise_to(2)
    assert (late.generation, late.answered) == (3, 0)
    assert world.index.raise_to(3).answered == 0
    assert world.index.ask_purge("third") == Asked()


def test_who_was_promised_more_brings_it_back_without_answering_others(world: World) -> None:
    world.index.ask_purge("waits")
    world.index.open(4)
    assert world.index.purge_queue() == (1, 0)
    assert world.index.ask_purge("waits") == Asked()
    assert world.index.raise_to(5) == Raised(5, 1, 0)


def test_what_is_pinned_stays_its_jobs_until_it_ends(world: World) -> None:
    who = world.join()
    held = world.compiled(who, *keys(3))
    world.index.ask_purge("r")
    world.index.raise_to(2)
    assert world.index.drain() == 0
    answers = world.index.acquire(who, keys(3))
    assert isinstance(answers, list)
    assert [answer.generation for answer in answers if isinstance(answer, Hit)] == [1, 1, 1]
    other = world.join("other")
    assert kinds(world.index.acquire(other, keys(3))) == "AAA"
    world.end(who)
    snapshot = world.snapshot()
    assert len(snapshot.tombs) == 3
    assert not snapshot.entries
    assert held[0].generation == 1


def test_the_log_says_what_a_purge_did(world: World) -> None:
    world.idle(*keys(3))
    who = world.join()
    world.compiled(who, key(7))
    world.index.ask_purge("r")
    world.index.ask_purge("s")
    world.index.raise_to(2)
    ((_, row),) = world.redis.xrange(f"{world.index.prefix}purge_log")
    assert (row[b"generation"], row[b"removed"], row[b"kept"], row[b"requests"]) == (b"2", b"3", b"1", b"2")
    assert row[b"bytes"] == b"4000"


@pytest.mark.parametrize("asked", [1, 2])
def test_a_raise_costs_the_same_at_any_size(world: World, asked: int) -> None:
    costs = []
    for count in (1_000, 100_000):
        fill(world, count)
        for n in range(asked):
            world.index.ask_purge(f"{count} {n}")
        world.redis.config_resetstat()
        world.index.raise_to(world.index.generation() + 1)
        stats = world.redis.info("commandstats")
        costs.append({name: row["calls"] for name, row in stats.items() if name != "cmdstat_info"})
        assert sum(row["usec"] for name, row in stats.items() if "eval" in name) < 20_000
        world.redis.flushall()
        world.index.open(1)
    assert costs[0].items() - costs[1].items() <= {("cmdstat_script|load", 1)}
    assert sum(costs[1].values()) < 40


def fill(world: World, count: int, generation: int = 1) -> None:
    """Idle entries, written directly."""
    world.watched = False
    prefix = world.index.prefix
    some = [b"%032d" % n for n in range(count)]
    record = record_of(1).pack()
    for at in range(0, count, 10_000):
        world.redis.hset(f"{prefix}e:{generation}", mapping=dict.fromkeys(some[at : at + 10_000], record))
        world.redis.zadd(f"{prefix}idle:{generation}", dict.fromkeys(some[at : at + 10_000], 5))
    world.redis.zadd(f"{prefix}generations", {str(generation): generation})
    world.redis.hset(f"{prefix}meta", "bytes", count * 1000)


def test_an_answer_outlives_the_leader_not_the_hour(world: World) -> None:
    world.index.ask_purge("r")
    world.index.raise_to(2)
    assert 3_500_000 < world.redis.pttl(f"{world.index.prefix}asked:r") <= 3_600_000
    assert LEASE < 3_500_000
