"""Purges as the leader serves them: one marker for all that wait, and what another leader left is finished."""

from __future__ import annotations

import pytest

from farm.coordinator.purges import PurgeReport, serve
from farm.index.purgelog import read_report
from farm.index.upkeep import Asked, Purged, Raised
from tests.coordinator.desk import Desk
from tests.lua.world import keys


def test_requests_that_wait_are_answered_by_one_marker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.coordinator.purges.CHUNK", 2)
    space = desk.space()
    desk.put(space, keys(3))
    assert serve(space) is None
    assert space.store.largest_generation(space.index.namespace) == 0
    for n in range(5):
        assert space.index.ask_purge(f"r{n}") == Asked()
    assert serve(space) == PurgeReport(2, 5)
    assert {space.index.ask_purge(f"r{n}") for n in range(5)} == {Purged(2)}
    assert space.store.largest_generation(space.index.namespace) == space.index.generation() == 2
    assert serve(space) is None


def test_the_marker_is_above_all_of_the_store_and_of_the_index(desk: Desk) -> None:
    space = desk.space()
    space.store.mark_generation(space.index.namespace, 7)
    space.index.ask_purge("r1")
    assert serve(space) == PurgeReport(8, 1)
    space.index.open(11)
    space.index.ask_purge("r2")
    assert serve(space) == PurgeReport(12, 1)


def test_one_request_costs_one_call(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    space = desk.space()
    raised: list[int] = []
    raise_to = space.index.raise_to

    def counted(generation: int, limit: int) -> Raised:
        raised.append(generation)
        return raise_to(generation, limit)

    monkeypatch.setattr(space.index, "raise_to", counted)
    space.index.ask_purge("r")
    serve(space)
    assert raised == [2]


def test_what_a_leader_left_unanswered_needs_no_further_marker(desk: Desk) -> None:
    space = desk.space()
    for n in range(3):
        space.index.ask_purge(f"r{n}")
    space.store.mark_generation(space.index.namespace, 2)
    assert space.index.raise_to(2, 1).left == 1
    assert serve(space) == PurgeReport(2, 2)
    assert space.store.largest_generation(space.index.namespace) == 2


@pytest.mark.timeout(10)
def test_what_another_leader_raised_further_is_left_to_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    space = desk.space()
    for n in range(2):
        space.index.ask_purge(f"r{n}")

    def raised_by_another(point: str) -> None:
        if point == "purge.after_marker":
            space.index.raise_to(3, 1)

    monkeypatch.setattr("farm.coordinator.purges.reach", raised_by_another)
    assert serve(space) == PurgeReport(3, 0)
    assert space.index.purge_queue() == (1, 1)


def test_a_namespace_that_was_lost_in_between_is_not_opened_by_a_purge(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = desk.space()
    space.index.ask_purge("r")
    monkeypatch.setattr("farm.coordinator.purges.reach", lambda point: desk.server.flushall())
    assert serve(space) is None
    assert space.index.generation() == 0


def test_the_report_says_what_the_purge_took_away(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(4))
    space.index.acquire(desk.join(space), keys(1))
    space.index.ask_purge("r")
    serve(space)
    report = read_report(space.index, 2)
    assert report and (report["removed_entries"], report["kept_entries"]) == (3, 1)
