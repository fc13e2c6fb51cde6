"""A rebuild makes the index agree with the store, and judges nothing that runs or that it can not read."""

from __future__ import annotations

import pytest

from farm.coordinator.rebuild import RebuildReport, condemn_orphans, rebuild
from farm.coordinator.space import Space
from farm.errors import FarmUnavailable
from farm.index.jobs import Want
from farm.index.outcomes import Taken
from farm.namespace import PRIVATE_GENERATION, BundleId
from farm.store.inventory import Shelf, take_inventory
from farm.store.store import Store
from tests.coordinator.desk import QUEUE, Desk
from tests.lua.world import key, keys


def shelf(space: Space) -> Shelf:
    return take_inventory(space.store).shelves.get(space.index.namespace, Shelf((), (), 0))


def rebuilt(space: Space, seen: Shelf | None = None) -> RebuildReport:
    report = RebuildReport()
    for _ in rebuild(space, seen or shelf(space), report):
        pass
    return report


def test_bundles_become_entries_again_each_in_its_generation(desk: Desk) -> None:
    space = desk.space()
    found = [desk.bundle(space, key(n), generation=1 + n % 2) for n in range(6)]
    desk.bundle(space, key(0))  # compiled later, so it is preferred to the first
    desk.bundle(space, key(9), PRIVATE_GENERATION, damaged=True)
    damaged = desk.bundle(space, key(8), damaged=True)
    report = rebuilt(space)
    assert (report.adopted, report.dropped_rows) == (6, 0)
    assert [line.partition(":")[0] for line in report.damaged] == [desk.path(space, damaged)]
    rows = {row for chunk in space.index.entries() for row in chunk}
    assert {(g, k) for g, k, _ in rows} == {(at.generation, at.key) for at in found}
    assert (1, key(0), found[0].token) not in rows
    again = rebuilt(space)
    assert (again.adopted, again.dropped_rows) == (0, 0)


def test_rows_without_a_bundle_are_dropped_but_not_what_was_published_meanwhile(desk: Desk) -> None:
    space = desk.space()
    there, gone = desk.put(space, keys(2))
    seen = shelf(space)
    space.store.delete(desk.path(space, gone))
    late = desk.put(space, [key(2)])[0]
    assert rebuilt(space, Shelf(tuple(one for one in seen.bundles if one != gone), (), 0)).dropped_rows == 1
    assert desk.keys(space) == {there.key, late.key}


def test_a_namespace_with_bundles_is_held_and_opened_at_its_marker(desk: Desk) -> None:
    space = desk.space()
    space.store.mark_generation(space.index.namespace, 3)
    rebuilt(space)
    assert (space.index.generation(), space.index.held_until_ms()) == (3, 0)
    desk.bundle(space, key(1), generation=3)
    rebuilt(space)
    assert space.index.held_until_ms() > 0


def test_a_store_that_does_not_answer_is_no_damage_and_a_bundle_that_has_gone_is_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = desk.space()
    at = desk.bundle(space, key(1))
    seen = shelf(space)

    def away(store: Store, path: str) -> bytes:
        raise FarmUnavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "get", away)
        with pytest.raises(FarmUnavailable):
            rebuilt(space, seen)
    space.store.delete(desk.path(space, at))
    assert rebuilt(space, seen) == RebuildReport()


@pytest.mark.parametrize("method", ["get", "exists"])
def test_of_what_index_and_store_agree_on_the_store_is_not_asked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    space = desk.space()
    desk.bundle(space, key(1))
    rebuilt(space)
    seen = shelf(space)

    def away(store: Store, path: str) -> bytes:
        raise FarmUnavailable("the store is away")

    monkeypatch.setattr(Store, method, away)
    assert rebuilt(space, seen) == RebuildReport()


def test_many_bundles_take_many_steps(desk: Desk) -> None:
    space = desk.space()
    for n in range(120):
        desk.bundle(space, key(n + 10))
    report = RebuildReport()
    adopted = []
    for _ in rebuild(space, shelf(space), report):
        adopted.append(report.adopted)
    assert adopted == [50, 100, 120]


def test_only_what_is_nobodys_is_condemned(desk: Desk) -> None:
    space = desk.space()
    entry, other = desk.put(space, keys(2))
    space.index.claim(desk.join(space), [Want(key(2), b"request", QUEUE)], "n")
    taken = space.index.take(QUEUE, "w", "d", 60_000)
    assert isinstance(taken, Taken)
    running = BundleId(1, key(2), taken.claim.token)
    orphan = desk.bundle(space, key(3))
    seen = Shelf((entry, other, running, orphan), (("1", other), ("2", running)), 0)
    assert sum(condemn_orphans(space, seen)) == 2
    assert sum(condemn_orphans(space, seen)) == 0
    assert set(space.index.mark_deleting(0)) == {desk.path(space, orphan), f"{desk.path(space, other)}#1"}
