"""Which failures of the server pass by themselves: it starts, loads, fails over, or is full for the moment."""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

_CLASSES = (LostConnection, NoAnswer, OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError, OSError)
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
