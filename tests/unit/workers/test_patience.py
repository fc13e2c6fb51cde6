from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from redis.exceptions import BusyLoadingError, ResponseError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

from farm.errors import FarmUnavailable
from farm.store.errors import DiskFull, StoreMissing
from workers import patience
from workers.patience import Patience


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.001)


def failing(*errors: Exception) -> tuple[Callable[[], str], list[Exception]]:
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return operation, left


PASSING = [
    LostConnection("refused"),
    NoAnswer("late"),
    BusyLoadingError("loading"),
    ConnectionResetError("reset"),
    ResponseError("OOM command not allowed"),
    ResponseError("READONLY You can't write against a read only replica"),
    FarmUnavailable("the store does not answer"),
]


def test_it_tries_again_until_there_is_an_answer() -> None:
    operation, left = failing(*PASSING)
    assert Patience(60, threading.Event()).call(operation, "ask") == "answer"
    assert left == []


@pytest.mark.parametrize(
    "error", [ResponseError("ERR no such command"), DiskFull("disk / is full"), StoreMissing("gone"), ValueError()]
)
def test_what_does_not_pass_is_told_at_once(error: Exception) -> None:
    operation, left = failing(error, error)
    with pytest.raises(type(error)):
        Patience(60, threading.Event()).call(operation, "ask")
    assert len(left) == 1


def test_patience_ends() -> None:
    operation, left = failing(*[LostConnection("gone")] * 10_000)
    start = time.monotonic()
    with pytest.raises(LostConnection):
        Patience(0.05, threading.Event()).call(operation, "ask")
    assert time.monotonic() - start < 5
    assert 1 < 10_000 - len(left) < 10_000


def test_a_worker_that_stops_tries_once() -> None:
    stopping = threading.Event()
    stopping.set()
    operation, left = failing(LostConnection("gone"), LostConnection("gone"))
    with pytest.raises(LostConnection):
        Patience(60, stopping).call(operation, "ask")
    assert len(left) == 1
    assert Patience(60, stopping).call(lambda: "answer", "ask") == "answer"
