"""Celery's thread pool, made to wake the worker's event loop when a slot becomes free.

A worker that prefetches nothing asks the broker only while a slot is free, and looks again once per turn of its
event loop. The end of a thread turns no loop: without this each slot would start one compile a second at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery.concurrency import thread


class TaskPool(thread.TaskPool):  # type: ignore[misc]
    """Threads whose end is seen by the event loop at once."""

    #: Called before the threads are waited for; every way in which Celery ends comes through here.
    before_stop: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def register_with_event_loop(self, loop: Any) -> None:
        """Called at each connection to the broker."""
        loop.add_reader(self._wake_read, self._drain)

    def on_apply(self, *args: Any, **kwargs: Any) -> Any:
        """Run in a thread; its end, with all of Celery's callbacks, writes to the pipe."""
        result = super().on_apply(*args, **kwargs)
        result.f.add_done_callback(self._wake)
        return result

    def on_stop(self) -> None:
        """Stop what runs in the threads, then wait for them."""
        type(self).before_stop()
        super().on_stop()

    def terminate_job(self, pid: int, signal: str | None = None) -> None:
        """A thread can not be killed; a cold shutdown asks for it and stops the pool next."""

    def _wake(self, _: Any) -> None:
        with suppress(BlockingIOError):  # full: the loop is awake anyway
            os.write(self._wake_write, b"\0")

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
