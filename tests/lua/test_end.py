"""end: a job is ended for all its members; none of them brings it back, and the id may be used again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.index.jobs import Member
from farm.index.outcomes import Ended, Left, Over, UnknownJob
from tests.lua.world import LEASE, World, key, keys, kinds


def end(world: World, who: Member, how: str = "cancel", by: str = "ann@login1") -> object:
    return world.index.end(who.job, who.incarnation, how, by, LEASE)  # type: ignore[arg-type]


@pytest.mark.parametrize(("how", "word"), [("cancel", "cancelled"), ("keep", "released")])
def test_no_member_brings_back_what_was_ended(world: World, how: str, word: str) -> None:
    who, other = world.join(), world.join(member="other")
    held = world.compiled(who, *keys(3))
    world.claim(other, key(9))
    assert end(world, who, how) == Ended()
    world.resend_unchanged("end")
    over = Over(word, "ann@login1")  # type: ignore[arg-type]
    for member in (who, other):
        assert world.index.heartbeat(member) == UnknownJob()
        assert world.index.acquire(member, keys(3)) == UnknownJob()
        assert world.index.announce(member, held) == over
        assert world.index.announce(member, []) == over
        world.resend_unchanged("announce", "heartbeat", "acquire")
    assert not world.snapshot().jobs
    world.drain()
    assert world.pins(*keys(3), key(9)) == [0] * 4
    assert not world.snapshot().claims
    world.resend_unchanged("end", "announce")
    assert world.index.leave(who) == UnknownJob()


def test_cancel_stops_running_compiles_that_nobody_else_wants_and_release_lets_them_finish(world: World) -> None:
    for how, renewed in (("cancel", ["unwanted", "kept"]), ("keep", ["kept", "kept"])):
        who, other = world.join(how), world.join(f"other {how}")
        mine, shared = key(f"mine {how}"), key(f"shared {how}")
        world.claim(who, mine, shared)
        world.claim(other, shared, nonce="of the other")
        running = {each.claim.key: each.claim for each in (world.take(f"1 {how}"), world.take(f"2 {how}"))}
        end(world, who, how)
        world.drain()
        assert world.index.renew([running[mine], running[shared]], 1000) == renewed


def test_a_later_join_is_a_new_incarnation_that_the_old_members_do_not_disturb(world: World) -> None:
    who = world.join()
    held = world.compiled(who, *keys(3))
    end(world, who)
    new = world.join(member="new")
    assert new.incarnation > who.incarnation
    assert kinds(world.index.acquire(new, keys(3))) == "HHH"  # type: ignore[arg-type]
    with world.unchanged():
        assert world.index.announce(who, held) == Over("cancelled", "ann@login1")
        assert end(world, who) == Ended()
        assert world.index.heartbeat(who) == UnknownJob()
    assert world.index.heartbeat(new) == Left(1)


def test_members_are_told_for_a_job_lease_or_for_their_own_if_that_is_longer(world: World) -> None:
    who = world.join()
    end(world, who)
    left_ms = world.redis.pttl(f"{world.index.prefix}x:{who.run}")
    assert LEASE - 5000 < left_ms <= LEASE
    patient = replace(world.join("patient"), lease_ms=10 * LEASE)
    world.index.heartbeat(patient)
    end(world, patient)
    assert world.redis.pttl(f"{world.index.prefix}x:{patient.run}") > 9 * LEASE


def test_a_job_that_ended_by_itself_is_unknown(world: World) -> None:
    who = world.join()
    world.end(who)
    with world.unchanged():
        assert end(world, who) == UnknownJob()
        assert end(world, replace(who, incarnation=1)) == UnknownJob()
        assert world.index.end("no such job", 7, "cancel", "", LEASE) == UnknownJob()


def test_the_end_does_not_care_for_the_number_of_keys(world: World) -> None:
    world.watched = False
    prefix, who = world.index.prefix, world.join()
    world.redis.hset(f"{prefix}map:{who.run}", mapping={key(n): "1i" for n in range(10, 5010)})
    world.redis.config_resetstat()
    end(world, who)
    assert sum(row["calls"] for row in world.redis.info("commandstats").values()) < 20


@pytest.mark.parametrize("keep_ms", [LEASE // 10, 3 * LEASE])
def test_who_ended_it_is_told_for_as_long_as_a_member_may_be_away(world: World, keep_ms: int) -> None:
    who = world.join()
    world.index.end(who.job, who.incarnation, "cancel", "ann", keep_ms)
    left_ms = world.redis.pttl(f"{world.index.prefix}x:{who.run}")
    assert max(keep_ms, LEASE) - 10_000 < left_ms <= max(keep_ms, LEASE)  # type: ignore[operator]


def test_a_job_that_ended_by_itself_is_none_that_somebody_ended(world: World) -> None:
    who = world.join()
    world.index.leave(who)
    assert end(world, who) == UnknownJob()
    assert world.resend("end") == b"unknown"
