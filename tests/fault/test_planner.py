"""A planner, the coordinator or the result backend dies in mid submission: the job ends, its result arrives, once."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_planner import Client, outcomes
from tests.support.kit import op, running, until
from tests.support.led import SHORT, log_of, start_leader, start_planner

SOON = 40


def answer(client: Client, result: Any) -> dict[str, Any]:
    """The result; it comes once: what is stored later, if anything, is the same."""
    document: dict[str, Any] = result.get(timeout=SOON)
    return document


@pytest.mark.parametrize("where", ["before_begin", "after_begin", "before_result", "after_result"])
def test_a_planner_that_dies_is_followed_by_another(tmp_path: Path, where: str) -> None:
    with running(tmp_path, **SHORT) as kit:
        start_leader(kit)
        doomed = start_planner(kit, FARM_FAILPOINT=f"planner.{where}:kill")
        client = Client(kit)
        result = client.send(op(kit, "one"), op(kit, "two"), id="train")
        until(lambda: doomed.poll() is not None, SOON, "it dies there")
        start_planner(kit)
        document = answer(client, result)
        assert (document["state"], document["job_id"]) == ("done", "train")
        assert outcomes(document) == ["compiled", "compiled"]
        assert (kit.compiles("one"), kit.compiles("two")) == (1, 1)
        until(lambda: kit.redis().hget("opfarm:{farm}:plan:train", "answered"), SOON, "nothing is left to do")
        del result
        gc.collect()


def test_the_coordinator_and_all_planners_die_while_it_is_compiled(tmp_path: Path) -> None:
    with running(tmp_path, **SHORT) as kit:
        leader, planner = start_leader(kit), start_planner(kit)
        client, gate = Client(kit), tmp_path / "gate"
        result = client.send(op(kit, "one", gate=str(gate)), id="train")
        until(lambda: kit.redis().hget("opfarm:{farm}:plan:train", "progress"), SOON, "its first step is over")
        kit.kill(leader)
        kit.kill(planner)
        gate.touch()
        start_leader(kit)
        start_planner(kit)
        assert outcomes(answer(client, result)) == ["compiled"]
        assert kit.compiles("one") == 1
        del result
        gc.collect()


def test_a_result_backend_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """A server of its own for results; it is stopped before the answer is there, and comes back."""
    with running(tmp_path / "farm", **SHORT) as kit, running(tmp_path / "results", workers=0) as backend:
        backend.kill_server()
        kit.env["FARM_RESULT_URL"] = f"redis+socket://{backend.socket}?virtual_host=0"
        start_leader(kit)
        planner = start_planner(kit)
        Client(kit).send_raw({"version": 1, "soc": "test-soc", "ops": [op(kit, "one")]}, id="train")
        until(lambda: "does not take the result" in log_of(kit, planner), SOON, "the backend is missed")
        backend.start_server()
        assert not backend.redis().exists("celery-task-meta-train")
        until(lambda: backend.redis().get("celery-task-meta-train"), SOON, "the result arrives")
        assert b'"state": "done"' in backend.redis().get("celery-task-meta-train")
