"""The index answers as its model does, to any calls of members, workers and leaders in any order."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from farm.embedded.server import Server
from tests.property.farm import Farm

#: Set for a long search at random (make property): so many examples. One that fails is tried first in the next run.
EXAMPLES = os.environ.get("PROPERTY_EXAMPLES")

ALWAYS = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
FIXED = settings(ALWAYS, derandomize=True, max_examples=30, stateful_step_count=200)
LONG = settings(ALWAYS, max_examples=int(EXAMPLES or 1), stateful_step_count=200)


@pytest.mark.timeout(0 if EXAMPLES else 300)
def test_index_is_as_its_model(server: Server) -> None:
    run_state_machine_as_test(
        lambda: Farm(server.url),  # type: ignore[arg-type]
        settings=LONG if EXAMPLES else FIXED,
    )
