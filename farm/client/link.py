"""Calls to the index that survive an outage: tried again, visibly, for as long as the settings allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from redis.exceptions import RedisError

from farm.client.connection import unavailable
from farm.index.passing import is_passing

T = TypeVar("T")

_LONGEST_PAUSE_SECONDS = 1.0


class Link:
    """Wraps calls that are safe to send again; every operation of the index is."""

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

        Raises:
            FarmUnavailable: no answer for ``reconnect_seconds``: the farm is gone, the launcher decides.
            FarmRefused: the server refuses this user.
        """
        pause, deadline = 0.05, None
        while True:
            try:
                answer = operation()
            except (RedisError, OSError) as error:
                deadline = deadline or time.monotonic() + self.reconnect_seconds
                if not is_passing(error) or time.monotonic() >= deadline:
                    raise unavailable(self.url, error) from None
                self._lose(error)
                self.closed.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            else:
                self._find()
                return answer

    def _lose(self, error: Exception) -> None:
        if not self._lost:
            self._lost = True
            self.say(f"farm lost ({error}); trying for {self.reconnect_seconds:g} s")

    def _find(self) -> None:
        if self._lost:
            self._lost = False
            self.reconnects += 1
            self.say("farm is back")
