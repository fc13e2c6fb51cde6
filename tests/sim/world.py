"""One run: a farm of many processes on virtual time, its jobs and its faults, all from one seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import redis

from farm.addresses import Addresses
from farm.client.connection import Connection
from farm.errors import FarmUnavailable
from farm.index.index import Index
from farm.index.outcomes import Failure
from farm.index.registry import Registry
from farm.namespace import Namespace
from farm.store.errors import DiskFull
from tests.sim.actors import CoordinatorHost, MemberHost, Plan, WorkerHost
from tests.sim.broker import Broker, Post
from tests.sim.checkers import Checks
from tests.sim.compiler import Modelled
from tests.sim.course import PATIENCE_MS, Course
from tests.sim.faults import Faults
from tests.sim.scheduler import Process, Scheduler
from tests.sim.server import SimServer, load_scripts
from tests.sim.shelf import URL, Shelf
from tests.sim.threads import virtual
from tests.sim.trace import Trace
from tests.sim.wire import Network, Weather
from tests.sim.workload import Plans, Swarm, draw, usual_compile_ms


class World:
    """The farm and all that happens to it."""

    #: What a call ends with when the server does not answer.
    lost = (redis.ConnectionError, redis.TimeoutError)

    def __init__(self, url: str, seed: int, farm: Swarm, plans: Plans, *, traced: bool = True) -> None:
        self.seed = seed
        self.swarm = farm
        self.settings, self.environ = farm.settings, farm.environ
        self.chance = random.Random(seed)
        self.scheduler = Scheduler()
        self.server = SimServer(self.scheduler, url)
        self.trace = Trace(self.scheduler, traced)
        self.shelf = Shelf(self.scheduler, self.chance)
        self.checks = Checks(
            self.scheduler, self.server, self.shelf, round(self.settings.claim_lease_seconds * 1000),
            round(1000 * (self.settings.reconnect_seconds + 3 * self.settings.heartbeat_seconds)),
        )  # fmt: skip
        self.server.watch, self.shelf.watch = self.checks.called, self.checks.deleting
        self.network = Network(self.server, self.chance, self.trace)
        self.broker = Broker(self.scheduler, self.chance)
        self.plans = plans
        usual_ms = usual_compile_ms(farm, plans)
        self.modelled = Modelled(self.scheduler, self.chance, farm.crash_rate, farm.kernel_bytes, usual_ms)
        self._addresses = Addresses("sim://index", "sim://broker", "sim://results", URL)
        self.workers: list[WorkerHost] = []
        self.members: list[MemberHost] = []
        self.coordinators: list[CoordinatorHost] = []
        self.outcomes: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        #: The kinds of faults that it has.
        self.kinds: list[str] = []

    @classmethod
    def of_seed(cls, url: str, seed: int) -> World:
        """The farm, the jobs and the faults of a seed."""
        dice = random.Random(seed)
        world = cls(url, seed, *draw(dice))
        world.kinds = Faults(world, dice).schedule(world.swarm.span_ms)
        return world

    # -- who takes part --------------------------------------------------------------------------------

    def process(self, kind: str) -> Process:
        """A new process."""
        self._numbers[kind] += 1
        return Process(f"{kind}{self._numbers[kind]}")

    def connection(self, process: Process) -> Connection:
        """The farm as a process has found it."""
        wire = self.network.connect(process)
        return Connection(self.settings, self._addresses, wire, self.shelf.open(process), Registry(wire))

    def indexes(self, process: Process) -> list[Index]:
        """The namespaces that there can be."""
        server: Any = self.network.connect(process) if process.name.startswith("operator") else self.server.raw
        return [Index(server, namespace) for namespace in self.namespaces()]

    def namespaces(self) -> list[Namespace]:
        return [Namespace(cache, soc) for cache in self.swarm.caches for soc in self.swarm.socs]

    def start_worker(self) -> None:
        self.workers.append(WorkerHost(self, self.process("worker"), self.swarm.toolchains, self.swarm.slots))

    def start_coordinator(self) -> None:
        self.coordinators.append(CoordinatorHost(self, self.process("leader")))

    def start_member(self, plan: Plan) -> None:
        self.members.append(MemberHost(self, self.process("member"), plan, self._member_is_done))

    def _member_is_done(self, member: MemberHost) -> None:
        self.outcomes[member.outcome.partition(":")[0]] += 1
        self.members.remove(member)

    def kill(self, process: Process) -> None:
        self.scheduler.kill(process)
        self.trace.event(process.name, "is dead")
        for hosts in (self.workers, self.members, self.coordinators):
            for host in [host for host in hosts if host.process is process]:  # type: ignore[attr-defined]
                hosts.remove(host)  # type: ignore[attr-defined]
                if isinstance(host, MemberHost):
                    self.outcomes["killed"] += 1

    # -- what happens to it ------------------------------------------------------------------------------

    def restart_server(self, down_ms: int, data: str) -> None:
        self.server.restart(down_ms, data)
        if data != "kept":
            self.checks.data_were_lost()
        self.trace.event("server", f"is away for {down_ms} ms, its data: {data}")

    def calm(self) -> None:
        """Network, broker and messages are well again."""
        self.network.weather, self.broker.post, self.broker.is_down = Weather(), Post(), False

    def disturb_all(self) -> None:
        self.server.disturbed_ms = self.scheduler.now_ms

    def may_fail(self, failure: Failure) -> bool:
        """Whether an operator that compiles may fail so in this run."""
        is_disturbed = bool(self.kinds) or self.swarm.crash_rate > 0
        return is_disturbed and failure.kind in ("transient", "no_worker")

    def summary(self) -> str:
        """How large the run was, and what it came to."""
        jobs, counts = len({plan.job for _, plan in self.plans}), self.checks.counts
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        told = ("faults", "compiles", "again", "answers", "pins", "looks")
        seen = ", ".join(f"{counts[name]} {name}" for name in told)
        return (
            f"{jobs} jobs, {len(self.plans)} members ({outcomes}), {self._numbers['worker']} workers; {seen}; "
            f"{sum(self.server.commands.values())} calls in {self.scheduler.now_ms // 1000} virtual s"
        )

    def explains(self, error: FarmUnavailable) -> bool:
        """Whether a member had to give up: it was away for as long as the settings allow, or a disk was full."""
        if isinstance(error, DiskFull) or error.message.startswith("mode force"):
            return bool(self.kinds)
        since_ms = self.scheduler.now_ms - round(1000 * self.settings.reconnect_seconds)
        outages = [(max(begin, since_ms), end) for begin, end in self.server.outages + self.shelf.outages]
        return sum(max(0, end - begin) for begin, end in outages) > (self.scheduler.now_ms - since_ms) // 2

    # -- the run -----------------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it; raises Broken, or whatever else went wrong."""
        with self.in_place():
            self.begin()
            Course(self).run()

    def run_jobs(self) -> None:
        """The jobs alone: nothing fails, nothing is looked at."""
        with self.in_place():
            self.begin()
            self.scheduler.run(self.swarm.span_ms + PATIENCE_MS, self.all_are_done)

    def begin(self) -> None:
        """An empty server, and everybody comes."""
        self.server.raw.flushdb()
        load_scripts(self.server.raw)
        for _ in range(self.swarm.coordinators):
            self.start_coordinator()
        for _ in range(self.swarm.workers):
            self.start_worker()
        for at_ms, plan in self.plans:
            self.scheduler.after(at_ms + 1, partial(self.start_member, plan))

    def all_are_done(self) -> bool:
        """Whether no member is left, nor one to come."""
        return self.outcomes.total() == len(self.plans)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The product's modules have our clock, threads, broker and compiler."""
        with ExitStack() as stack:
            stack.enter_context(virtual(self.scheduler, random.Random(self.seed)))
            stack.enter_context(self.broker.in_place_of_celery())
            stack.enter_context(patch("workers.compile.runner", self.modelled))
            limit = self.swarm.inline_limit_bytes
            stack.enter_context(patch("farm.client.claiming.INLINE_LIMIT_BYTES", limit))
            stack.enter_context(patch("farm.client.compilation._WAIT_MS", 2_000))
            yield
