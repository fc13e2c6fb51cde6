"""The leader's care for submissions that came through Celery: memberships are kept, planners sent when one is due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.coordinator import plans as module
from farm.coordinator.plans import PlanCare
from farm.index import names
from farm.index.index import Index
from farm.index.jobs import Member, Want, as_member
from farm.index.outcomes import Membership, Taken, UnknownJob
from farm.index.plans import MEMBER, Plans, Progress, Stand
from farm.namespace import Namespace
from tests.coordinator.desk import QUEUE, Desk
from tests.lua.world import T0, key, keys, record_of

BEAT, LEASE = 20_000, 300_000
SPACE = Namespace("default", "a")


class Care:
    """One plan with one claimed key, and a leader that looks after it, in virtual time."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.index = Index(desk.server, SPACE, now_ms=T0)
        self.plans = Plans(desk.server, now_ms=T0)
        self.index.open(1)
        self.care = PlanCare(self.plans, lambda namespace: self.index, desk.messages, BEAT)
        who = Member("id", MEMBER, "enable", 1, b"", LEASE)
        answer = self.index.join(who)
        assert isinstance(answer, Membership)
        self.who = as_member(who, answer)
        assert self.plans.begin("id", {}, {}, 60_000)

    @property
    def now_ms(self) -> int:
        return self.index.now_ms or 0

    def progress(self, *pending: bytes, deadline_ms: int = 0) -> Progress:
        rows = [(str(SPACE), 1, k) for k in pending]
        return Progress({str(SPACE): Stand(self.who.incarnation, LEASE)}, rows, deadline_ms=deadline_ms)

    def wait_for(self, *which: bytes) -> list[Taken]:
        """These keys are claimed and run, and the plan waits for them."""
        self.index.claim(self.who, [Want(k, b"request", QUEUE) for k in which], "n")
        self.leave_off(*which)
        found = [self.index.take(QUEUE, "w", f"d{n}", LEASE) for n in range(len(which))]
        assert all(isinstance(one, Taken) for one in found)
        return found  # type: ignore[return-value]

    def leave_off(self, *which: bytes, deadline_ms: int = 0, poll_ms: int = T0 + 10**9) -> None:
        self.plans.leave_off("id", self.progress(*which, deadline_ms=deadline_ms), T0, poll_ms)

    def serve(self, after_ms: int = 0) -> list[str]:
        """The steps sent after that time."""
        self.index.now_ms = self.plans.now_ms = self.now_ms + after_ms
        self.desk.messages.steps.clear()
        self.care.serve(self.now_ms)
        return self.desk.messages.steps

    def due_in(self) -> int | None:
        """In how many ms the plan is looked at again."""
        at = self.desk.server.zscore(names.PLANS, "id")
        return None if at is None else int(at) - self.now_ms


@pytest.fixture
def care(desk: Desk) -> Iterator[Care]:
    return Care(desk)  # type: ignore[return-value]


def test_a_planner_is_sent_when_no_claim_is_left_that_the_plan_waits_for(care: Care) -> None:
    first, second = care.wait_for(key(1), key(2))
    assert care.serve() == []
    assert care.due_in() == 1000
    care.index.publish(first.claim, record_of(first.claim.token))
    assert care.serve(999) == []
    assert care.serve(1) == []
    care.index.publish(second.claim, record_of(second.claim.token))
    assert care.serve(1000) == ["id"]
    assert care.due_in() == 10_000


def test_many_claims_are_looked_at_a_few_at_a_time(care: Care, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIMS_A_LOOK", 2)
    taken = care.wait_for(*keys(5))
    for one in taken[:4]:
        care.index.publish(one.claim, record_of(one.claim.token))
    assert [care.serve(1000) for _ in range(4)] == [[]] * 4
    care.index.publish(taken[4].claim, record_of(taken[4].claim.token))
    assert care.serve(1000) == ["id"]
    care.leave_off(*keys(5))  # a further step waits for other claims
    assert [len(care.serve(n)) for n in (0, 1000, 1000)] == [0, 0, 1]


def test_a_step_under_way_is_not_sent_again_before_its_time_is_over(care: Care) -> None:
    care.plans.postpone("id", T0)
    assert care.serve(59_999) == []
    care.plans.postpone("id", T0)
    assert care.serve(1) == ["id"]


def test_while_planners_messages_wait_no_more_are_sent(care: Care) -> None:
    care.leave_off()
    care.desk.messages.left.add("farm.jobs")
    assert care.serve() == []
    assert care.due_in() == 10_000
    care.desk.messages.left.clear()
    assert care.serve(10_000) == ["id"]


@pytest.mark.parametrize(("deadline", "poll"), [(5000, 10**9), (0, 5000), (10**8, 5000), (5000, 10**8)])
def test_a_planner_is_sent_at_the_deadline_and_from_time_to_time(care: Care, deadline: int, poll: int) -> None:
    care.wait_for(key(1))
    care.leave_off(key(1), deadline_ms=T0 + deadline if deadline else 0, poll_ms=T0 + poll)
    care.index.heartbeat(care.who)
    assert care.serve(4999) == []
    care.plans.postpone("id", T0)
    assert care.serve(1) == ["id"]


def lease_left(care: Care) -> int:
    return int(care.desk.server.zscore(f"{care.index.prefix}m:id", MEMBER)) - care.now_ms


def test_memberships_are_renewed_once_a_beat(care: Care) -> None:
    care.wait_for(key(1))
    care.serve(1000)
    assert lease_left(care) == LEASE
    care.serve(BEAT - 1)
    assert lease_left(care) == LEASE - BEAT + 1
    care.serve(1000)
    assert lease_left(care) == LEASE


def test_a_planner_is_sent_when_a_membership_is_lost(care: Care) -> None:
    care.wait_for(key(1))
    assert care.serve() == []
    care.index.end("id", care.who.incarnation, "keep", "operator", LEASE)
    assert care.serve(BEAT) == ["id"]


def test_after_the_answer_the_membership_is_kept_until_the_hold_is_over(care: Care) -> None:
    care.leave_off()
    care.plans.answered("id", T0 + 50_000, T0)
    assert care.serve() == []
    assert care.due_in() == BEAT
    assert care.serve(BEAT) == []
    assert lease_left(care) == LEASE
    assert care.serve(29_500) == []
    assert care.due_in() == 1000
    assert not isinstance(care.index.heartbeat(care.who), UnknownJob)
    assert care.serve(1000) == []
    assert care.due_in() is None
    assert isinstance(care.index.heartbeat(care.who), UnknownJob)


def test_of_a_plan_that_is_over_nothing_is_remembered(care: Care, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIMS_A_LOOK", 1)
    first, _ = care.wait_for(key(1), key(2))
    care.index.publish(first.claim, record_of(first.claim.token))
    care.serve()
    assert care.care._seen == {"id": 1}
    care.plans.answered("id", T0, T0)
    care.serve()
    assert (care.care._seen, care.care._beaten_ms) == ({}, {})


def test_a_hold_of_no_time_is_let_go_at_once_and_what_it_held_is_idle(care: Care) -> None:
    [taken] = care.wait_for(key(1))
    care.index.publish(taken.claim, record_of(taken.claim.token))
    care.plans.answered("id", T0, T0)
    care.serve()
    assert care.due_in() is None
    assert care.desk.server.zcard(f"{care.index.prefix}idle:1") == 1


def test_a_job_with_another_member_goes_on(care: Care) -> None:
    other = Member("id", "rank", "enable", 1, b"", LEASE)
    care.index.join(other)
    care.leave_off()
    care.plans.answered("id", T0, T0)
    care.serve()
    assert not isinstance(care.index.heartbeat(care.who), UnknownJob)


def test_a_plan_that_is_gone_is_forgotten(care: Care) -> None:
    care.desk.server.delete(names.PLAN + "id")
    care.serve(60_000)
    assert care.due_in() is None
