"""The index and its model side by side: one call to both, the same answer, the same state, all invariants."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import redis

from farm.index.index import Index
from farm.index.invariants import check
from farm.index.leader import Leadership
from farm.index.snapshot import Rows, Snapshot, parse
from farm.namespace import Namespace
from tests.lua.world import T0
from tests.property.model.picture import picture
from tests.property.model.upkeep import Model, Purge
from tests.support.rows import read_rows_at_once

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
#: Key -> its value as the server dumps it, and when time clears it away (ms under test; 0: never).
Image = dict[bytes, tuple[bytes, int]]


class Pair:
    """One namespace, twice."""

    def __init__(self, url: str) -> None:
        #: redis-py's own types can not say that replies are bytes.
        self.server: Any = redis.Redis.from_url(url)
        self.server.flushall()
        self.index = Index(self.server, Namespace("default", "Ascend910B1"), now_ms=T0)
        self.leadership = Leadership(self.server, now_ms=T0)
        self.model = Model(self.index.namespace, T0)
        self.now_ms = T0
        self.sent: list[Call] = []
        #: As the server was after the last call; whether that was as it should be.
        self.seen: Snapshot
        self.sound = True
        self.images: list[tuple[Image, Model]] = []

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Make a call on both; it may come again, late."""
        self.sent.append((name, arguments, options))
        return self.send(self.sent[-1])

    def send(self, call: Call) -> Any:
        """A call arrives, now: for the first time, or once more."""
        self.sound = False
        name, arguments, options = call
        answer = getattr(self.leadership if name == "lead" else self.index, name)(*arguments, **options)
        rows = read_rows_at_once(self.server, self.index.prefix)
        expected = getattr(self.model, name)(*arguments, *self._chunk(name, rows), **options)
        assert answer == expected, f"{name} answers {answer}, the model {expected}"
        self._compare(rows)
        if name == "raise_to":
            self._compare_log()
        self.sound = True
        return answer

    def _chunk(self, name: str, rows: Rows) -> tuple[set[Any], ...]:
        """What the server has left of what it takes in chunks and in no order."""
        if name == "bury":
            run = self.model.burials[0][1] if self.model.burials else ""
            return (set(rows.get(b"g:" + run.encode(), ())),)
        if name == "tell":
            (g, key), token, _ = self.model.told[0] if self.model.told else ((0, b""), 0, set())
            return ({run.decode() for run in rows.get(b"t:%d:%s:%d" % (g, key, token), ())},)
        return ()

    def _compare(self, rows: Rows) -> None:
        self.seen, expected = parse(self.index.namespace, rows), picture(self.model)
        assert check(self.seen) == []
        # Generations are listed until a drain comes by, see the invariant.
        names = {field.name for field in fields(Snapshot)} - {"generations"}
        others = {
            name: (getattr(self.seen, name), getattr(expected, name))
            for name in names
            if getattr(self.seen, name) != getattr(expected, name)
        }
        assert not others, f"the server and the model have {others}"
        assert {run: rows[b"n:" + run.encode()] for run in self.seen.streams} == self.model.notices

    def _compare_log(self) -> None:
        rows = [row for _, row in self.server.xrange(f"{self.index.prefix}purge_log")]
        names = [field.name for field in fields(Purge)]
        assert [Purge(*(int(row[name.encode()]) for name in names)) for row in rows] == self.model.purge_log

    # -- time and loss ---------------------------------------------------------------------------------

    def pass_time(self, seconds: int) -> None:
        """Both clocks go on, and the server forgets what time clears away."""
        for name, at in self._clears().items():
            left_ms = at - self.now_ms - seconds * 1000
            if left_ms > 0:
                self.server.pexpire(name, left_ms)
            else:
                self.server.delete(name)
        self.now_ms += seconds * 1000
        self.index.now_ms = self.leadership.now_ms = self.now_ms
        self.model.pass_time(seconds * 1000)

    def _clears(self) -> dict[bytes, int]:
        """When the server clears keys away: in whole seconds, so that those in which the test runs do not count."""
        failures = f"{self.index.prefix}f:".encode()
        names = [name for name in self.server.scan_iter(match="opfarm:*") if not name.startswith(failures)]
        with self.server.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.pttl(name)
            left_ms = pipe.execute()
        rows = zip(names, left_ms, strict=True)
        return {name: self.now_ms + -(-left // 1000) * 1000 for name, left in rows if left > 0}

    def remember(self) -> None:
        """The server saves its data."""
        clears = self._clears()
        names = list(self.server.scan_iter(match="opfarm:*"))
        image = {name: (self.server.dump(name), clears.get(name, 0)) for name in names}
        self.images.append((image, deepcopy(self.model)))

    def lose(self, number: int | None) -> None:
        """The server comes back empty, or with what it saved then: all calls since have gone. Its clock goes on."""
        self.pass_time(1)
        self.server.flushall()
        image, self.model = self.images[number] if number is not None else ({}, Model(self.index.namespace, 0))
        for name, (value, at) in image.items():
            if not at or at > self.now_ms:
                self.server.restore(name, at and at - self.now_ms, value)
        self.model = deepcopy(self.model)
        self.model.pass_time(self.now_ms - self.model.now_ms)
        self._compare(read_rows_at_once(self.server, self.index.prefix))
