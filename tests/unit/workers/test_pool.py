"""The end of a compile wakes the worker's event loop: else each slot would begin one compile a second."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable

from workers.pool import TaskPool


class Loop:
    """What Celery's event loop offers a pool."""

    def add_reader(self, descriptor: int, call: Callable[[], None]) -> None:
        self.descriptor, self.call = descriptor, call

    def is_woken(self, seconds: float) -> bool:
        return bool(select.select([self.descriptor], [], [], seconds)[0])


def test_a_free_slot_wakes_the_loop_once_and_after_it() -> None:
    pool, loop, gate = TaskPool(limit=2), Loop(), threading.Event()
    pool.register_with_event_loop(loop)
    try:
        pool.on_apply(gate.wait, (10,), {}, callback=lambda *_: None, accept_callback=lambda *_: None)
        assert not loop.is_woken(0.05)
        gate.set()
        assert loop.is_woken(5)
        loop.call()
        assert not loop.is_woken(0)
    finally:
        gate.set()
        pool.on_stop()
