"""A namespace full of idle entries, on a server of its own that keeps nothing on disk."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from farm.embedded.server import start
from farm.index.index import Index
from farm.index.jobs import Member, as_member
from farm.index.outcomes import Membership
from farm.index.record import Record
from farm.index.slots import SLOTS, near_row
from farm.namespace import Namespace

NAMESPACE = Namespace("default", "Ascend910B1")
#: One less than as many as are kept.
NEAR_ROWS = 19_999


def key(n: int) -> bytes:
    return hashlib.sha256(b"%d" % n).digest()


class Filled:
    """The index of a namespace; the entries are the keys 0 and up."""

    def __init__(self, server: redis.Redis, namespace: Namespace = NAMESPACE) -> None:
        # redis.Redis; its own types can not say that replies are bytes.
        self.server: Any = server
        self.index = Index(server, namespace)
        self.index.open(1)
        self.entries = 0

    def fill(self, entries: int) -> None:
        """Idle entries as publish leaves them, with an operator's name and type of usual length."""
        prefix, now_ms = self.index.prefix, round(time.time() * 1000)
        for first in range(self.entries, entries, 2000):
            numbers = range(first, min(entries, first + 2000))
            records = [self._record(n) for n in numbers]
            rows = {key(n): record.pack() for n, record in zip(numbers, records, strict=True)}
            near = {near_row(f"type {n // SLOTS}", n % SLOTS): key(n) for n in numbers if n < NEAR_ROWS}
            with self.server.pipeline(transaction=False) as pipe:
                pipe.hset(f"{prefix}e:1", mapping=rows)
                pipe.zadd(f"{prefix}generations", {"1": 1})
                pipe.hincrby(f"{prefix}meta", "bytes", sum(record.stored_bytes for record in records))
                if near:
                    pipe.hset(f"{prefix}near:1", mapping=near)
                pipe.zadd(f"{prefix}idle:1", {k: now_ms - n for k, n in zip(rows, numbers, strict=True)})
                pipe.execute()
        self.entries = entries

    @staticmethod
    def _record(n: int) -> Record:
        token = 1_796_115_524_339_000 + n
        return Record(token, 20_000 + n % 5000, key(n), f"layer_norm_fp16_32x128_{n:06}", "LayerNorm", "cuda", 1234)

    def used_bytes(self) -> int:
        return int(self.server.info("memory")["used_memory"])

    def member(self, job: str) -> Member:
        who = Member(job, "m", "enable", 1, b"{}", 300_000)
        answer = self.index.join(who)
        assert isinstance(answer, Membership)
        return as_member(who, answer)

    def end(self, who: Member) -> None:
        self.index.leave(who)
        while self.index.bury() or self.index.tell():
            pass


def cpu_seconds(server: Any) -> float:
    """The processor time that the server has used."""
    cpu = server.info("cpu")
    return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


def commands_of(server: Any, operation: Callable[[], Any]) -> dict[str, int]:
    """How often an operation runs each command."""
    server.config_resetstat()
    operation()
    stats = server.info("commandstats")
    calls = {row.removeprefix("cmdstat_"): stats[row]["calls"] for row in stats}
    return {c: n for c, n in sorted(calls.items()) if c not in ("config|resetstat", "info")}


@contextmanager
def own_server() -> Iterator[redis.Redis]:
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder) / "data")
        try:
            with redis.Redis.from_url(server.url, socket_timeout=60) as client:
                client.config_set("appendonly", "no")
                yield client
        finally:
            server.stop()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
