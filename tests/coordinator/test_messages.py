"""Messages: what the broker takes is sent, and one that is away costs a warning."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from farm.coordinator import messages as module
from farm.coordinator.messages import Messages
from farm.namespace import Namespace

SPACE = Namespace("default", "a")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for name in ("send_compiles", "send_step", "waiting_messages"):
        monkeypatch.setattr(module, name, lambda *words, name=name: found.append((name, *words)))
    return found


def test_all_go_through_the_one_application(sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    application = Celery("test")
    messages = Messages(application)
    messages.send(SPACE, "queue", 3)
    messages.send_step("id")
    assert sent == [("send_compiles", application, "default/a", "queue", 3), ("send_step", application, "id")]
    for waiting, is_drained in ((0, True), (1, False)):
        monkeypatch.setattr(module, "waiting_messages", lambda application, queue, n=waiting: n)
        assert messages.is_drained("queue") is is_drained


@pytest.mark.parametrize("error", [OperationalError("gone"), ConnectionRefusedError()])
def test_a_broker_that_is_away_is_told_and_waited_for(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*words: object) -> None:
        raise error

    for name in ("send_compiles", "send_step", "waiting_messages"):
        monkeypatch.setattr(module, name, away)
    messages = Messages(Celery("test"))
    messages.send(SPACE, "queue", 3)
    messages.send_step("id")
    assert len(caplog.messages) == 2
    assert not messages.is_drained("queue")
