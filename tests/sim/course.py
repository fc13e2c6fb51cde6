"""The course of a run: looks while things go wrong, then all become well, every member ends, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from farm.index import names
from tests.sim.actors import MemberHost
from tests.sim.checkers import Broken

if TYPE_CHECKING:
    from tests.sim.world import World

#: A member that is not done this long after everything has become well again never will be.
PATIENCE_MS = 3_600_000
_LOOK_EVERY_MS = 15_000


class Course:
    """One run of a world in which everybody has begun."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scheduler = world.scheduler

    def run(self) -> None:
        """All of it; raises Broken, or whatever else went wrong."""
        world, scheduler = self._world, self._scheduler
        scheduler.after(_LOOK_EVERY_MS, self._look)
        world.server.expire()
        scheduler.run(world.swarm.span_ms + 1)
        self._get_well()
        scheduler.run(scheduler.now_ms + PATIENCE_MS, world.all_are_done)
        if not world.all_are_done():
            stuck = [member.process.name for member in world.members[:1]]
            raise Broken(f"{len(world.members)} members never end, {stuck} among them", *stuck)
        self._drain()

    def _get_well(self) -> None:
        world = self._world
        world.calm()
        for start, hosts in ((world.start_worker, world.workers), (world.start_coordinator, world.coordinators)):
            if not hosts:
                start()
        world.trace.event("all", "no more faults")

    # -- what lives keeps what it has ------------------------------------------------------------------

    def _look(self) -> None:
        world = self._world
        snapshots = {namespace: world.checks.look(namespace) for namespace in world.namespaces()}
        if not world.checks.is_recovering() and not world.server.is_down:
            for member in filter(self._is_healthy, world.members):
                for namespace, (run, holdings) in member.holds().items():
                    for held in holdings:
                        world.checks.is_kept(snapshots[namespace], run, held)
        self._scheduler.after(world.chance.randrange(1, 2 * _LOOK_EVERY_MS), self._look)

    def _is_healthy(self, member: MemberHost) -> bool:
        """Whether it could renew its lease all the time, and announce what it holds."""
        since_ms = self._scheduler.now_ms - round(3000 * self._world.settings.heartbeat_seconds)
        return max(member.process.disturbed_ms, self._world.server.disturbed_ms) < since_ms

    # -- what is left ----------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Everybody has left: what they have left behind goes, and the store is searched for what is nobody's."""
        world, scheduler, settings = self._world, self._scheduler, self._world.settings
        for host in world.coordinators[1:]:
            scheduler.kill(host.process)
        longest_ms = round(1000 * (3 * settings.job_lease_seconds + settings.sweep_grace_seconds)) + 120_000
        scheduler.run(scheduler.now_ms + longest_ms, self._every(10_000, self._is_drained))
        world.server.raw.hset(names.CHORES, "rebuild_asked", "at the end")
        scheduler.run(scheduler.now_ms + 30_000)
        scheduler.run(scheduler.now_ms + longest_ms, self._every(10_000, self._is_drained))
        for problem in self._left():
            raise problem

    def _is_drained(self) -> bool:
        return not any(self._left())

    def _left(self) -> Iterator[Broken]:
        for namespace in self._world.namespaces():
            snapshot = self._world.checks.look(namespace)
            if snapshot.generation:
                yield from self._world.checks.left(snapshot)

    def _every(self, ms: int, question: Callable[[], bool]) -> Callable[[], bool]:
        """The question, asked once in so much time."""
        next_ms = self._scheduler.now_ms

        def asked() -> bool:
            nonlocal next_ms
            if self._scheduler.now_ms < next_ms:
                return False
            next_ms = self._scheduler.now_ms + ms
            return question()

        return asked
