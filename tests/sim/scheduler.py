"""Virtual time: a heap of steps, and actors that run the product's own code one at a time.

An actor is a greenlet: wherever the code in it waits (for the server, the store, a clock, an event), the scheduler
goes on with whatever is next. So code that was written for threads runs unchanged, in one thread, in an order that
one seed decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Process:
    """What lives, is paused and dies together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.paused_until_ms = 0
        self.actors: list[Actor] = []
        #: When it was last kept from doing its work: it was paused, or a call of it went wrong.
        self.disturbed_ms = -(10**12)


class Actor(greenlet):
    """One line of work in a process."""

    def __init__(self, process: Process, work: Callable[[], Any], hub: greenlet) -> None:
        super().__init__(work, hub)
        self.process = process
        #: Counts its waits: a wake-up for an earlier one is void.
        self.turn = 0


class Scheduler:
    """The heap of what is to come: (virtual ms, sequence, step)."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._heap: list[tuple[int, int, Callable[[], Any]]] = []
        self._sequence = count()
        self._hub = getcurrent()

    def after(self, delay_ms: int, step: Callable[[], Any]) -> None:
        """Have a step done so much later."""
        heapq.heappush(self._heap, (self.now_ms + delay_ms, next(self._sequence), step))

    def run(self, until_ms: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Do what is due up to a time, or until nothing is left to be done."""
        while self._heap and self._heap[0][0] <= until_ms and not is_over():
            self.now_ms, _, step = heapq.heappop(self._heap)
            step()
        if not is_over():
            self.now_ms = max(self.now_ms, until_ms)

    # -- actors ----------------------------------------------------------------------------------------

    @property
    def current(self) -> Actor:
        """Who works now."""
        actor = getcurrent()
        assert isinstance(actor, Actor), "only actors wait"
        return actor

    def spawn(self, process: Process, work: Callable[[], Any]) -> Actor:
        """Begin a line of work in a process, after the current step."""
        actor = Actor(process, work, self._hub)
        process.actors = [one for one in process.actors if not one.dead] + [actor]
        self.after(0, partial(self._resume, actor, 0))
        return actor

    def wait(self, timeout_ms: int | None) -> None:
        """The current actor waits for that long, or until it is woken."""
        actor = self.current
        self.check_alive()
        actor.turn += 1
        if timeout_ms is not None:
            self.after(max(0, timeout_ms), partial(self._resume, actor, actor.turn))
        self._hub.switch()
        self.check_alive()

    def wake(self, actor: Actor, turn: int) -> None:
        """Let an actor go on from the wait that had this number."""
        self.after(0, partial(self._resume, actor, turn))

    def check_alive(self) -> None:
        """A dead process does nothing more, not even what its code does last in any case."""
        if not self.current.process.is_alive:
            raise GreenletExit

    def _resume(self, actor: Actor, turn: int) -> None:
        if actor.dead or actor.turn != turn:
            return
        if actor.process.paused_until_ms > self.now_ms:
            self.after(actor.process.paused_until_ms - self.now_ms, partial(self._resume, actor, turn))
            return
        actor.switch()

    # -- what happens to processes: steps of the hub, never of an actor ----------------------------------

    def kill(self, process: Process) -> None:
        """It is gone between two steps, wherever it was."""
        process.is_alive = False
        for actor in process.actors:
            if not actor.dead:
                actor.throw(GreenletExit)

    def pause(self, process: Process, ms: int) -> None:
        """It does nothing for so long, and then goes on as if nothing had been."""
        process.paused_until_ms = max(process.paused_until_ms, self.now_ms + ms)
        process.disturbed_ms = process.paused_until_ms
