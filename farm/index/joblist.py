"""Reads what jobs there are and how far they are, for reports; each look is bounded, whatever the size of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from farm.index.index import Index
from farm.index.outcomes import Failure

_CHUNK = 500
#: Failures that a report names; the others are counted.
_FAILURES_SHOWN = 20

#: Of the keys that a job asked for: there, compiled now, queued, failed; dropped, to be asked for again.
STATES = ("present", "running", "queued", "failed", "absent")


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in one namespace; what is left of its last member's lease is below 0 when that is over."""

    job: str
    incarnation: int
    mode: str
    priority: int
    owner: bytes
    floor: int
    created_ms: int
    #: Toolchain -> the fingerprint that the job uses.
    toolchains: Mapping[str, str]
    members: int
    lease_left_ms: int
    keys: int

    @property
    def run(self) -> str:
        """The job and its incarnation, as the index names them."""
        return f"{self.job}@{self.incarnation}"


@dataclass
class KeyStates:
    """The states of ``looked_at`` of a job's ``total`` keys, and some of its failures."""

    total: int
    looked_at: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[bytes, Failure]] = field(default_factory=list)


def live_jobs(index: Index, limit: int) -> list[str]:
    """The ids of at most so many live jobs, those with the latest deadline first."""
    now = clock_ms(index)
    held = now < int(index.server.hget(f"{index.prefix}meta", "hold_until") or 0)
    rows = index.server.zrevrangebyscore(
        f"{index.prefix}jobs", "+inf", "-inf" if held else f"({now}", start=0, num=limit
    )
    return [job.decode() for job in rows]


def find_jobs(index: Index, jobs: Sequence[str]) -> dict[str, JobRow]:
    """Those of these jobs that the namespace knows, also lapsed ones that nobody has ended; two round trips."""
    now, prefix = clock_ms(index), index.prefix
    with index.server.pipeline(transaction=False) as pipe:
        for job in jobs:
            pipe.hgetall(f"{prefix}j:{job}")
            pipe.zcount(f"{prefix}m:{job}", f"({now}", "+inf")
            pipe.zscore(f"{prefix}jobs", job)
        replies = pipe.execute()
    found = [row for row in zip(jobs, replies[::3], replies[1::3], replies[2::3], strict=True) if row[1]]
    with index.server.pipeline(transaction=False) as pipe:
        for job, fields, _, _ in found:
            pipe.hlen(f"{prefix}map:{job}@{fields[b'incarnation'].decode()}")
        sizes = pipe.execute()
    return {
        job: JobRow(
            job=job,
            incarnation=int(fields[b"incarnation"]),
            mode=fields[b"mode"].decode(),
            priority=int(fields[b"priority"]),
            owner=fields[b"owner"],
            floor=int(fields[b"floor"]),
            created_ms=int(fields[b"created_ms"]),
            toolchains=_chosen(fields),
            members=members,
            lease_left_ms=int(deadline or 0) - now,
            keys=keys,
        )
        for (job, fields, members, deadline), keys in zip(found, sizes, strict=True)
    }


def _chosen(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    rows = ((name.decode().partition(":"), value) for name, value in fields.items())
    return {toolchain: value.decode() for (kind, _, toolchain), value in rows if kind == "fp"}


def member_leases(index: Index, job: str, limit: int) -> dict[str, int]:
    """Members of a job with the ms that are left of their leases, at most so many, those with the most left first."""
    now = clock_ms(index)
    rows = index.server.zrevrangebyscore(
        f"{index.prefix}m:{job}", "+inf", f"({now}", start=0, num=limit, withscores=True
    )
    return {member.decode(): int(deadline) - now for member, deadline in rows}


def asked_keys(index: Index, run: str) -> Iterator[bytes]:
    """Every key that the job's map holds, in chunks; some perhaps twice."""
    for key, _ in index.server.hscan_iter(f"{index.prefix}map:{run}", count=_CHUNK):
        yield key


def held_keys(index: Index, run: str) -> Iterator[tuple[int, bytes]]:
    """Every key that the job is interested in, with its generation, in chunks; some perhaps twice."""
    for key, value in index.server.hscan_iter(f"{index.prefix}map:{run}", count=_CHUNK):
        generation, state, _ = _held(value)
        if state == b"i":
            yield generation, key


def claim_queues(index: Index, claims: Sequence[tuple[int, bytes]]) -> list[str | None]:
    """The queue of each claim (generation, key); None where there is none."""
    with index.server.pipeline(transaction=False) as pipe:
        for generation, key in claims:
            pipe.hget(_claim(index, generation, key), "queue")
        return [queue.decode() if queue else None for queue in pipe.execute()]


@dataclass(frozen=True, slots=True)
class Awaited:
    """A claim that a job waits for: whose it was first, and which queue compiles it."""

    generation: int
    claimed_by: str
    queue: str


def awaited(index: Index, run: str, keys: Sequence[bytes]) -> dict[bytes, Awaited]:
    """Those of these keys that the job's map holds and a live claim is for; two round trips."""
    held = index.server.hmget(f"{index.prefix}map:{run}", keys) if keys else []
    generations = {key: _held(value)[0] for key, value in zip(keys, held, strict=True) if value}
    with index.server.pipeline(transaction=False) as pipe:
        for key, generation in generations.items():
            pipe.hmget(_claim(index, generation, key), "job", "queue")
        rows = pipe.execute()
    return {
        key: Awaited(generation, job.decode(), queue.decode())
        for (key, generation), (job, queue) in zip(generations.items(), rows, strict=True)
        if queue
    }


def are_claimed(index: Index, claims: Sequence[tuple[int, bytes]]) -> list[bool]:
    """Whether there is a live claim of each (generation, key)."""
    with index.server.pipeline(transaction=False) as pipe:
        for generation, key in claims:
            pipe.exists(_claim(index, generation, key))
        return [bool(there) for there in pipe.execute()]


def key_states(index: Index, run: str, limit: int) -> KeyStates:
    """How far a job is: the states of its keys, of at most so many."""
    name = f"{index.prefix}map:{run}"
    states = KeyStates(total=int(index.server.hlen(name)))
    rows = islice(index.server.hscan_iter(name, count=_CHUNK), limit)
    while chunk := dict(islice(rows, _CHUNK)):
        states.looked_at += len(chunk)
        interested: dict[int, list[bytes]] = {}
        for key, value in chunk.items():
            generation, state, rest = _held(value)
            if state == b"f":
                _count_failure(states, key, rest[1:])
            else:
                interested.setdefault(generation, []).append(key)
        for generation, keys in interested.items():
            _count_interested(index, states, generation, keys)
    return states


def _held(value: bytes) -> tuple[int, bytes, bytes]:
    digits = len(value) - len(value.lstrip(b"0123456789"))
    return int(value[:digits]), value[digits : digits + 1], value[digits + 1 :]


def _count_failure(states: KeyStates, key: bytes, packed: bytes) -> None:
    states.counts["failed"] += 1
    if len(states.failures) < _FAILURES_SHOWN:
        states.failures.append((key, Failure.unpack(packed)))


def _count_interested(index: Index, states: KeyStates, generation: int, keys: list[bytes]) -> None:
    records = index.server.hmget(f"{index.prefix}e:{generation}", keys)
    missing = [key for key, record in zip(keys, records, strict=True) if not record]
    states.counts["present"] += len(keys) - len(missing)
    with index.server.pipeline(transaction=False) as pipe:
        for key in missing:
            pipe.hget(_claim(index, generation, key), "state")
            pipe.hget(f"{index.prefix}f:{generation}:".encode() + key, "error")
        replies = pipe.execute()
    for key, claimed, error in zip(missing, replies[::2], replies[1::2], strict=True):
        if claimed:
            states.counts[claimed.decode()] += 1
        elif error:
            _count_failure(states, key, error)
        else:
            states.counts["absent"] += 1


def _claim(index: Index, generation: int, key: bytes) -> bytes:
    return f"{index.prefix}c:{generation}:".encode() + key


def clock_ms(index: Index) -> int:
    """The server's time, by which all deadlines are judged."""
    if index.now_ms is not None:
        return index.now_ms
    seconds, microseconds = index.server.time()
    return int(seconds) * 1000 + int(microseconds) // 1000
