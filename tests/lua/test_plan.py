"""plan: a submission is kept once, one step of it is under way at a time, and after its answer there is none."""

from __future__ import annotations

import pytest

from farm.index import names
from farm.index.plans import Plans, Progress
from tests.lua.world import T0, World

STEP_MS = 60_000


@pytest.fixture
def plans(world: World) -> Plans:
    return Plans(world.redis, now_ms=T0)


def pass_time(plans: Plans, ms: int) -> None:
    plans.now_ms = (plans.now_ms or 0) + ms


def test_a_step_is_begun_once_until_its_time_is_over(plans: Plans) -> None:
    plan = plans.begin("id", {"ops": []}, {"mode": "force"}, STEP_MS)
    assert plan and (plan.manifest, plan.options, plan.created_ms) == ({"ops": []}, {"mode": "force"}, T0)
    assert plans.begin("id", {"ops": []}, {}, STEP_MS) is None
    pass_time(plans, STEP_MS - 1)
    assert plans.begin("id", None, None, STEP_MS) is None
    pass_time(plans, 1)
    again = plans.begin("id", {"ops": [1]}, {}, STEP_MS)
    assert again == plan, "the first document counts"
    assert plans.begin("id", None, None, STEP_MS) is None


def test_a_step_that_was_left_off_is_followed_by_the_next(plans: Plans) -> None:
    plans.begin("id", {}, {}, STEP_MS)
    progress = Progress(deadline_ms=7)
    plans.leave_off("id", progress, T0 + 1000, T0 + 5000)
    assert plans.due(T0 + 999, 9) == []
    assert plans.due(T0 + 1000, 9) == ["id"]
    plan = plans.begin("id", None, None, STEP_MS)
    assert plan and plan.progress == progress
    assert plans.due(T0 + STEP_MS - 1, 9) == [], "the coordinator looks when the step's time is over"
    assert plans.due(T0 + STEP_MS, 9) == ["id"]


def test_what_is_unknown_is_not_begun_without_its_document(plans: Plans) -> None:
    assert plans.begin("id", None, None, STEP_MS) is None
    assert not plans.server.exists(names.PLAN + "id")
    assert plans.look("id") is None


def test_after_the_answer_no_step_is_begun_however_late_a_message_comes(plans: Plans) -> None:
    plan = plans.begin("id", {}, {}, STEP_MS)
    assert plan
    plans.answered("id", T0 + 1000, T0)
    pass_time(plans, STEP_MS)
    assert plans.begin("id", {}, {}, STEP_MS) is None
    plans.forget("id")
    assert plans.begin("id", {}, {}, STEP_MS) is None
    assert plans.due(T0 + 10**9, 9) == []
