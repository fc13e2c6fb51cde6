"""What a job costs the server: 10,000 jobs of 200 operators on 1,000 workers, in one run.

python -m tests.sim.large [JOBS]      fewer of them cost less time and the same a job

Clients, workers and the coordinator are the product's own code, so the commands are those of a real farm. Nothing
fails, and what lies outside the server is left out: nodes have their kernels already, compiles take no time of ours.
"""

from __future__ import annotations

import functools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from farm.client import job as job_module
from farm.index.jobs import Holding
from farm.namespace import Namespace
from farm.settings import Settings
from tests.sim import actors
from tests.sim.actors import Plan
from tests.sim.compiler import SimToolchain, operator
from tests.sim.run import say, server_url
from tests.sim.workload import Plans, Swarm
from tests.sim.world import World

OPERATORS, HOT, OWN = 200, 2_000, 5
WORKERS = 1_000
#: Every so many-th call of a script is timed by the server itself.
SAMPLE = 23


@dataclass
class Meter:
    """The server's own figures, as differences; and by script how often it ran, and how long a call took."""

    world: World
    samples: Counter[str] = field(default_factory=Counter)
    sampled_us: Counter[str] = field(default_factory=Counter)
    sent_bytes: Counter[str] = field(default_factory=Counter)
    _before_us: int = 0
    _calls: int = 0

    def figures(self) -> dict[str, float]:
        """Bytes in and out, CPU seconds, commands."""
        raw = self.world.server.raw
        stats, cpu, memory = raw.info("stats"), raw.info("cpu"), raw.info("memory")
        return {
            "received": stats["total_net_input_bytes"], "sent": stats["total_net_output_bytes"],
            "cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"], "commands": stats["total_commands_processed"],
            "memory": memory["used_memory"],
        }  # fmt: skip

    def executed(self, name: str, call: tuple[Any, ...], reply: Any) -> None:
        """Told of each call; now and then the server is asked how long the script took."""
        self.sent_bytes[name] += sum(len(part) if isinstance(part, bytes | str) else 8 for part in call)
        self._calls += 1
        if self._calls % SAMPLE == 0:
            self._before_us = self._script_us()
        elif self._calls % SAMPLE == 1 and name.islower():
            self.samples[name] += 1
            self.sampled_us[name] += self._script_us() - self._before_us

    def _script_us(self) -> int:
        return int(self.world.server.raw.info("commandstats").get("cmdstat_evalsha", {}).get("usec", 0))


def farm_of(jobs: int) -> tuple[Swarm, Plans]:
    """Jobs come evenly over a quarter of an hour for each 10,000; most of what they ask for is there already."""
    dice = random.Random(1)
    span_ms = max(60_000, 900_000 * jobs // 10_000)
    farm = Swarm(
        settings=Settings(), environ={"ASCEND_MAX_OP_CACHE_SIZE": "10000"}, caches=("default",), socs=("soc1",),
        toolchains=(SimToolchain("alpha", "1.0"),), workers=WORKERS, slots=1, coordinators=2, crash_rate=0,
        kernel_bytes=100, load=0.3, inline_limit_bytes=64 * 1024, span_ms=span_ms,
    )  # fmt: skip
    hot = [operator(number, "soc1", "alpha", "ok", 200) for number in range(HOT)]
    plans: Plans = []
    for number in range(jobs):
        own = range(HOT + number * OWN, HOT + number * OWN + OWN)
        asked = dice.sample(hot, OPERATORS - OWN) + [operator(n, "soc1", "alpha", "ok", 200) for n in own]
        fates = {request.name: "ok" for request in asked}
        plan = Plan(f"job{number}", "enable", "default", "normal", asked, [], 20_000, None, True, fates)
        plans.append((dice.randrange(span_ms), plan))
    return farm, plans


class WarmNode(actors._Delivery):
    """The node has the kernel: the store is not read."""

    def fetch(self, namespace: Namespace, held: Holding) -> Mapping[str, Path]:
        return {"kernel.o": Path("there")}


@contextmanager
def nothing_but_the_server() -> Iterator[None]:
    """What a client computes of a request alone is computed once a request."""
    known: dict[tuple[str, str], Any] = {}
    real = job_module.prepare

    @functools.wraps(real)
    def prepare(request: Any, offer: Any) -> Any:
        asked = (request.name, offer.fingerprint)
        if asked not in known:
            known[asked] = real(request, offer)
        return known[asked]

    with patch.object(job_module, "prepare", prepare), patch.object(actors, "_Delivery", WarmNode):
        yield


def main(jobs: str = "10000") -> int:
    """Run and print the table."""
    with server_url() as url, nothing_but_the_server():
        began = time.monotonic()
        world = World(url, 1, *farm_of(int(jobs)), traced=False)
        meter = Meter(world)
        world.server.watch = meter.executed
        before = meter.figures()
        world.run_jobs()
        after = meter.figures()
        table(world, meter, int(jobs), {name: after[name] - before[name] for name in before})
        say(f"{world.outcomes['done']} jobs done in {world.scheduler.now_ms // 1000} virtual s, "
            f"{time.monotonic() - began:.0f} s here")  # fmt: skip
        return 0 if world.outcomes["done"] == int(jobs) else 1


def table(world: World, meter: Meter, jobs: int, used: dict[str, float]) -> None:
    """By script, then in all."""
    say(f"{'script or command':24}{'calls a job':>12}{'us a call':>12}{'us a job':>12}{'bytes sent a job':>18}")
    for name, calls in world.server.commands.most_common(24):
        us = meter.sampled_us[name] / meter.samples[name] if meter.samples[name] else 0
        shown = f"{us:12.0f}{us * calls / jobs:12.0f}" if us else f"{'':24}"
        say(f"{name:24}{calls / jobs:12.2f}{shown}{meter.sent_bytes[name] / jobs:18.0f}")
    calls = sum(world.server.commands.values())
    say(f"{'all':24}{calls / jobs:12.2f}{'':12}{used['cpu'] * 1e6 / jobs:12.0f} (CPU of the server, all of it)")
    say(f"network a job: {used['received'] / jobs:,.0f} bytes received, {used['sent'] / jobs:,.0f} sent by the server")
    peak = world.server.raw.info("memory")["used_memory_peak"]
    say(f"compiles: {world.checks.counts['compiles']}; memory: at most {peak / 1e6:.0f} MB, "
        f"at the end {used['memory'] / 1e6:.0f} MB more than at the start")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
