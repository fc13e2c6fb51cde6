"""Whole farms on virtual time: some seeds, that a seed is one run, and that the checkers find what they are for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from farm.client.part import Part
from farm.coordinator import reap, sweep
from farm.coordinator.space import Space
from farm.embedded.server import Server
from tests.sim.checkers import Broken
from tests.sim.world import World

#: Small farms: one that is calm, one with messages and workers lost, one in which everything goes wrong.
SEEDS = [11, 3, 21]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_farm_keeps_its_promises_whatever_happens(server: Server, seed: int) -> None:
    world = World.of_seed(server.url, seed)
    world.run()
    assert world.checks.counts["answers"] > 10
    assert world.checks.counts["looks"] > 10


def test_a_seed_is_one_run(server: Server) -> None:
    traces = []
    for _ in range(2):
        world = World.of_seed(server.url, SEEDS[0])
        world.run()
        traces.append(world.trace)
    assert len(traces[0].lines) > 1000
    assert traces[0].lines == traces[1].lines
    assert traces[0].digest() == traces[1].digest()


def test_a_seed_is_one_run_in_every_process() -> None:
    """Python's own hashes, which order its sets, are others in each."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sim.run", "one", str(SEEDS[2])], text=True, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": number},
        )
        for number in ("1", "2")
    ]  # fmt: skip
    one, other = (re.findall("trace ([0-9a-f]{32})", run.communicate()[0]) for run in runs)
    assert one == other
    assert len(one) == 1


def unpurged(part: Part, timeout_seconds: float) -> int:
    """A force job that does not ask for its purge."""
    return part.index.generation()


def careless(space: Space) -> int:
    """A sweep that deletes an object which nobody has condemned."""
    for chunk in space.index.entries():
        for generation, key, token in chunk:
            space.store.delete(f"{space.index.namespace}/{generation}/{key.hex()}-{token}")
    return 0


def impatient(space: Space) -> Any:
    """A leader that takes claims from workers whose leases are not over."""
    with patch.object(space.index, "now_ms", 1_900_000_000_000):
        space.index.reclaim(space.rules)
    return reap.ReapReport(0, 0, 0)


FAULTS = {
    "was promised": lambda: patch.object(Part, "_purge", unpurged),
    "is deleted and is an entry": lambda: patch.object(sweep, "sweep", careless),
    "lost its claim .* for no reason|is compiled again": lambda: patch.object(reap, "reap", impatient),
}


@pytest.mark.parametrize("found", FAULTS)
def test_the_checkers_find_what_they_are_for(server: Server, found: str) -> None:
    planted: AbstractContextManager[object] = FAULTS[found]()
    with planted, pytest.raises(Broken, match=found):
        for seed in (7, 21, 104):
            World.of_seed(server.url, seed).run()
