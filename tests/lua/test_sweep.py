"""mark_deleting, swept, orphans: only what is condemned is deleted, after its grace, and what a leader left undone."""

from __future__ import annotations

from farm.index.jobs import Holding
from farm.index.record import Record
from farm.namespace import BundleId
from tests.lua.world import LEASE, World, key, keys, record_of

GRACE = 60_000


def condemned(world: World, *which: bytes) -> list[str]:
    for held in world.idle(*which):
        world.index.drop(1, held.key, held.record.token)
    return sorted(world.snapshot().tombs)


def bundle(number: int, token: int, generation: int = 1) -> tuple[str, BundleId]:
    found = BundleId(generation, key(number), token)
    return f"default/Ascend910B1/{generation}/{key(number).hex()}-{token}", found


def test_a_tombstone_is_deleted_after_its_grace(world: World) -> None:
    paths = condemned(world, *keys(3))
    world.pass_time(GRACE - 1)
    assert world.index.mark_deleting(GRACE) == []
    world.pass_time(1)
    assert sorted(world.index.mark_deleting(GRACE)) == paths
    assert world.snapshot().tombs == set()
    world.resend_unchanged("mark_deleting")
    world.index.swept(paths)
    world.resend_unchanged("swept", "mark_deleting")
    assert world.index.mark_deleting(GRACE) == []


def test_a_pinned_entry_that_was_dropped_is_known_as_such_after_its_sweep(world: World) -> None:
    who = world.join()
    (held,) = world.compiled(who, key(1))
    world.index.drop(1, key(1), held.record.token)
    world.resend_unchanged("drop")
    world.pass_time(GRACE)
    world.index.swept(world.index.mark_deleting(GRACE))
    assert set(world.snapshot().dropped) == {(1, key(1))}
    world.compiled(who, key(1))
    assert world.snapshot().dropped == {}
    world.resend_unchanged("drop")


def test_the_next_leader_finishes_what_one_has_marked(world: World) -> None:
    paths = condemned(world, *keys(3))
    world.pass_time(GRACE)
    assert sorted(world.index.mark_deleting(GRACE)) == paths
    assert sorted(world.index.mark_deleting(GRACE)) == paths
    world.index.swept(paths[:2])
    assert world.index.mark_deleting(GRACE) == paths[2:]


def test_mark_deleting_does_a_chunk_a_call(world: World) -> None:
    condemned(world, *keys(9))
    world.pass_time(GRACE)
    seen = []
    while some := world.index.mark_deleting(GRACE, limit=4):
        world.index.swept(some)
        seen.append(len(some))
    assert seen == [4, 4, 1]


def test_who_holds_a_condemned_bundle_takes_it_back_until_it_is_marked(world: World) -> None:
    who = world.join()
    first, second = world.compiled(who, key(1), key(2))
    world.end(who)
    world.index.evict(0, 0)
    assert world.index.announce(who, [first]) == [first.record]
    world.pass_time(GRACE)
    assert world.index.mark_deleting(GRACE) == [f"default/Ascend910B1/1/{key(2).hex()}-{second.record.token}"]
    world.watched = False
    assert world.index.announce(who, [second]) == [None]
    world.resend_unchanged("announce")


def test_an_orphan_is_what_nothing_knows(world: World) -> None:
    (entry,) = world.idle(key(1))
    who = world.join()
    world.claim(who, key(2))
    running = world.take("t")
    (tomb,) = condemned(world, key(3))
    marked = bundle(4, 77)
    found = [
        bundle(1, entry.record.token), bundle(2, running.claim.token), bundle(1, 5), bundle(2, 6), marked,
        (tomb, BundleId(1, key(3), int(tomb.rpartition("-")[2]))),
    ]  # fmt: skip
    assert world.index.condemn_orphans(found) == 3
    assert world.snapshot().tombs == {tomb, *(path for path, at in found if at.token in (5, 6, 77))}
    world.resend_unchanged("orphans")
    world.pass_time(GRACE)
    paths = world.index.mark_deleting(GRACE)
    world.resend_unchanged("orphans")
    world.index.swept(paths)
    world.publish(running)
    assert world.index.condemn_orphans([found[1]]) == 0


def test_what_a_killed_writer_left_goes_and_what_a_live_one_writes_stays(world: World) -> None:
    (entry,) = world.idle(key(1))
    world.claim(world.join(), key(2))
    running = world.take("t")
    left, at = bundle(1, entry.record.token)
    written, of = bundle(2, running.claim.token)
    assert world.index.condemn_orphans([(f"{left}#1", at), (f"{written}#1", of)]) == 1
    assert world.snapshot().tombs == {f"{left}#1"}
    assert (1, key(1)) in world.snapshot().entries


def test_nothing_is_an_orphan_while_entries_are_held(world: World) -> None:
    world.index.hold(20_000, LEASE)
    assert world.index.condemn_orphans([bundle(1, 5)]) == 0
    world.resend_unchanged("orphans")
    world.pass_time(LEASE)
    assert world.index.condemn_orphans([bundle(1, 5)]) == 1


def test_a_publish_that_lost_its_claim_leaves_no_object(world: World) -> None:
    world.claim(world.join(), key(1))
    first = world.take("t")
    world.pass_time(30_000)
    world.index.release(first.claim)
    second = world.take("u")
    world.publish(second)
    world.index.publish(first.claim, record_of(first.claim.token))
    snapshot = world.snapshot()
    assert snapshot.entries[1, key(1)].token == second.claim.token
    assert {int(path.rpartition("-")[2]) for path in snapshot.tombs} == {first.claim.token}


def adoptable(number: int, token: int, generation: int = 1) -> tuple[BundleId, Record]:
    return BundleId(generation, key(number), token), record_of(token)


def test_adopt_makes_entries_where_there_are_none(world: World) -> None:
    (entry,) = world.idle(key(1))
    who = world.join()
    world.claim(who, key(2))
    found = [adoptable(1, 5), adoptable(2, 6), adoptable(3, 7), adoptable(3, 8)]
    assert world.index.adopt(found) == 1
    world.resend_unchanged("adopt")
    snapshot = world.snapshot()
    assert snapshot.entries[1, key(1)].token == entry.record.token
    assert snapshot.entries[1, key(3)].token == 7
    assert snapshot.idle.keys() == {(1, key(1)), (1, key(3))}
    assert (1, key(2)) in snapshot.claims


def test_adopt_takes_nothing_back_that_is_condemned(world: World) -> None:
    (held,) = world.idle(key(1))
    world.index.drop(1, key(1), held.record.token)
    one = (BundleId(1, key(1), held.record.token), held.record)
    assert world.index.adopt([one]) == 0
    world.pass_time(GRACE)
    world.index.mark_deleting(GRACE)
    assert world.index.adopt([one]) == 0
    world.resend_unchanged("adopt")


def test_what_is_adopted_in_a_retired_generation_is_drained_unless_somebody_holds_it(world: World) -> None:
    who = world.join()
    (held,) = world.compiled(who, key(1))
    world.index.raise_to(2)
    world.lose_everything()
    world.index.open(2)
    other = adoptable(2, 9)
    assert world.index.adopt([(BundleId(1, key(1), held.record.token), held.record), other]) == 2
    world.index.hold(20_000, LEASE)
    assert world.index.drain() == 0
    assert world.index.announce(who, [Holding(1, key(1), held.record)]) == [held.record]
    world.pass_time(LEASE)
    assert world.index.drain() == 1
    assert set(world.snapshot().entries) == {(1, key(1))}
    world.resend_unchanged("adopt")


def test_adopt_reaches_the_generation_of_a_bundle_and_waits_for_the_namespace_to_be_open(world: World) -> None:
    assert world.index.adopt([adoptable(1, 5, generation=3)]) == 1
    assert world.snapshot().generation == 3
    world.lose()
    world.watched = False
    assert world.index.adopt([adoptable(1, 5)]) == 0
    assert world.rows() == {}
