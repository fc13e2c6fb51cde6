"""reserve and land: an import's bundle is no orphan while its place is kept, and no entry afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from farm.index.record import Record
from farm.namespace import BundleId
from tests.lua.world import World, key, keys, record_of

PLACE = 600_000
GRACE = 60_000


def coming(world: World, *which: bytes, generation: int = 1) -> list[tuple[BundleId, Record]]:
    tokens = world.index.reserve(generation, which, PLACE)
    return [(BundleId(generation, k, token), record_of(token)) for k, token in zip(which, tokens, strict=True)]


def search(world: World, bundles: Sequence[tuple[BundleId, Record]]) -> int:
    return world.index.condemn_orphans((at.path(world.index.namespace), at) for at, _ in bundles)


def test_places_have_fresh_tokens_of_the_one_sequence(world: World) -> None:
    world.claim(world.join(), key(9))
    first = world.take("t").claim.token
    tokens = [at.token for at, _ in coming(world, *keys(300))]
    assert [first, *tokens] == sorted({first, *tokens})
    assert world.index.reserve(1, [key(1)], PLACE)[0] > tokens[-1]
    world.resend("reserve")
    assert world.snapshot().last_token == tokens[-1] + 2


def test_what_lands_is_idle_from_now_and_landing_twice_is_as_once(world: World) -> None:
    bundles = coming(world, *keys(6))
    world.pass_time(1000)
    assert world.index.land(bundles) == ["landed"] * 6
    snapshot = world.snapshot()
    assert snapshot.entries == {(1, at.key): record for at, record in bundles}
    assert set(snapshot.idle.values()) == {world.index.now_ms}
    world.resend_unchanged("adopt")
    assert world.index.land(bundles) == ["landed"] * 6
    assert world.rows().get(b"coming") is None


def test_an_entry_and_a_live_claim_win(world: World) -> None:
    (entry,) = world.idle(key(1))
    world.claim(world.join(), key(2))
    bundles = coming(world, key(1), key(2), key(3))
    assert world.index.land(bundles) == ["present", "claimed", "landed"]
    assert world.snapshot().entries[1, key(1)] == entry.record
    world.resend_unchanged("adopt")
    assert search(world, bundles) == 2


def test_a_bundle_that_is_being_put_is_no_orphan_and_neither_is_what_its_writer_has_of_it(world: World) -> None:
    ((at, record),) = coming(world, key(1))
    path = at.path(world.index.namespace)
    world.pass_time(PLACE - 1)
    assert world.index.condemn_orphans([(path, at), (f"{path}#1", at)]) == 0
    world.resend_unchanged("orphans")
    assert world.index.land([(at, record)]) == ["landed"]


def test_a_place_that_lapsed_is_refused_whether_its_bundle_was_swept_or_not(world: World) -> None:
    swept, left = coming(world, key(1), key(2))
    world.pass_time(PLACE)
    assert search(world, [swept]) == 1
    world.pass_time(GRACE)
    world.index.swept(world.index.mark_deleting(GRACE))
    # Nothing in the index tells now that the first bundle was ever there.
    assert world.index.land([swept, left]) == ["refused", "refused"]
    world.resend_unchanged("adopt")
    assert world.snapshot().entries == {}
    assert world.index.land(coming(world, key(1), key(2))) == ["landed", "landed"]


def test_what_was_reserved_before_a_purge_lands_in_the_retired_generation_and_is_drained(world: World) -> None:
    bundles = coming(world, key(1))
    world.index.ask_purge("operator")
    world.index.raise_to(2)
    assert world.index.land(bundles) == ["landed"]
    assert world.snapshot().generation == 2
    who = world.join()
    assert world.index.acquire(who, [key(1)]) == world.index.acquire(world.join("other"), [key(5)])
    assert world.index.drain() == 1
    assert world.snapshot().tombs == {bundles[0][0].path(world.index.namespace)}


def test_lapsed_places_are_forgotten_by_the_next_import(world: World) -> None:
    coming(world, *keys(3))
    world.pass_time(PLACE)
    coming(world, key(7))
    assert len(world.rows()[b"coming"]) == 1


def test_nothing_is_reserved_or_landed_where_nothing_is_open(world: World) -> None:
    bundles = coming(world, key(1))
    world.lose()
    world.watched = False
    assert world.index.reserve(1, [key(1)], PLACE) == []
    assert world.index.land(bundles) == ["refused"]
    assert world.rows() == {}


def test_who_waits_for_a_dropped_entry_is_served_by_an_imported_one(world: World) -> None:
    who = world.join()
    (held,) = world.compiled(who, key(1))
    world.index.drop(1, key(1), held.record.token)
    assert world.index.land(coming(world, key(1))) == ["landed"]
    snapshot = world.snapshot()
    assert not snapshot.idle
    assert not snapshot.dropped
