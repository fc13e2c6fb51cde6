"""take, renew, publish, drop: a claim runs under a token, and ends in an entry or not at all."""

from __future__ import annotations

from farm.index.outcomes import Empty, Lost, Published, Taken
from farm.index.record import ClaimRef
from farm.namespace import bundle_path
from tests.lua.world import CLAIM_LEASE, QUEUE, RULES, World, key, keys, kinds, record_of


def test_a_take_sent_again_answers_the_same_as_long_as_the_claim_runs(world: World) -> None:
    who = world.join()
    world.claim(who, *keys(2))
    first = world.take("first")
    with world.unchanged():
        assert world.take("first") == first
    second = world.take("second")
    assert second.claim.token > first.claim.token
    with world.unchanged():
        assert world.take("first") == first
    world.publish(first)
    with world.unchanged():
        assert world.index.take(QUEUE, "w", "first", CLAIM_LEASE) == Empty()


def test_a_take_that_found_nothing_takes_nothing_when_it_arrives_late(world: World) -> None:
    """The worker was told that its message has done its work: nobody would compile what is taken now."""
    who = world.join()
    assert world.index.take(QUEUE, "w", "a", CLAIM_LEASE) == Empty()
    world.claim(who, key(1))
    world.resend_unchanged("take")
    assert world.take("b").claim.key == key(1)


def test_a_doubled_message_is_one_compile_and_a_lost_one_is_made_up_for(world: World) -> None:
    world.claim(world.join(), key(1))
    assert world.index.wake(QUEUE, 1) == 1
    assert world.take("delivery 1").claim.key == key(1)
    assert world.index.take(QUEUE, "w", "delivery 2", CLAIM_LEASE) == Empty()


def test_a_place_in_the_queue_without_a_claim_is_passed_over(world: World) -> None:
    world.claim(world.join(), *keys(3))
    world.watched = False
    for ref in world.redis.zrange(f"{world.index.prefix}queue:{QUEUE}", 0, 1):
        world.redis.delete(world.index.prefix.encode() + b"c:" + ref)
    assert isinstance(world.index.take(QUEUE, "w", "n", CLAIM_LEASE), Taken)


def test_renew_keeps_a_lease_that_is_over_until_the_claim_is_taken_over(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    slow = world.take("slow")
    world.pass_time(CLAIM_LEASE)
    assert world.index.renew([slow.claim], CLAIM_LEASE) == ["kept"]
    world.resend_unchanged("renew")
    assert world.index.reclaim(RULES) == []
    world.pass_time(CLAIM_LEASE)
    assert world.index.reclaim(RULES) == [QUEUE]
    assert world.index.renew([slow.claim], CLAIM_LEASE) == ["lost"]
    world.resend_unchanged("renew")
    fast = world.take("fast")
    assert world.index.renew([slow.claim, fast.claim], CLAIM_LEASE) == ["lost", "kept"]
    world.resend_unchanged("renew")
    world.publish(fast)
    world.resend_unchanged("renew")
    assert world.index.renew([slow.claim, fast.claim] * 400, CLAIM_LEASE) == ["lost", "lost"] * 400


def test_publish_again_is_published_and_counted_once(world: World) -> None:
    who = world.join()
    world.claim(who, key(4))
    taken = world.take("t")
    record = world.publish(taken)
    with world.unchanged():
        assert world.index.publish(taken.claim, record) == Published()
    world.drain()
    world.claim(who, key(1))
    world.index.heartbeat(who)
    world.resend_unchanged("publish")
    assert world.snapshot().stored_bytes == record.stored_bytes


def test_a_publish_that_comes_after_its_entry_is_gone_brings_nothing_back(world: World) -> None:
    who = world.join()
    (held,) = world.compiled(who, key(1))
    world.index.drop(1, key(1), held.record.token)
    with world.unchanged():
        assert world.resend("publish") == b"lost"
    world.claim(who, key(1), nonce="again")
    again = world.take("again")
    with world.unchanged():
        assert world.index.publish(ClaimRef(1, key(1), held.record.token), held.record) == Lost()
    world.publish(again)
    world.resend_unchanged("publish")


def test_a_late_publish_is_refused_and_the_winner_stays(world: World) -> None:
    who = world.join()
    world.claim(who, key(1))
    slow = world.take("slow")
    world.pass_time(CLAIM_LEASE)
    world.index.reclaim(RULES)
    late = record_of(slow.claim.token)
    assert world.index.publish(slow.claim, late) == Lost()
    fast = world.take("fast")
    assert world.index.publish(slow.claim, late) == Lost()
    record = world.publish(fast)
    assert world.index.publish(slow.claim, late) == Lost()
    world.resend_unchanged("publish")
    snapshot = world.snapshot()
    assert snapshot.entries == {(1, key(1)): record}
    assert snapshot.tombs == {bundle_path(world.index.namespace, 1, key(1), slow.claim.token)}


def test_a_compile_claimed_before_a_purge_publishes_into_its_own_generation(world: World) -> None:
    who, left = world.join(), world.join("left")
    world.claim(who, key(0))
    world.claim(left, key(1))
    taken = [world.take(f"t{n}") for n in range(2)]
    world.end(left)
    world.scripts.run("acquire", "job", who.incarnation, "m", 1000, 2, "shared", key(9), now_ms=world.index.now_ms)
    for each in taken:
        world.publish(each)
    snapshot = world.snapshot()
    assert set(snapshot.entries) == {(1, key(0))}
    assert snapshot.tombs == {bundle_path(world.index.namespace, 1, key(1), taken[1].claim.token)}
    world.resend_unchanged("publish")


def test_drop_forgets_only_the_bundle_that_was_read(world: World) -> None:
    who = world.join()
    (bad,) = world.compiled(who, key(2))
    assert world.index.drop(1, key(2), bad.record.token)
    world.resend_unchanged("drop")
    assert kinds(world.index.acquire(who, [key(2)])) == "A"  # type: ignore[arg-type]
    assert world.pins(key(2)) == [1]
    world.claim(who, key(2), nonce="again")
    world.resend_unchanged("drop")
    taken = world.take("again")
    world.resend_unchanged("drop")
    good = world.publish(taken)
    with world.unchanged():
        assert not world.index.drop(1, key(2), bad.record.token)
    assert kinds(world.index.acquire(who, [key(2)])) == "H"  # type: ignore[arg-type]
    world.end(who)
    world.resend_unchanged("drop")
    assert world.snapshot().entries == {(1, key(2)): good}


def test_drop_of_an_idle_entry(world: World) -> None:
    (held,) = world.idle(key(1))
    assert world.index.drop(1, key(1), held.record.token)
    world.resend_unchanged("drop")
    assert not world.snapshot().idle
    assert not world.index.drop(2, key(1), held.record.token)
