"""Celery's broker, as far as the farm relies on it: messages come once, twice, late, or never."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from kombu.exceptions import OperationalError

from farm.namespace import Namespace
from tests.sim.scheduler import Actor, Scheduler


@dataclass
class Post:
    """How likely a message is to be lost, doubled, or late."""

    lost: float = 0
    doubled: float = 0
    late: float = 0


class Broker:
    """Queues of compile messages."""

    def __init__(self, scheduler: Scheduler, chance: random.Random) -> None:
        self._scheduler = scheduler
        self._chance = chance
        self.post = Post()
        self.is_down = False
        self.sent: Counter[str] = Counter()
        self._queues: dict[str, deque[str]] = {}
        self._receivers: dict[str, deque[tuple[Actor, int]]] = {}
        #: On the way to an actor that waited; lost with it.
        self._handed: dict[Actor, str] = {}

    def send(self, namespace: str, queue: str, count: int) -> None:
        """Raises OperationalError when the broker does not take them."""
        if self.is_down:
            raise OperationalError("the broker is away")
        for _ in range(count):
            self.sent[queue] += 1
            dice = self._chance.random()
            if dice < self.post.lost:
                continue
            late = dice < self.post.lost + self.post.late
            delay_ms = self._chance.randrange(5_000, 120_000) if late else self._chance.randrange(1, 20)
            for _ in range(1 + (self._chance.random() < self.post.doubled)):
                self._scheduler.after(delay_ms, partial(self._arrive, namespace, queue))

    def waiting(self, queue: str) -> int:
        """Messages that no worker has fetched yet."""
        if self.is_down:
            raise OperationalError("the broker is away")
        return len(self._queues.get(queue, ()))

    def receive(self, queue: str) -> str:
        """The next message of a queue, acknowledged at once: the namespace that it names."""
        if messages := self._queues.get(queue):
            return messages.popleft()
        me = self._scheduler.current
        self._receivers.setdefault(queue, deque()).append((me, me.turn + 1))
        self._scheduler.wait(None)
        return self._handed.pop(me)

    def lose_all(self) -> None:
        """The broker comes back empty."""
        for messages in self._queues.values():
            messages.clear()

    def _arrive(self, namespace: str, queue: str) -> None:
        receivers = self._receivers.get(queue, deque())
        while receivers:
            actor, turn = receivers.popleft()
            if not actor.dead and actor.turn == turn:
                self._handed[actor] = namespace
                self._scheduler.wake(actor, turn)
                return
        self._queues.setdefault(queue, deque()).append(namespace)

    @contextmanager
    def in_place_of_celery(self) -> Iterator[None]:
        """Clients find this broker where they look for Celery."""
        with ExitStack() as stack:
            stack.enter_context(patch("farm.celery.create", lambda addresses: None))
            stack.enter_context(patch("farm.celery.send_compiles", lambda _, *message: self.send(*message)))
            stack.enter_context(patch("farm.celery.waiting_messages", lambda _, queue: self.waiting(queue)))
            yield


class CoordinatorMessages:
    """As farm.coordinator.messages.Messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, namespace: Namespace, queue: str, count: int) -> None:
        try:
            self._broker.send(str(namespace), queue, count)
        except OperationalError:
            return

    def send_step(self, id: str) -> None:
        raise AssertionError("no plans here")

    def is_drained(self, queue: str) -> bool:
        try:
            return self._broker.waiting(queue) == 0
        except OperationalError:
            return False
