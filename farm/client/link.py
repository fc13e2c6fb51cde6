"""Calls to index and store that survive an outage: tried again, visibly, for as long as the settings allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from redis.exceptions import RedisError

from farm.client.connection import unavailable
from farm.errors import FarmError, FarmUnavailable
from farm.index.passing import is_passing
from farm.store.errors import DiskFull

T = TypeVar("T")

_LONGEST_PAUSE_SECONDS = 1.0


class Link:
    """Wraps calls that are safe to send again; every operation of index and store is."""

    def __init__(self, url: str, reconnect_seconds: float, say: Callable[[str], None]) -> None:
        self.url = url
        self.reconnect_seconds = reconnect_seconds
        self.say = say
        #: Times that a lost connection came back; whoever holds something announces it when this grows.
        self.reconnects = 0
        self.closed = Event()
        self._lost = False

    def call(self, operation: Callable[[], T]) -> T:
        """Run the operation until it answers.

        The last try begins when the time is over: who was paused meanwhile has not tried at all.

        Raises:
            FarmUnavailable: no answer for ``reconnect_seconds``: the farm is gone, the launcher decides. A store
                whose disk is full is told of at once: that does not pass by itself.
            FarmRefused: the server refuses this user.
        """
        pause, deadline = 0.05, None
        while True:
            began = time.monotonic()
            try:
                answer = operation()
            except (RedisError, OSError, FarmUnavailable) as error:
                deadline = deadline or began + self.reconnect_seconds
                if not _may_pass(error) or began >= deadline:
                    raise self._told(error) from None
                self._lose(error)
                self.closed.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            else:
                self._find()
                return answer

    def _told(self, error: Exception) -> FarmError:
        return error if isinstance(error, FarmUnavailable) else unavailable(self.url, error)

    def _lose(self, error: Exception) -> None:
        if not self._lost:
            self._lost = True
            self.say(f"farm lost ({error}); trying for {self.reconnect_seconds:g} s")

    def _find(self) -> None:
        if self._lost:
            self._lost = False
            self.reconnects += 1
            self.say("farm is back")


def _may_pass(error: Exception) -> bool:
    return not isinstance(error, DiskFull) if isinstance(error, FarmUnavailable) else is_passing(error)
