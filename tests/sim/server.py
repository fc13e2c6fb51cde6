"""The index's server as a simulation has it: the real one, with a clock, outages and losses of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from farm.index.names import WAKE_CHANNEL
from farm.index.scripts import digest, source
from tests.sim.scheduler import Actor, Scheduler
from tests.sim.threads import T0_MS

#: What is remembered of the keys that end by themselves is looked at this often.
EXPIRY_EVERY_MS = 20_000
#: After which readers of notices may have one, and after which the coordinator may be called.
_TELLS, _CALLS = ("tell", "raise"), ("ask_purge", "publish", "PUBLISH")


Watch = Callable[[str, tuple[Any, ...], Any], None]


class SimServer:
    """The state behind the wire. All calls of the farm come through ``execute``; checkers use ``raw``."""

    def __init__(self, scheduler: Scheduler, url: str) -> None:
        self.scheduler = scheduler
        #: Replies are bytes, which redis-py's types can not say.
        self.raw: Any = redis.Redis.from_url(url)
        self.offset_ms = 0
        self.down_until_ms = 0
        #: When it did not answer: from, until.
        self.outages: list[tuple[int, int]] = []
        self.run = 1
        #: Times that data were lost, and when last.
        self.losses = 0
        self.lost_ms = self.disturbed_ms = -(10**12)
        self.commands: Counter[str] = Counter()
        #: Told of each script or command that was executed: its name, the call, the reply.
        self.watch: Watch = lambda name, call, reply: None
        self._image: dict[bytes, tuple[bytes, int]] = {}
        self._ends: dict[bytes, tuple[int, int]] = {}
        self._names: dict[str, str] = {}
        self._readers: list[tuple[bytes | str, bytes | str, Actor, int]] = []
        self._calls: list[tuple[Actor, int]] = []
        self._channel = self.raw.pubsub()
        self._channel.subscribe(WAKE_CHANNEL)
        #: Grows when a stream may have grown; what was found empty at which count.
        self._told = 0
        self._empty: dict[tuple[Any, Any], int] = {}

    @property
    def now_ms(self) -> int:
        """The server's clock."""
        return T0_MS + self.scheduler.now_ms + self.offset_ms

    @property
    def is_down(self) -> bool:
        """Whether nobody answers now."""
        return self.scheduler.now_ms < self.down_until_ms

    # -- calls -----------------------------------------------------------------------------------------

    def name_of(self, call: tuple[Any, ...]) -> str:
        """The script that a call runs, or the command that it is."""
        if call[0] != "EVALSHA":
            return str(call[0])
        if call[1] not in self._names:
            self._names = {digest(name): name for name in _script_names()}
        return self._names[call[1]]

    def stamped(self, call: tuple[Any, ...]) -> tuple[Any, ...]:
        """The call as it is executed now: scripts are told the time where they would look at the server's clock."""
        return (*call[:-1], self.now_ms) if call[0] == "EVALSHA" and call[-1] == "" else call

    def executed(self, calls: list[tuple[Any, ...]], replies: list[Any]) -> None:
        """What was executed may have told somebody something."""
        names = [self.name_of(call) for call in calls]
        self.commands.update(names)
        for name, call, reply in zip(names, calls, replies, strict=True):
            self.watch(name, call, reply)
        if any(name in _TELLS for name in names):
            self._wake_readers()
        if any(name in _CALLS for name in names) and self._is_called():
            calls_waiting, self._calls = self._calls, []
            for actor, turn in calls_waiting:
                self.scheduler.wake(actor, turn)

    def _is_called(self) -> bool:
        """Whether somebody has called the coordinator; what was said before the answer to our ping is here."""
        self._channel.ping()
        called = False
        while (message := self._channel.get_message(timeout=10))["type"] != "pong":
            called |= message["type"] == "message"
        return called

    def read_notices(self, call: tuple[Any, ...], send: Callable[[tuple[Any, ...]], Any]) -> Any:
        """XREAD that blocks: on virtual time, and without a look where nobody was told anything since the last."""
        at = call.index(b"BLOCK")
        plain = (*call[:at], *call[at + 2 :])
        stream, after = call[-2], call[-1]
        self.commands["XREAD"] += 1
        for timeout_ms in (int(call[at + 1]), 0):
            if self._empty.get((stream, after)) != self._told:
                reply = send(plain)
                if reply:
                    return reply
                self._empty[stream, after] = self._told
            if timeout_ms:
                me = self.scheduler.current
                self._readers.append((stream, after, me, me.turn + 1))
                self.scheduler.wait(timeout_ms)
                self._readers = [row for row in self._readers if row[2] is not me]
        return {}

    def wait_call(self, timeout_ms: int) -> None:
        """Wait as a coordinator does: until it is called."""
        me = self.scheduler.current
        self._calls.append((me, me.turn + 1))
        self.scheduler.wait(timeout_ms)
        self._calls = [row for row in self._calls if row[0] is not me]

    def _wake_readers(self) -> None:
        self._told += 1
        self._empty.clear()
        streams: dict[Any, Any] = {}
        for stream, after, _, _ in self._readers:
            streams[stream] = min(streams.get(stream, after), after, key=_place)
        reply = self.raw.xread(streams, count=1) if streams else {}
        told = set(reply) if isinstance(reply, dict) else {name for name, _ in reply}
        for stream, _, actor, turn in self._readers:
            if stream in told or str(stream).encode() in told:
                self.scheduler.wake(actor, turn)

    # -- what happens to it ------------------------------------------------------------------------------

    def restart(self, down_ms: int, data: str) -> None:
        """It is away for a while, and comes back with its data, as its image was, or empty."""
        self.down_until_ms = max(self.down_until_ms, self.scheduler.now_ms + down_ms)
        self.outages.append((self.scheduler.now_ms, self.down_until_ms))
        self.run += 1
        self.raw.script_flush()
        self.disturbed_ms = self.down_until_ms
        if data == "kept":
            return
        self.losses += 1
        self.lost_ms = self.down_until_ms
        self.raw.flushdb()
        self._told += 1
        if data == "image" and self._image:
            with self.raw.pipeline(transaction=False) as pipe:
                for name, (value, left_ms) in self._image.items():
                    pipe.restore(name, left_ms, value)
                pipe.execute()

    def take_image(self) -> None:
        """What a replica has now."""
        names = sorted(self.raw.scan_iter(count=1000))
        with self.raw.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.dump(name)
                pipe.pttl(name)
            rows = pipe.execute()
        found = zip(names, rows[::2], rows[1::2], strict=True)
        self._image = {name: (value, max(0, left_ms)) for name, value, left_ms in found if value}

    def expire(self) -> None:
        """Keys that end by themselves end on our clock: the server's own hardly moves while a simulation runs."""
        names = list(self.raw.scan_iter(match="opfarm:*", count=1000))
        with self.raw.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.pexpiretime(name)
                pipe.pttl(name)
            rows = pipe.execute()
        ends = {}
        for name, at_ms, left_ms in zip(names, rows[::2], rows[1::2], strict=True):
            if at_ms > 0:
                known = self._ends.get(name)
                ends[name] = known if known and known[0] == at_ms else (at_ms, self.scheduler.now_ms + left_ms)
        over = [name for name, (_, end_ms) in ends.items() if end_ms <= self.scheduler.now_ms]
        if over:
            self.raw.delete(*over)
        self._ends = {name: row for name, row in ends.items() if name not in over}
        self.scheduler.after(EXPIRY_EVERY_MS, self.expire)

    def late(self, call: tuple[Any, ...], delay_ms: int) -> None:
        """A call that was given up arrives after all."""
        self.scheduler.after(delay_ms, partial(self._arrive, call))

    def _arrive(self, call: tuple[Any, ...]) -> None:
        if self.is_down:
            return
        try:
            reply = self.raw.execute_command(*self.stamped(call))
        except redis.exceptions.NoScriptError:
            return
        except redis.ResponseError:  # of a command that finds nothing any more; a script's own error is a fault
            if call[0] == "EVALSHA":
                raise
            return
        self.executed([call], [reply])


def load_scripts(server: Any) -> None:
    """What a server that runs for a while has."""
    for name in _script_names():
        server.script_load(source(name))


def _script_names() -> list[str]:
    from importlib.resources import files

    return sorted(one.name[:-4] for one in (files("farm.index") / "lua").iterdir() if one.name.endswith(".lua"))


def _place(position: bytes | str) -> tuple[int, int]:
    text = position.decode() if isinstance(position, bytes) else position
    first, _, second = text.partition("-")
    return int(first), int(second or 0)
