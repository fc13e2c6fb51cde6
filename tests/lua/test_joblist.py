"""What reports read of jobs: which live, who their members are, how far their keys are; bounded."""

from __future__ import annotations

from dataclasses import replace

from farm.index.joblist import (
    Awaited,
    asked_keys,
    awaited,
    claim_queues,
    find_jobs,
    key_states,
    live_jobs,
    member_leases,
)
from farm.index.outcomes import Failure
from tests.lua.world import LEASE, QUEUE, RULES, World, key, keys


def test_live_jobs_come_in_pages_with_the_last_heard_of_first(world: World) -> None:
    for n in range(5):
        world.join(f"job {n}")
        world.pass_time(1000)
    assert live_jobs(world.index, 10) == [f"job {n}" for n in (4, 3, 2, 1, 0)]
    assert live_jobs(world.index, 2) == ["job 4", "job 3"]
    world.pass_time(LEASE - 3000)
    assert live_jobs(world.index, 10) == ["job 4", "job 3"]
    world.index.hold(LEASE, LEASE)
    assert len(live_jobs(world.index, 10)) == 5, "nobody has lapsed while members could not say that they live"


def test_a_row_says_what_a_job_is(world: World) -> None:
    who = world.join("a@b", priority=0)
    world.join("a@b", member="m2")
    world.index.choose(who, "host", "a" * 64)
    world.claim(who, key(1))
    found = find_jobs(world.index, ["a@b", "no such job"])
    assert list(found) == ["a@b"]
    row = found["a@b"]
    assert (row.run, row.mode, row.priority, row.owner, row.keys) == (who.run, "enable", 0, b"{}", 1)
    assert (row.members, row.lease_left_ms, row.toolchains) == (2, LEASE, {"host": "a" * 64})
    assert find_jobs(world.index, []) == {}
    world.pass_time(LEASE)
    lapsed = find_jobs(world.index, ["a@b"])["a@b"]
    assert (lapsed.members, lapsed.lease_left_ms) == (0, 0)


def test_members_are_shown_with_what_is_left_of_their_leases(world: World) -> None:
    for n in range(4):
        who = world.join(member=f"rank {n}")
        world.pass_time(10)
    assert member_leases(world.index, who.job, 2) == {"rank 3": LEASE - 10, "rank 2": LEASE - 20}
    world.pass_time(LEASE - 20)
    assert member_leases(world.index, who.job, 10) == {"rank 3": 10}


def test_keys_are_counted_by_their_state(world: World) -> None:
    who, other = world.join(), world.join("other")
    held = world.compiled(who, key(0), key(1))
    world.index.drop(1, key(1), held[1].record.token)
    world.claim(who, key(2), key(3), key(4), key(5))
    failing = [world.take(f"t{n}").claim for n in range(3)]
    for claim in failing[:2]:
        world.index.fail(claim, Failure("rejected", "no such type"), RULES)
    world.index.acquire(who, [failing[0].key])
    world.claim(other, key(9))
    states = key_states(world.index, who.run, 100)
    assert states.counts == {"present": 1, "absent": 1, "failed": 2, "running": 1, "queued": 1}
    assert (states.total, states.looked_at) == (6, 6)
    assert sorted(states.failures) == sorted((claim.key, Failure("rejected", "no such type")) for claim in failing[:2])
    assert set(asked_keys(world.index, who.run)) == set(keys(6))
    assert claim_queues(world.index, [(1, failing[2].key), (1, key(0))]) == [QUEUE, None]


def test_what_a_job_waits_for_is_shown_with_who_claimed_it_first(world: World) -> None:
    first, joins = world.join("first"), world.join("joins")
    world.compiled(joins, key(0))
    world.claim(first, key(1))
    world.claim(joins, key(1), key(2), nonce="n2")
    waits = awaited(world.index, joins.run, keys(4))
    assert waits == {key(1): Awaited(1, "first", QUEUE), key(2): Awaited(1, "joins", QUEUE)}


def test_a_look_at_a_large_job_is_bounded(world: World) -> None:
    world.watched = False
    who = world.join()
    rows = {key(n): "1f0rejected\nno\0log" for n in range(10, 3010)}
    world.redis.hset(f"{world.index.prefix}map:{who.run}", mapping=rows)
    states = key_states(world.index, who.run, 1000)
    assert (states.total, states.looked_at, states.counts) == (3000, 1000, {"failed": 1000})
    assert len(states.failures) == 20
    assert key_states(world.index, replace(who, incarnation=1).run, 1000).total == 0
