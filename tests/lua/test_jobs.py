"""open, join, heartbeat, leave, lapsed, choose: how long a job lives, and who speaks for it."""

from __future__ import annotations

from farm.index.outcomes import Ended, Hit, Left, OtherMode, UnknownJob
from tests.lua.world import LEASE, T0, World, key, keys


def test_open_raises_to_the_largest_marker_and_never_lowers(world: World) -> None:
    assert world.index.open(7) == 7
    world.resend_unchanged("open")
    world.join()
    assert world.index.open(3) == 7
    world.resend_unchanged("open")


def test_a_namespace_without_meta_is_not_open(world: World) -> None:
    world.lose()
    who = world.scripts.run("join", "job", "m", "enable", 1, b"{}", LEASE)
    assert who == [b"not_open"]
    assert world.rows() == {}
    assert world.index.open(4) == 4
    assert world.join().floor == 0


def test_join_again_is_the_same_membership(world: World) -> None:
    who = world.join()
    world.resend_unchanged("join")
    world.join(member="m2")
    world.index.acquire(who, keys(3))
    world.index.heartbeat(who)
    world.resend_unchanged("join")
    assert world.join().incarnation == who.incarnation


def test_a_join_that_comes_after_the_end_lapses_by_itself(world: World) -> None:
    world.idle(*keys(3))
    who = world.join()
    world.index.acquire(who, keys(3))
    world.end(who)
    world.resend("join")
    assert world.pins(*keys(3)) == [0, 0, 0]
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 1
    assert not world.snapshot().jobs


def test_the_mode_belongs_to_the_job(world: World) -> None:
    world.join()
    who = world.join(job="other", mode="force")
    with world.unchanged():
        assert world.index.join(who.__class__("job", "m2", "force", 1, b"{}", LEASE)) == OtherMode("enable")
        assert world.resend("join") == [b"other_mode", b"enable"]


def test_an_id_used_again_after_the_end_is_a_new_incarnation(world: World) -> None:
    first = world.join()
    assert world.index.leave(first) == Ended()
    second = world.join(mode="force")
    assert second.incarnation > first.incarnation
    with world.unchanged():
        assert world.index.acquire(first, keys(2)) == UnknownJob()
        assert world.index.heartbeat(first) == UnknownJob()
        assert world.index.leave(first) == UnknownJob()


def test_incarnations_and_tokens_grow_on_a_server_restored_from_an_older_snapshot(world: World) -> None:
    first = world.join()
    world.lose()
    world.pass_time(1)
    world.index.open(1)
    assert world.join().incarnation > first.incarnation


def test_all_members_lapsed_is_the_end_also_before_anybody_reaps(world: World) -> None:
    world.idle(key(1))
    first = world.join()
    world.index.acquire(first, [key(1)])
    world.pass_time(LEASE)
    second = world.join()
    assert second.incarnation > first.incarnation
    assert world.pins(key(1)) == [1]
    world.drain()
    assert world.pins(key(1)) == [0]


def test_seven_of_eight_members_close_and_one_is_killed(world: World) -> None:
    world.idle(*keys(10))
    members = [world.join(member=f"rank {n}") for n in range(8)]
    for who in members:
        answers = world.index.acquire(who, keys(10))
        assert isinstance(answers, list) and all(isinstance(answer, Hit) for answer in answers)
    assert world.pins(*keys(10)) == [1] * 10
    for left, who in enumerate(members[:6]):
        assert world.index.leave(who) == Left(7 - left)
        world.resend("leave")
    world.pass_time(LEASE // 2)
    killed, last = members[6], members[7]
    assert world.index.heartbeat(last) == Left(2)
    world.pass_time(LEASE // 2)
    assert world.index.heartbeat(last) == Left(1)
    assert world.index.end_lapsed() == 0
    assert world.pins(*keys(10)) == [1] * 10
    assert killed.member not in world.snapshot().jobs["job"].members
    assert world.index.leave(last) == Ended()
    world.drain()
    assert world.pins(*keys(10)) == [0] * 10


def test_heartbeat_again_and_late(world: World) -> None:
    who, other = world.join(), world.join(member="other")
    world.index.heartbeat(other)
    world.resend_unchanged("heartbeat")
    world.index.acquire(who, keys(2))
    world.index.leave(other)
    # The member that has left is a member once more, but only for one lease.
    world.resend("heartbeat")
    world.pass_time(LEASE - 1)
    world.index.heartbeat(who)
    world.pass_time(1)
    assert world.index.leave(who) == Ended()
    world.resend_unchanged("heartbeat")


def test_every_call_of_a_member_extends_its_lease(world: World) -> None:
    who = world.join()
    calls = (lambda: world.index.heartbeat(who), lambda: world.index.acquire(who, [key(1)]),
             lambda: world.claim(who, key(1)), lambda: world.index.announce(who, []), world.join)  # fmt: skip
    for call in calls:
        world.pass_time(LEASE - 1)
        call()
        assert world.snapshot().deadlines == {"job": world.index.now_ms + LEASE}  # type: ignore[operator]


def test_a_lease_never_gets_shorter(world: World) -> None:
    who = world.join()
    before = world.snapshot().deadlines
    world.pass_time(-1000)
    world.index.heartbeat(who)
    assert world.snapshot().deadlines == before


def test_leave_again_and_late(world: World) -> None:
    who, other = world.join(), world.join(member="other")
    assert world.index.leave(who) == Left(1)
    world.resend_unchanged("leave")
    world.index.acquire(other, keys(2))
    assert world.index.leave(other, "cancel") == Ended()
    world.resend_unchanged("leave")
    world.join(member="other")
    world.resend_unchanged("leave")


def test_lapsed_jobs_are_ended_once(world: World) -> None:
    for n in range(12):
        world.join(job=f"job {n}")
    world.pass_time(LEASE - 1)
    assert world.index.end_lapsed() == 0
    alive = world.join(job="job 3")
    world.pass_time(1)
    assert world.index.end_lapsed(limit=10) == 10
    world.resend_unchanged("leave")
    assert world.index.end_lapsed(limit=10) == 1
    world.resend_unchanged("lapsed", "leave")
    assert world.index.heartbeat(alive) == Left(1)


def test_a_job_whose_lease_was_renewed_after_it_was_found_lapsed_lives_on(world: World) -> None:
    who = world.join()
    world.pass_time(LEASE)
    (job, run) = world.scripts.run("lapsed", 10, now_ms=world.index.now_ms)
    world.index.heartbeat(who)
    assert world.scripts.run("leave", job, run, "", "k", now_ms=world.index.now_ms) == [b"left", 1]


def test_only_lapsed_jobs_are_named_and_none_while_entries_are_held(world: World) -> None:
    world.join("lives")
    assert world.scripts.run("lapsed", 10, now_ms=T0) == []
    world.index.hold(0, 2 * LEASE)
    assert world.scripts.run("lapsed", 10, now_ms=T0 + LEASE) == []
    assert world.scripts.run("lapsed", 10, now_ms=T0 + 2 * LEASE)[0] == b"lives"


def test_a_job_lives_no_longer_than_the_members_that_stay(world: World) -> None:
    world.join(member="stays")
    world.pass_time(1000)
    world.index.leave(world.join(member="leaves"))
    world.pass_time(LEASE - 1000)
    assert world.index.end_lapsed() == 1


def test_the_first_member_chooses_the_fingerprint(world: World) -> None:
    who, other = world.join(), world.join(member="other")
    assert world.index.choose(who, "cuda", "a" * 64) == "a" * 64
    world.resend_unchanged("choose")
    assert world.index.choose(other, "cuda", "b" * 64) == "a" * 64
    assert world.index.choose(other, "host", "c" * 64) == "c" * 64
    world.resend_unchanged("choose")
    world.index.leave(other)
    world.end(who)
    assert world.index.choose(who, "cuda", "a" * 64) == UnknownJob()
    world.resend_unchanged("choose")
