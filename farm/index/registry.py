"""Who compiles what: toolchains by fingerprint, with their option schemas, and the workers that offer them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

import msgpack
import redis
from packaging.version import InvalidVersion, Version

from farm.index import names
from farm.index.scripts import Scripts

Row = TypeVar("Row", "Offer", "Worker")


@dataclass(frozen=True, slots=True)
class Offer:
    """One toolchain as workers have it; the fingerprint covers everything in it that shapes output."""

    toolchain: str
    fingerprint: str
    version: str
    #: Processor types it compiles for; empty: any name.
    socs: tuple[str, ...] = ()
    #: By processor type: cube and vector cores, where they are known.
    core_counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
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
    """One worker process: where it runs, how many compiles at a time, from which queues, and what it is."""

    id: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...]
    #: Toolchains that it does not offer, and why.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Of opfarm and of Python.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: The settings by which workers and clients must agree, by their environment variable.
    settings: Mapping[str, float] = field(default_factory=dict)
    #: Its own clock when it last registered, and for how long that was.
    clock_ms: int = field(default=0, compare=False)
    lease_ms: int = field(default=0, compare=False)


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
        row = asdict(worker) | {"lease_ms": ttl_ms}
        served = " ".join([str(worker.slots), *worker.queues])
        self.scripts.run("register", worker.id, msgpack.packb(row), ttl_ms, served, *pairs, now_ms=self.now_ms)

    def leave(self, worker_id: str) -> None:
        """Forget a worker at once; safe to repeat."""
        self.scripts.run("register", worker_id, b"", 0, "", now_ms=self.now_ms)

    def workers(self) -> list[Worker]:
        """The workers whose lease is not over."""
        rows = (msgpack.unpackb(row) for row in self.scripts.run("live", now_ms=self.now_ms) if row)
        return [_known(Worker, row | {"queues": tuple(row["queues"])}) for row in rows]

    def slots(self) -> dict[str, int]:
        """How many compiles at a time the live workers of each queue can run; queues without any are not there."""
        reply = self.scripts.run("slots", now_ms=self.now_ms)
        return {queue.decode(): int(slots) for queue, slots in zip(reply[::2], reply[1::2], strict=True)}

    def clock_leads_ms(self) -> dict[str, int]:
        """By how much each live worker's clock was ahead of the server's when it last registered, by worker id."""
        with self.server.pipeline(transaction=True) as pipe:
            pipe.hgetall(names.WORKERS)
            pipe.zrange(names.WORKER_LEASES, 0, -1, withscores=True)
            rows, deadlines_ms = pipe.execute()
        leads = {}
        for worker_id, deadline_ms in deadlines_ms:
            row = msgpack.unpackb(rows.get(worker_id, b"\x80"))
            if row.get("clock_ms"):
                leads[worker_id.decode()] = row["clock_ms"] - (int(deadline_ms) - row["lease_ms"])
        return leads

    def offers(self) -> list[Offer]:
        """Every toolchain ever registered, best first for each name; its workers may be gone."""
        rows = self.server.hgetall(names.TOOLCHAINS)
        seen = self.server.hgetall(names.FIRST_SEEN)
        offers = [_offer(data, int(seen.get(field, 0))) for field, data in rows.items()]
        return sorted(sorted(offers, key=Offer.rank, reverse=True), key=lambda offer: offer.toolchain)

    def preferred(self) -> list[Offer]:
        """All offers, for each name in the order in which new jobs prefer them."""
        return in_order(self.offers(), self.slots(), self.defaults())

    def defaults(self) -> dict[str, str]:
        """The fingerprint that new jobs shall use, by toolchain, where somebody has set one."""
        rows = self.server.hgetall(names.DEFAULTS)
        return {toolchain.decode(): fingerprint.decode() for toolchain, fingerprint in rows.items()}

    def set_default(self, toolchain: str, fingerprint: str | None) -> None:
        """Set the fingerprint that new jobs shall use, or with None leave it to the rule; safe to repeat."""
        if fingerprint is None:
            self.server.hdel(names.DEFAULTS, toolchain)
        else:
            self.server.hset(names.DEFAULTS, toolchain, fingerprint)


def in_order(offers: Iterable[Offer], live_queues: Collection[str], defaults: Mapping[str, str]) -> list[Offer]:
    """Offers in the order in which new jobs prefer them: the default, then those with a live worker.

    Args:
        offers: as ``Registry.offers`` gives them; their order decides the rest.
    """

    def place(offer: Offer) -> tuple[str, bool, bool]:
        is_default = defaults.get(offer.toolchain) == offer.fingerprint
        return offer.toolchain, not is_default, offer.queue not in live_queues

    return sorted(offers, key=place)


def _offer(data: bytes, first_seen_ms: int) -> Offer:
    row = msgpack.unpackb(data)
    return _known(Offer, row | {"socs": tuple(row["socs"]), "first_seen_ms": first_seen_ms})


def _known(kind: type[Row], row: Mapping[str, Any]) -> Row:
    """A row, perhaps of a newer version of opfarm, with what this one knows of it."""
    names_known = {one.name for one in fields(kind)}
    return kind(**{name: value for name, value in row.items() if name in names_known})


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
