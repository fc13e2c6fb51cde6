"""A picture of one namespace, read from the server in chunks: what the invariants judge.

A picture of an index at work is not of one moment: what it seems to show is true if a second one shows it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from farm.index.index import Index
from farm.index.record import Record
from farm.namespace import Namespace, bundle_path

Ref = tuple[int, bytes]
#: Name below the prefix -> value as plain Python; of a stream only its length.
Rows = dict[bytes, Any]

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim; ``token`` is None while it is queued, ``sources`` when its request names none in the store."""

    state: str
    token: int | None
    queue: str
    priority: int
    sources: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A live job; deadlines in ms."""

    run: str
    floor: int
    members: dict[str, int]


@dataclass(frozen=True)
class Snapshot:
    """A namespace; a ``Ref`` is (generation, key), a run is ``job@incarnation``."""

    namespace: Namespace
    generation: int
    #: Those that are listed as having entries.
    generations: set[int]
    stored_bytes: int
    private_bytes: int
    last_token: int
    entries: dict[Ref, Record]
    interest: dict[Ref, int]
    idle: dict[Ref, int]
    claims: dict[Ref, Claim]
    #: Epoch of sources -> number of claims that carry it.
    sources: dict[int, int]
    running: dict[Ref, int]
    #: Queue -> claim -> its place in the fair order.
    queues: dict[str, dict[Ref, int]]
    waiters: dict[Ref, set[str]]
    failures: set[Ref]
    #: Pinned entries that a reader found bad, and their tokens: who asks again, claims them.
    dropped: dict[Ref, int]
    #: Paths of condemned bundles; those in deleting can not be taken back.
    tombs: set[str]
    deleting: set[str]
    jobs: dict[str, Job]
    #: Job -> when its last member's lease is over.
    deadlines: dict[str, int]
    #: Run -> key -> (generation, "i" interested or "f" failed).
    maps: dict[str, dict[bytes, tuple[int, str]]]
    graves: dict[str, dict[bytes, tuple[int, str]]]
    #: Runs whose graves stand in line.
    buried: set[str]
    #: Finished claims whose waiters are still to be told: those that have waiters, and those in line.
    untold: tuple[set[bytes], set[bytes]]
    #: Requests for a purge that wait for an answer; those that stand in line for it.
    asked: set[str]
    requests: set[str]
    #: Runs that have a stream of notices.
    streams: set[str]
    #: Runs that somebody has ended while their members lived.
    ended: set[str]

    def path(self, ref: Ref) -> str:
        """Where the bundle of an entry lies in the store."""
        return bundle_path(self.namespace, *ref, self.entries[ref].token)


def read(index: Index) -> Snapshot:
    """Read a namespace; costs the server a look at each row, in chunks."""
    return parse(index.namespace, read_rows(index))


def read_rows(index: Index) -> Rows:
    """Every row of a namespace, by its name below the prefix."""
    server, prefix = index.server, index.prefix
    rows: Rows = {}
    for kind, reader in _READERS.items():
        for name in server.scan_iter(match=f"{prefix}*", count=_CHUNK, _type=kind):
            rows[name[len(prefix) :]] = reader(server, name)
    return rows


_READERS: dict[str, Callable[[Any, bytes], Any]] = {
    "hash": lambda server, name: dict(server.hscan_iter(name, count=_CHUNK)),
    "zset": lambda server, name: dict(server.zscan_iter(name, count=_CHUNK)),
    "set": lambda server, name: set(server.sscan_iter(name, count=_CHUNK)),
    "list": lambda server, name: server.lrange(name, 0, -1),
    "stream": lambda server, name: server.xrange(name) if name.endswith(b":purges") else server.xlen(name),
    "string": lambda server, name: server.get(name),
}


def parse(namespace: Namespace, rows: Rows) -> Snapshot:
    """Put rows into the words of the index."""
    kinds: dict[bytes, Rows] = {}
    for name, value in rows.items():
        prefix, _, rest = name.partition(b":")
        kinds.setdefault(prefix, {})[rest] = value

    def kind(prefix: bytes) -> Rows:
        return kinds.get(prefix, {})

    def single(name: bytes) -> Any:
        return kind(name).get(b"", {})

    meta = single(b"meta")
    return Snapshot(
        namespace=namespace,
        generation=int(meta.get(b"generation", 0)),
        generations={int(g) for g in single(b"generations")},
        stored_bytes=int(meta.get(b"bytes", 0)),
        private_bytes=int(meta.get(b"private_bytes", 0)),
        last_token=int(meta.get(b"last_token", 0)),
        entries={ref: Record.unpack(data) for ref, data in _by_ref(kind(b"e"))},
        interest={ref: int(count) for ref, count in _by_ref(kind(b"i"))},
        idle={ref: int(score) for ref, score in _by_ref(kind(b"idle"))},
        claims={_ref(name): _claim(row) for name, row in kind(b"c").items()},
        sources={int(epoch): int(count) for epoch, count in single(b"sources").items()},
        running={_ref(name): int(score) for name, score in single(b"running").items()},
        queues={
            name.decode(): {_ref(ref): int(place) for ref, place in queue.items()}
            for name, queue in kind(b"queue").items()
        },
        waiters={_ref(name): {run.decode() for run in runs} for name, runs in kind(b"w").items()},
        failures={_ref(name) for name in kind(b"f")},
        dropped={ref: int(token) for ref, token in _by_ref(kind(b"dropped"))},
        tombs={path.decode() for path in single(b"tombs")},
        deleting={path.decode() for path in single(b"deleting")},
        jobs={job.decode(): _job(job, row, kind(b"m").get(job, {})) for job, row in kind(b"j").items()},
        deadlines={job.decode(): int(score) for job, score in single(b"jobs").items()},
        maps={run.decode(): _map(row) for run, row in kind(b"map").items()},
        graves={run.decode(): _map(row) for run, row in kind(b"g").items()},
        buried={line[1:].decode() for line in single(b"graves")},
        untold=(set(kind(b"t")), set(single(b"told"))),
        asked={request.decode() for request, answer in kind(b"asked").items() if not answer},
        requests={fields[b"request"].decode() for _, fields in single(b"purges") or ()},
        streams={run.decode() for run in kind(b"n")},
        ended={run.decode() for run in kind(b"x")},
    )


def _by_ref(generations: Rows) -> Iterator[tuple[Ref, Any]]:
    for generation, row in generations.items():
        for key, value in row.items():
            yield (int(generation), key), value


def _ref(name: bytes) -> Ref:
    generation, _, key = name.partition(b":")
    return int(generation), key


def _claim(row: Mapping[bytes, bytes]) -> Claim:
    token, priority = row.get(b"token"), int(row.get(b"priority", 0))
    state, queue = row.get(b"state", b"").decode(), row.get(b"queue", b"").decode()
    sources = row.get(b"sources")
    return Claim(state, int(token) if token else None, queue, priority, int(sources) if sources else None)


def _job(job: bytes, row: Mapping[bytes, bytes], members: Mapping[bytes, float]) -> Job:
    run = f"{job.decode()}@{row[b'incarnation'].decode()}"
    return Job(run, int(row[b"floor"]), {member.decode(): int(score) for member, score in members.items()})


def _map(row: Mapping[bytes, bytes]) -> dict[bytes, tuple[int, str]]:
    held = {}
    for key, value in row.items():
        digits = len(value) - len(value.lstrip(b"0123456789"))
        held[key] = (int(value[:digits]), chr(value[digits]))
    return held
