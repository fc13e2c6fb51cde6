"""Sweep and drain: the only deletion of objects, and what a purge leaves behind, in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from farm.coordinator.sweep import drain, sweep
from tests.coordinator.desk import Desk
from tests.lua.world import keys


def test_what_a_purge_left_is_drained_and_swept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.coordinator.sweep.CHUNK", 2)
    monkeypatch.setattr("farm.coordinator.sweep.CALLS_A_TICK", 2)
    space = desk.space()
    desk.put(space, keys(5))
    assert (drain(space), sweep(space)) == (0, 0)
    space.index.raise_to(2)
    assert (drain(space), drain(space), drain(space)) == (4, 1, 0)
    assert len(space.store.names()) == 5
    assert sweep(space) == 5
    assert space.store.names() == []
    assert sweep(space) == 0
    assert space.index.mark_deleting(0) == []


def test_nothing_goes_before_its_grace_is_over(desk: Desk) -> None:
    desk.set(sweep_grace_seconds=0.001)
    space = desk.space()
    desk.put(space, keys(2))
    space.index.raise_to(2)
    drain(space)
    patient = desk.space()
    desk.set(sweep_grace_seconds=60)
    assert sweep(desk.space()) == 0
    assert len(patient.store.names()) == 2


def test_what_another_leader_marked_and_did_not_delete_is_finished(desk: Desk) -> None:
    space = desk.space()
    desk.put(space, keys(2))
    space.index.raise_to(2)
    drain(space)
    assert len(space.index.mark_deleting(0)) == 2
    assert sweep(space) == 2
    assert space.store.names() == []


def test_nothing_to_do_costs_a_call_each(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    space = desk.space()
    calls: list[str] = []

    def nothing(name: str) -> Callable[..., None]:
        return lambda *numbers: calls.append(name)

    for name in ("drain", "mark_deleting"):
        monkeypatch.setattr(space.index, name, nothing(name))
    drain(space)
    sweep(space)
    assert calls == ["drain", "mark_deleting"]
