"""Reaping: claims of lost workers, jobs of lost members, and messages for claims that wait."""

from __future__ import annotations

import time

import pytest

from farm.coordinator.reap import reap
from farm.coordinator.space import Space
from farm.index.jobs import Member, Want
from farm.index.outcomes import Taken
from tests.coordinator.desk import QUEUE, Desk
from tests.lua.world import key, keys, record_of


def claim(space: Space, who: Member, *which: bytes) -> None:
    space.index.claim(who, [Want(k, b"request", QUEUE) for k in which], "n")


def take(space: Space, lease_ms: int = 60_000) -> Taken:
    taken = space.index.take(QUEUE, "w", f"d{time.monotonic_ns()}", lease_ms)
    assert isinstance(taken, Taken)
    return taken


def test_a_lost_workers_claim_is_queued_again_with_one_message(desk: Desk) -> None:
    space = desk.space()
    desk.worker(QUEUE, slots=8)
    claim(space, desk.join(space), *keys(2))
    take(space, lease_ms=0)
    report = reap(space)
    assert (report.claims, report.jobs, report.messages) == (1, 0, 1)
    assert desk.messages.sent == {QUEUE: 1}


def test_the_job_of_lost_members_ends_and_all_that_it_held_is_let_go(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.coordinator.reap.CHUNK", 2)
    space = desk.space()
    desk.put(space, keys(5))
    who = desk.join(space, lease_ms=0)
    space.index.acquire(who, keys(5))
    report = reap(space)
    assert (report.claims, report.jobs, report.messages) == (0, 1, 0)
    assert desk.server.zcard(f"{space.index.prefix}idle:1") == 5
    assert space.index.bury() == 0


def test_all_waiters_are_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.coordinator.reap.CHUNK", 1)
    space = desk.space()
    members = [desk.join(space, job) for job in ("a", "b", "c")]
    for who in members:
        claim(space, who, key(1))
    taken = take(space)
    space.index.publish(taken.claim, record_of(taken.claim.token))
    reap(space)
    assert all(space.index.last_notice(who.run) != "0-0" for who in members)


def test_nothing_to_do_costs_a_call_each(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    space, calls = desk.space(), []
    for name in ("bury", "tell"):
        monkeypatch.setattr(space.index, name, lambda limit, name=name: calls.append(name))
    reap(space)
    assert calls == ["bury", "tell"]


def test_the_broker_is_asked_only_of_queues_in_which_claims_wait(desk: Desk) -> None:
    space = desk.space()
    desk.worker(QUEUE, "compile.other")
    reap(space)
    assert desk.messages.seen == []
    claim(space, desk.join(space), key(1))
    reap(space)
    assert desk.messages.seen == [QUEUE]


def test_claims_that_wait_wake_no_more_workers_than_there_are_slots(desk: Desk) -> None:
    space = desk.space()
    claim(space, desk.join(space), *keys(9))
    reap(space)
    assert not desk.messages.sent
    desk.worker(QUEUE, "compile.other", slots=2)
    desk.worker(QUEUE, slots=3)
    assert reap(space).messages == 5
    assert desk.messages.sent == {QUEUE: 5}


def test_while_messages_wait_at_the_broker_nobody_is_woken(desk: Desk) -> None:
    space = desk.space()
    desk.worker(QUEUE)
    claim(space, desk.join(space), *keys(2))
    desk.messages.left.add(QUEUE)
    assert reap(space).messages == 0
    desk.messages.left.clear()
    assert reap(space).messages == 2
    desk.messages.sent.clear()
    assert reap(space).messages == 0, "at most once in ten seconds"
    assert QUEUE not in desk.messages.sent
