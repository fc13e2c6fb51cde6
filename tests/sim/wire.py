"""A process's connection to the server: redis-py's own client, over a network that a seed disturbs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from greenlet import GreenletExit

from tests.sim.scheduler import Process
from tests.sim.server import SimServer
from tests.sim.trace import Trace

#: A client gives up after this, and sends once more (farm.client.connection).
TIMEOUT_MS = 5_000
_SENT_AGAIN = 1


@dataclass
class Weather:
    """How likely each thing is to happen to a call; 0 in a calm network."""

    #: It never arrives; it is executed and the reply is lost; it arrives much later, after others.
    lost: float = 0
    unanswered: float = 0
    late: float = 0
    slow: float = 0


#: Has the server execute calls that travel together.
Send = Callable[[list[Any]], list[Any]]


class Network:
    """Carries calls from processes to the server."""

    def __init__(self, server: SimServer, chance: random.Random, trace: Trace) -> None:
        self.server = server
        self.scheduler = server.scheduler
        self.weather = Weather()
        self._chance = chance
        self._trace = trace

    def connect(self, process: Process) -> Wire:
        """A client of its own for a process."""
        return Wire(self, process, self.server.raw.connection_pool)

    def carry(self, process: Process, calls: list[tuple[Any, ...]], send: Send) -> list[Any]:
        """Have the server execute calls that travel together, as redis-py does: what fails is sent once more."""
        for tries in range(_SENT_AGAIN + 1):
            try:
                return self._carry_once(process, calls, send)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                process.disturbed_ms = self.scheduler.now_ms
                self._trace.call(process, calls, self.server, error)
                if tries == _SENT_AGAIN:
                    raise
        raise AssertionError

    def _carry_once(self, process: Process, calls: list[tuple[Any, ...]], send: Send) -> list[Any]:
        weather, chance, wait = self.weather, self._chance.random(), self.scheduler.wait
        delay_ms = self._chance.randrange(3)
        if weather.slow and self._chance.random() < weather.slow:
            delay_ms += self._chance.randrange(TIMEOUT_MS)
        if delay_ms:
            wait(delay_ms)
        self.scheduler.check_alive()
        if self.server.is_down:
            wait(1)
            raise redis.ConnectionError("nobody listens")
        if chance < weather.lost + weather.late:
            if chance < weather.late:
                for call in calls:
                    self.server.late(call, self._chance.randrange(2 * TIMEOUT_MS, 12 * TIMEOUT_MS))
            wait(TIMEOUT_MS)
            raise redis.TimeoutError("no answer")
        if len(calls) > 1 and weather.lost and self._chance.random() < weather.lost:
            some = calls[: self._chance.randrange(len(calls))]
            self.server.executed(some, send([self.server.stamped(call) for call in some]))
            raise redis.ConnectionError("cut off in the middle")
        replies = send([self.server.stamped(call) for call in calls])
        self.server.executed(calls, replies)
        self._trace.call(process, calls, self.server, replies)
        if weather.unanswered and self._chance.random() < weather.unanswered:
            wait(TIMEOUT_MS)
            raise redis.TimeoutError("the answer was lost")
        return replies


class Wire(redis.Redis):
    """redis-py, but for the way to the server."""

    def __init__(self, network: Network, process: Process, pool: Any) -> None:
        super().__init__(connection_pool=pool)
        self.network = network
        self.process = process

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        def send(calls: list[Any]) -> list[Any]:
            return [super(Wire, self).execute_command(*calls[0], **options)]

        server = self.network.server
        if not self.process.is_alive:
            raise GreenletExit
        if arguments[0] == "XREAD" and b"BLOCK" in arguments:
            return server.read_notices(arguments, lambda call: self.network.carry(self.process, [call], send)[0])
        if arguments[0] == "HSCAN":  # in an order that is the same on every server
            arguments = (*arguments[:3], "COUNT", 1_000_000)
        (reply,) = self.network.carry(self.process, [arguments], send)
        if arguments[0] == "HSCAN":
            return reply[0], dict(sorted(reply[1].items()))
        if arguments[0] == "INFO":
            return reply | {"run_id": f"run-{server.run}"}
        if arguments[0] == "TIME":
            return server.now_ms // 1000, server.now_ms % 1000 * 1000
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        return _Pipeline(self, transaction)

    def pubsub(self, **_: Any) -> Any:
        return _Calls(self.network.server)


class _Pipeline(redis.client.Pipeline):
    def __init__(self, wire: Wire, transaction: bool) -> None:
        super().__init__(wire.connection_pool, wire.response_callbacks, transaction, None)
        self._wire = wire

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = list(self.command_stack)
        if not stack:
            return []

        def send(calls: list[Any]) -> list[Any]:
            self.command_stack = [(call, *row[1:]) for call, row in zip(calls, stack, strict=False)]
            return super(_Pipeline, self).execute(raise_on_error) if calls else []

        replies: list[Any] = self._wire.network.carry(self._wire.process, [row[0] for row in stack], send)
        return replies


class _Calls:
    """What a coordinator listens to between its ticks."""

    def __init__(self, server: SimServer) -> None:
        self._server = server

    def subscribe(self, _: str) -> None: ...

    def get_message(self, timeout: float) -> None:
        self._server.wait_call(round(timeout * 1000))

    def __enter__(self) -> _Calls:
        return self

    def __exit__(self, *_: object) -> None: ...
