"""Calls that outlast an outage: a compile of half an hour is not thrown away for a minute without a server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from farm.errors import FarmUnavailable
from farm.index.passing import is_passing as server_is_passing
from farm.store.errors import DiskFull

T = TypeVar("T")

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0


class Patience:
    """Tries calls again for ``seconds``, or until the worker stops; only for calls that are safe to send again."""

    def __init__(self, seconds: float, stopping: threading.Event) -> None:
        self.seconds = seconds
        self.stopping = stopping

    def call(self, operation: Callable[[], T], what: str) -> T:
        """Run the operation until it answers.

        The last try begins when the time is over: who was paused meanwhile has not tried at all.

        Raises:
            RedisError | OSError | FarmUnavailable: the last one, when the time is over or it will not pass.
        """
        pause_seconds, deadline = _FIRST_PAUSE_SECONDS, None
        while True:
            began = time.monotonic()
            try:
                answer = operation()
            except (RedisError, OSError, FarmUnavailable) as error:
                if deadline is None:
                    deadline = began + self.seconds
                    logger.warning("can not %s: %s; trying for %g s", what, error, self.seconds)
                if not is_passing(error) or began >= deadline or self.stopping.wait(pause_seconds):
                    raise
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
            else:
                if deadline is not None:
                    logger.warning("could %s again", what)
                return answer


def is_passing(error: Exception) -> bool:
    """Whether waiting may help; a full disk is told at once, as another worker may have another disk."""
    if isinstance(error, FarmUnavailable):
        return not isinstance(error, DiskFull)
    return server_is_passing(error)
