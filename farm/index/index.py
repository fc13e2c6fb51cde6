"""The index of one namespace: one Redis implementation, every operation one atomic Lua file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import redis

from farm.index import names
from farm.index.claims import ClaimCalls
from farm.index.jobs import JobCalls
from farm.index.record import Record
from farm.index.scripts import Scripts
from farm.index.upkeep import UpkeepCalls
from farm.namespace import Namespace


class Index(JobCalls, ClaimCalls, UpkeepCalls):
    """All operations on a namespace; ``now_ms`` replaces the server's clock under test, and may be set."""

    def __init__(self, server: redis.Redis, namespace: Namespace, now_ms: int | None = None) -> None:
        super().__init__(Scripts(server, names.meta(namespace)), namespace, now_ms)
        #: redis-py's own types can not say that replies are bytes.
        self.server: Any = server
        self.prefix = names.prefix(namespace)

    def compiling(self, limit: int = 100) -> list[bytes]:
        """The keys of some claims that run now, those with the earliest deadline first."""
        refs = self.server.zrange(f"{self.prefix}running", 0, limit - 1)
        return [bytes(ref.partition(b":")[2]) for ref in refs]

    def stored_bytes(self) -> int:
        """What the namespace holds: the stored sizes of all shared entries."""
        return int(self.server.hget(f"{self.prefix}meta", "bytes") or 0)

    def generation(self) -> int:
        """The generation in force; 0 when the namespace is not open."""
        return int(self.server.hget(f"{self.prefix}meta", "generation") or 0)

    def held_until_ms(self) -> int:
        """Until when what lives is held after a gap (ms of the server's clock); 0: never was."""
        return int(self.server.hget(f"{self.prefix}meta", "hold_until") or 0)

    def oldest_use_ms(self) -> float:
        """When the entry that is idle for longest was used last; infinity when none is idle."""
        rows = self.server.zrange(f"{self.prefix}idle:{self.generation()}", 0, 0, withscores=True)
        return float(rows[0][1]) if rows else float("inf")

    def source_epochs(self) -> set[int]:
        """The epochs of sources that claims carry; a closed one that is not among them never will be."""
        return {int(epoch) for epoch in self.server.hkeys(f"{self.prefix}sources")}

    def is_in_use(self) -> bool:
        """Whether there are jobs, or entries that some job may hold."""
        return bool(self.server.exists(f"{self.prefix}jobs", f"{self.prefix}generations"))

    def known_tokens(self, generation: int, keys: Sequence[bytes]) -> list[int | None]:
        """The tokens of the entries of these keys; None where there is no entry."""
        records = self.server.hmget(f"{self.prefix}e:{generation}", keys) if keys else []
        return [Record.unpack(data).token if data else None for data in records]

    def entries(self, chunk: int = 500) -> Iterator[list[tuple[int, bytes, int]]]:
        """All entries of all generations, in chunks of (generation, key, token)."""
        for generation in self.server.zrange(f"{self.prefix}generations", 0, -1):
            name = f"{self.prefix}e:{int(generation)}"
            rows = self.server.hscan_iter(name, count=chunk)
            while some := list(islice(rows, chunk)):
                yield [(int(generation), key, Record.unpack(data).token) for key, data in some]

    def last_notice(self, run: str) -> str:
        """Where a run's notices end now; ask before acquire, then nothing is missed."""
        last = self.server.xrevrange(f"{self.prefix}n:{run}", count=1)
        return str(last[0][0].decode()) if last else "0-0"

    def wait_notices(self, run: str, after: str, timeout_ms: int) -> tuple[str, set[bytes]]:
        """Block until notices come, or the time is over. Returns the new position and the keys told of."""
        reply = self.server.xread({f"{self.prefix}n:{run}": after}, count=1000, block=max(1, timeout_ms))
        streams = reply.values() if isinstance(reply, dict) else [rows for _, rows in reply or ()]
        rows = [row for batch in streams for row in _flat(batch)]
        keys = {row[1][b"k"] for row in rows if b"k" in row[1]}
        return (rows[-1][0].decode(), keys) if rows else (after, set())


def _flat(rows: list[Any]) -> list[Any]:
    """redis-py nests the rows of a stream once more in RESP3."""
    return rows[0] if rows and rows[0] and isinstance(rows[0][0], list | tuple) else rows
