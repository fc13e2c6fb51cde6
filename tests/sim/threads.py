"""Clocks, threads, locks and chance as the product's modules know them, on virtual time and one seed."""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.sim.scheduler import Actor, Scheduler

#: Virtual time begins here (ms since 1970).
T0_MS = 1_800_000_000_000


class Clock:
    """Stands for the module ``time``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        return self._scheduler.now_ms / 1000

    def time(self) -> float:
        return (T0_MS + self._scheduler.now_ms) / 1000

    def sleep(self, seconds: float) -> None:
        self._scheduler.wait(round(seconds * 1000))


class Event:
    """As ``threading.Event``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[tuple[Actor, int]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for actor, turn in waiting:
            self._scheduler.wake(actor, turn)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            me = self._scheduler.current
            self._waiting.append((me, me.turn + 1))
            self._scheduler.wait(None if timeout is None else round(timeout * 1000))
            self._waiting = [(actor, turn) for actor, turn in self._waiting if actor is not me]
        return self._set


class Thread:
    """As ``threading.Thread``: another line of work in the process of whoever starts it."""

    def __init__(self, scheduler: Scheduler, target: Callable[[], Any], name: str = "", daemon: bool = True) -> None:
        self._scheduler = scheduler
        self._target = target
        self._actor: Actor | None = None

    def start(self) -> None:
        self._actor = self._scheduler.spawn(self._scheduler.current.process, self._target)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.dead

    def join(self, timeout: float) -> None:
        until_ms = self._scheduler.now_ms + round(timeout * 1000)
        while self.is_alive() and self._scheduler.now_ms < until_ms:
            self._scheduler.wait(10)


class RLock:
    """As ``threading.RLock``, among actors."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Actor | None = None
        self._depth = 0
        self._waiting: list[tuple[Actor, int]] = []

    def __enter__(self) -> None:
        while self._holder is not None and self._holder is not self._scheduler.current and not self._holder.dead:
            self._waiting.append((self._scheduler.current, self._scheduler.current.turn + 1))
            self._scheduler.wait(None)
        self._holder = self._scheduler.current
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            waiting, self._waiting = self._waiting, []
            for actor, turn in waiting:
                self._scheduler.wake(actor, turn)


class Inline:
    """As ``ThreadPoolExecutor``, but what is submitted is done at once."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *items: Any) -> list[Any]:
        return list(map(work, *items))

    def shutdown(self, **_: object) -> None: ...

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...


@contextmanager
def virtual(scheduler: Scheduler, chance: random.Random) -> Iterator[None]:
    """Until the end of the block, every module of the farm and its workers has these for the real ones."""
    event, thread, rlock = (partial(kind, scheduler) for kind in (Event, Thread, RLock))
    instead: list[tuple[object, object]] = [
        (time, Clock(scheduler)),
        (threading, SimpleNamespace(Event=event, Thread=thread, RLock=rlock, Lock=threading.Lock)),
        (threading.Event, event),
        (threading.Thread, thread),
        (threading.RLock, rlock),
        (ThreadPoolExecutor, Inline),
        (secrets, SimpleNamespace(token_hex=lambda size: chance.randbytes(size).hex())),
    ]
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("farm", "workers")]
    with ExitStack() as stack:
        for module in modules:
            for name, value in list(vars(module).items()):
                for real, ours in instead:
                    if value is real:
                        stack.enter_context(patch.object(module, name, ours))
        yield
