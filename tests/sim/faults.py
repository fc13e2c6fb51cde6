"""What goes wrong, when and how often: all from the seed. Each fault is a step of the hub, and is over by itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from farm.errors import FarmError
from farm.index import names
from farm.index.index import Index
from farm.namespace import BundleId
from tests.sim.checkers import is_bundle
from tests.sim.wire import Weather

if TYPE_CHECKING:
    from tests.sim.scheduler import Process
    from tests.sim.world import World

#: A replica lacks what the server was told in this time before it was lost.
FAILOVER_MS = 1_000


class Faults:
    """The faults of one run: some kinds of them, at times of their own."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._kinds: list[Callable[[], Any]] = [
            self.worker_dies, self.worker_pauses, self.worker_stops, self.member_dies, self.member_pauses,
            self.coordinator_dies, self.coordinator_pauses, self.leader_changes, self.server_restarts,
            self.server_is_emptied, self.server_fails_over, self.network_is_bad, self.post_is_bad,
            self.broker_is_away, self.store_is_away, self.disk_is_full, self.object_is_lost, self.object_is_damaged,
            self.clock_jumps, self.clock_goes_back, self.somebody_purges, self.somebody_ends_a_job,
            self.somebody_rebuilds,
        ]  # fmt: skip

    def schedule(self, span_ms: int) -> list[str]:
        """Draw them; returns the kinds that this run has."""
        dice, scheduler = self._dice, self._world.scheduler
        kinds = dice.sample(self._kinds, k=dice.choice([0, 2, 4, 8, len(self._kinds)]))
        for _ in range(dice.choice([5, 15, 40]) if kinds else 0):
            scheduler.after(dice.randrange(span_ms), partial(self._strike, dice.choice(kinds)))
        return sorted(kind.__name__ for kind in kinds)

    def _strike(self, fault: Callable[[], Any]) -> None:
        self._world.trace.event("fault", fault.__name__)
        self._world.checks.counts["faults"] += 1
        fault()

    # -- processes -------------------------------------------------------------------------------------

    def worker_dies(self) -> None:
        if host := self._one_of(self._world.workers):
            self._world.kill(host.process)
            self._world.scheduler.after(self._dice.randrange(60_000), self._world.start_worker)

    def worker_stops(self) -> None:
        if host := self._one_of(self._world.workers):
            host.process.disturbed_ms = self._world.scheduler.now_ms
            host.stop()
            self._world.scheduler.after(30_000, partial(self._world.kill, host.process))
            self._world.scheduler.after(self._dice.randrange(60_000), self._world.start_worker)

    def worker_pauses(self) -> None:
        lease_ms = round(self._world.settings.claim_lease_seconds * 1000)
        self._pause(self._one_of(self._world.workers), lease_ms * 3)

    def member_dies(self) -> None:
        if host := self._one_of(self._world.members):
            self._world.kill(host.process)

    def member_pauses(self) -> None:
        lease_ms = round(self._world.settings.job_lease_seconds * 1000)
        self._pause(self._one_of(self._world.members), lease_ms * 2)

    def coordinator_dies(self) -> None:
        if host := self._one_of(self._world.coordinators):
            self._world.kill(host.process)
            self._world.scheduler.after(self._dice.randrange(40_000), self._world.start_coordinator)

    def coordinator_pauses(self) -> None:
        self._pause(self._one_of(self._world.coordinators), 60_000)

    def leader_changes(self) -> None:
        if host := self._one_of(self._world.coordinators):
            host.stop()
            self._world.scheduler.after(20_000, partial(self._world.kill, host.process))
            self._world.scheduler.after(self._dice.randrange(5_000), self._world.start_coordinator)

    def _pause(self, host: Any, longest_ms: int) -> None:
        if host:
            self._world.trace.event("fault", f"{host.process.name} is paused")
            self._world.scheduler.pause(host.process, self._dice.randrange(1_000, longest_ms))

    def _one_of(self, hosts: list[Any]) -> Any:
        alive = [host for host in hosts if host.process.is_alive]
        return self._dice.choice(alive) if alive else None

    # -- server, network, broker -----------------------------------------------------------------------

    def server_restarts(self) -> None:
        self._world.restart_server(self._dice.randrange(100, 20_000), "kept")

    def server_is_emptied(self) -> None:
        self._world.restart_server(self._dice.randrange(100, 20_000), "lost")

    def server_fails_over(self) -> None:
        self._world.server.take_image()
        later = partial(self._world.restart_server, self._dice.randrange(10, 5_000), "image")
        self._world.scheduler.after(self._dice.randrange(FAILOVER_MS), later)

    def network_is_bad(self) -> None:
        network = self._world.network
        lost, unanswered, late, slow = (self._dice.choice([0, 0.01, 0.05]) for _ in range(4))
        network.weather = Weather(lost, unanswered, late, slow)
        self._world.scheduler.after(self._dice.randrange(30_000), self._world.calm)

    def post_is_bad(self) -> None:
        post = self._world.broker.post
        post.lost, post.doubled, post.late = (self._dice.choice([0, 0.1, 0.5]) for _ in range(3))
        self._world.scheduler.after(self._dice.randrange(60_000), self._world.calm)

    def broker_is_away(self) -> None:
        self._world.broker.is_down = True
        if self._dice.random() < 0.5:
            self._world.broker.lose_all()
        self._world.scheduler.after(self._dice.randrange(30_000), self._world.calm)

    def clock_jumps(self) -> None:
        """The server's clock is set: everyone's deadlines may be over at once."""
        self._world.disturb_all()
        self._world.server.offset_ms += self._dice.choice([1_000, 15_000, 400_000, 4_000_000])

    def clock_goes_back(self) -> None:
        self._world.disturb_all()
        self._world.server.offset_ms -= self._dice.randrange(2_000)

    # -- store -------------------------------------------------------------------------------------------

    def store_is_away(self) -> None:
        self._world.shelf.go_away(self._dice.randrange(30_000))

    def disk_is_full(self) -> None:
        self._world.shelf.full_until_ms = self._world.scheduler.now_ms + self._dice.randrange(30_000)

    def object_is_lost(self) -> None:
        if path := self._some_bundle():
            del self._world.shelf.objects[path]

    def object_is_damaged(self) -> None:
        if path := self._some_bundle():
            data = bytearray(self._world.shelf.objects[path])
            data[self._dice.randrange(len(data))] ^= 1
            self._world.shelf.objects[path] = bytes(data)

    def _some_bundle(self) -> str | None:
        paths = sorted(path for path in self._world.shelf.objects if is_bundle(path) and "#" not in path)
        path = self._dice.choice(paths) if paths else None
        if path and (found := BundleId.parse(path.split("/", 2)[2])):
            self._world.checks.spoilt.add(found)
            self._world.trace.event("fault", f"{path} is spoilt")
        return path

    # -- people ------------------------------------------------------------------------------------------

    def somebody_purges(self) -> None:
        self._as_operator(lambda index: index.ask_purge(f"operator-{self._world.scheduler.now_ms}"))

    def somebody_ends_a_job(self) -> None:
        how, host = self._dice.choice(["keep", "cancel"]), self._one_of(self._world.members)
        lease_ms = round(self._world.settings.job_lease_seconds * 1000)

        def end(index: Index) -> None:
            incarnation = index.server.hget(f"{index.prefix}j:{host.plan.job}", "incarnation")
            if incarnation:
                index.end(host.plan.job, int(incarnation), how, "operator", lease_ms)

        if host:
            self._as_operator(end)

    def somebody_rebuilds(self) -> None:
        self._world.server.raw.hset(names.CHORES, "rebuild_asked", f"operator-{self._world.scheduler.now_ms}")

    def _as_operator(self, act: Callable[[Index], Any]) -> None:
        """A command of a person: if the farm does not answer now, nothing comes of it."""
        process: Process = self._world.process("operator")

        def run() -> None:
            for index in self._world.indexes(process):
                try:
                    act(index)
                except (FarmError, OSError, *self._world.lost):
                    return

        self._world.scheduler.spawn(process, run)
