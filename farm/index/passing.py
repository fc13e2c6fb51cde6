"""Which failures of the server pass by themselves: it starts, loads, fails over, or is full for the moment."""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

#: A script is unknown to a server that was restarted just after it was given it.
_CLASSES = (
    LostConnection, NoAnswer, OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError, NoScriptError, OSError,
)  # fmt: skip
_REFUSALS = (AuthenticationError, AuthorizationError)
#: Replies for which redis-py has no class of their own, so that their first word is still there.
_WORDS = ("MISCONF", "NOREPLICAS", "LOADING", "MASTERDOWN", "OOM", "READONLY")


def is_passing(error: Exception) -> bool:
    """Whether waiting may help. redis-py takes the first word off a reply that it has a class for."""
    if isinstance(error, _REFUSALS):
        return False
    if isinstance(error, _CLASSES):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_WORDS)
