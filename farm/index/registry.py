"""Who compiles what: toolchains by fingerprint, with their option schemas, and the workers that offer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgpack
import redis
from packaging.version import InvalidVersion, Version

from farm.index import names
from farm.index.scripts import Scripts


@dataclass(frozen=True, slots=True)
class Offer:
    """One toolchain as workers have it; the fingerprint covers everything in it that shapes output."""

    toolchain: str
    fingerprint: str
    version: str
    #: Processor types it compiles for; empty: any name.
    socs: tuple[str, ...] = ()
    core_counts: Mapping[str, Any] = field(default_factory=dict)
    #: Option schema, in the wire form of farm.request.options.
    schema: Mapping[str, Any] = field(default_factory=dict)
    first_seen_ms: int = 0

    @property
    def queue(self) -> str:
        """The compile queue: its name in Celery and in the index."""
        return f"compile.{self.toolchain}.{self.fingerprint[:12]}"

    def serves(self, soc: str) -> bool:
        """Whether it compiles for this processor type."""
        return not self.socs or soc in self.socs

    def rank(self) -> tuple[Version, int]:
        """Higher is preferred: the newest version, then the first registered."""
        return _version(self.version), -self.first_seen_ms


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process: where it runs, how many compiles at a time, from which queues."""

    id: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...]


class Registry:
    """The farm-wide registry; rows of workers live as long as their lease."""

    def __init__(self, server: redis.Redis, now_ms: int | None = None) -> None:
        self.server: Any = server
        self.scripts = Scripts(server, names.FARM + "meta")
        self.now_ms = now_ms

    def register(self, worker: Worker, offers: list[Offer], ttl_ms: int) -> None:
        """Say that the worker lives and what it offers; safe to repeat, renewed before the lease is over."""
        pairs: list[str | bytes] = []
        for offer in offers:
            row = asdict(offer)
            del row["first_seen_ms"]
            pairs += [f"{offer.toolchain}.{offer.fingerprint}", msgpack.packb(row)]
        self.scripts.run("register", worker.id, msgpack.packb(asdict(worker)), ttl_ms, *pairs, now_ms=self.now_ms)

    def leave(self, worker_id: str) -> None:
        """Forget a worker at once; safe to repeat."""
        self.scripts.run("register", worker_id, b"", 0, now_ms=self.now_ms)

    def workers(self) -> list[Worker]:
        """The workers whose lease is not over."""
        rows = (msgpack.unpackb(row) for row in self.scripts.run("live", now_ms=self.now_ms) if row)
        return [Worker(**row | {"queues": tuple(row["queues"])}) for row in rows]

    def offers(self) -> list[Offer]:
        """Every toolchain ever registered, best first for each name; its workers may be gone."""
        rows = self.server.hgetall(names.TOOLCHAINS)
        seen = self.server.hgetall(names.FARM + "first_seen")
        offers = [_offer(data, int(seen.get(field, 0))) for field, data in rows.items()]
        return sorted(sorted(offers, key=Offer.rank, reverse=True), key=lambda offer: offer.toolchain)


def _offer(data: bytes, first_seen_ms: int) -> Offer:
    row = msgpack.unpackb(data)
    return Offer(**row | {"socs": tuple(row["socs"]), "first_seen_ms": first_seen_ms})


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
