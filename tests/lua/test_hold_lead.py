"""hold: nobody is judged by a deadline that he could not meet. lead: one leader at a time, each with its term."""

from __future__ import annotations

from farm.index.claims import RetryRules
from farm.index.leader import Leader, Leadership
from farm.index.outcomes import Ended, Left
from farm.namespace import BundleId
from tests.lua.world import CLAIM_LEASE, LEASE, T0, World, key


def test_a_hold_is_only_prolonged(world: World) -> None:
    assert world.index.hold(CLAIM_LEASE, LEASE) == T0 + LEASE
    world.resend_unchanged("hold")
    assert world.index.hold(10, 10) == T0 + LEASE
    world.pass_time(LEASE)
    world.resend("hold")
    assert world.index.held_until_ms() == T0 + LEASE + 10


def test_a_held_claim_is_not_taken_from_its_worker(world: World) -> None:
    world.claim(world.join(), key(1))
    taken = world.take("t")
    world.pass_time(CLAIM_LEASE * 2)
    world.index.hold(CLAIM_LEASE, LEASE)
    assert world.index.reclaim(RetryRules()) == []
    world.resend_unchanged("reclaim")
    assert world.index.renew([taken.claim], CLAIM_LEASE) == ["kept"]
    world.pass_time(CLAIM_LEASE - 1)
    assert world.index.reclaim(RetryRules()) == []
    world.pass_time(CLAIM_LEASE)
    assert len(world.index.reclaim(RetryRules())) == 1


def test_a_hold_is_over_at_its_end(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    world.take("t")
    world.index.hold(CLAIM_LEASE, 2 * CLAIM_LEASE)
    world.pass_time(CLAIM_LEASE)
    assert len(world.index.reclaim(RetryRules())) == 1
    world.pass_time(CLAIM_LEASE - 1)
    path = BundleId(1, key(2), 7).path(world.index.namespace)
    assert world.index.condemn_orphans([(path, BundleId(1, key(2), 7))]) == 0
    world.pass_time(1)
    assert world.index.condemn_orphans([(path, BundleId(1, key(2), 7))]) == 1


def test_a_held_job_does_not_end_for_its_silence(world: World) -> None:
    who, other = world.join(), world.join(member="other")
    world.compiled(who, key(1))
    world.pass_time(LEASE * 3)
    world.index.hold(CLAIM_LEASE, LEASE)
    assert world.index.end_lapsed() == 0
    assert world.index.heartbeat(who) == Left(2)
    assert world.index.leave(other) == Left(1)
    assert world.join(member="third").incarnation == who.incarnation
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 1
    world.resend_unchanged("lapsed")
    world.drain()
    assert (1, key(1)) in world.snapshot().idle


def test_the_last_one_out_ends_a_job_also_while_it_is_held(world: World) -> None:
    who = world.join()
    world.index.hold(CLAIM_LEASE, LEASE)
    assert world.index.leave(who) == Ended()


def leadership(world: World, now_ms: int = T0) -> Leadership:
    return Leadership(world.redis, now_ms)


def test_one_leads_at_a_time(world: World) -> None:
    assert leadership(world).lead("a", 5000) == Leader("a", T0 + 5000, 1)
    assert leadership(world).lead("a", 5000) == Leader("a", T0 + 5000, 1)
    assert leadership(world).lead("b", 5000) == Leader("a", T0 + 5000, 1)
    assert leadership(world, T0 + 4999).lead("b", 5000).name == "a"
    assert leadership(world, T0 + 5000).lead("b", 5000) == Leader("b", T0 + 10_000, 2)
    assert leadership(world, T0 + 5001).lead("a", 5000).name == "b"
    assert leadership(world, T0 + 5001).current() == Leader("b", T0 + 10_000, 2)
    assert leadership(world, T0 + 10_000).current() is None


def test_who_steps_down_lets_another_lead_at_once_and_can_not_step_down_for_it(world: World) -> None:
    leadership(world).lead("a", 5000)
    leadership(world).step_down("a")
    leadership(world).step_down("a")
    assert leadership(world).lead("b", 5000) == Leader("b", T0 + 5000, 2)
    leadership(world).step_down("a")
    assert leadership(world, T0 + 1).current() == Leader("b", T0 + 5000, 2)


def test_a_late_lead_of_who_was_replaced_changes_nothing(world: World) -> None:
    leadership(world).lead("a", 5000)
    leadership(world, T0 + 6000).lead("b", 5000)
    before = world.redis.hgetall("opfarm:{farm}:leader")
    leadership(world, T0 + 6001).lead("a", 5000)
    assert world.redis.hgetall("opfarm:{farm}:leader") == before
