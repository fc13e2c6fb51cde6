"""Submissions that came through Celery: kept from the first moment until their answer is out and their hold is over.

A plan goes on in short steps that any planner may do. Each is safe to do twice: the job's map and the claims decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
import redis
import zstandard

from farm.errors import InputError
from farm.index import names
from farm.index.scripts import Scripts
from farm.request.values import shown

#: How long it is remembered that a task was answered: as long as Celery keeps the result.
_ANSWERED_TTL_MS = 86_400_000
_MANIFEST_MAX_BYTES = 64 * 2**20
#: The one member of such a job, whichever planner speaks for it.
MEMBER = "planner"


@dataclass(frozen=True, slots=True)
class Stand:
    """The planner's membership in one namespace."""

    incarnation: int
    lease_ms: int


@dataclass(slots=True)
class Progress:
    """What a step leaves for the next one."""

    #: By namespace.
    stands: dict[str, Stand] = field(default_factory=dict)
    #: What is waited for: namespace, generation, key.
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)
    #: The operators' keys, in order, in hex digits.
    keys: list[str] = field(default_factory=list)
    #: How each key that was not there at first came to be: ``compiled`` or ``joined``.
    outcomes: dict[str, str] = field(default_factory=dict)
    #: Since when a queue has no worker (ms).
    unserved: dict[str, int] = field(default_factory=dict)
    #: When the submitter gives up (ms); 0: never.
    deadline_ms: int = 0
    #: Since when no step could be done, as a part of the farm was away (ms); 0: none is.
    away_since_ms: int = 0

    def pack(self) -> bytes:
        """As the index keeps it."""
        stands = {namespace: (one.incarnation, one.lease_ms) for namespace, one in self.stands.items()}
        rest = (self.pending, self.keys, self.outcomes, self.unserved, self.deadline_ms, self.away_since_ms)
        packed: bytes = msgpack.packb([stands, *rest])
        return packed

    @classmethod
    def unpack(cls, data: bytes | None) -> Progress:
        """What an earlier step has left; of the first step nothing, as of one that another version did.

        Nothing is lost with it: the job's map and the claims say what was asked for.
        """
        if not data:
            return cls()
        try:
            stands, pending, *rest = msgpack.unpackb(data)
            named = {namespace: Stand(*numbers) for namespace, numbers in stands.items()}
            return cls(named, [tuple(row) for row in pending], *rest)
        except (msgpack.UnpackException, ValueError, TypeError, AttributeError):
            return cls()


@dataclass(frozen=True, slots=True)
class Plan:
    """A submission of which the caller does a step."""

    id: str
    #: The document as it was sent.
    manifest: Any
    options: Mapping[str, Any]
    created_ms: int
    progress: Progress
    #: The answer, when a step has found it and died before it was out.
    answer: bytes | None


@dataclass(frozen=True, slots=True)
class Look:
    """What the coordinator sees of a plan."""

    progress: Progress
    step_until_ms: int
    #: When a step is due in any case (ms).
    poll_ms: int
    #: Until when pins are kept after the answer (ms); None: not answered yet.
    hold_until_ms: int | None


class Plans:
    """All plans of a farm."""

    def __init__(self, server: redis.Redis, now_ms: int | None = None) -> None:
        self.server: Any = server
        self.scripts = Scripts(server, names.FARM + "meta")
        self.now_ms = now_ms

    def begin(self, id: str, manifest: Any, options: Mapping[str, Any] | None, lease_ms: int) -> Plan | None:
        """Keep a plan if it is new, and begin a step; atomic, safe to repeat, also late.

        Args:
            manifest: None: of a plan that is kept already.

        Returns:
            None when there is nothing to do: another step is under way, the answer is out, or it is unknown.

        Raises:
            InputError: it holds what no manifest can, and so can not be kept: the submitter mends it.
        """
        packed = b"" if manifest is None else zstandard.compress(_packed(manifest, "the manifest"))
        given = _packed(options or {}, "an option")
        reply = self.scripts.run("plan", id, packed, given, lease_ms, now_ms=self.now_ms)
        if reply[0] != b"step":
            return None
        row = dict(zip(reply[1::2], reply[2::2], strict=True))
        document = zstandard.ZstdDecompressor().decompress(row[b"manifest"], max_output_size=_MANIFEST_MAX_BYTES)
        return Plan(
            id,
            msgpack.unpackb(document),
            msgpack.unpackb(row[b"options"]),
            int(row[b"created_ms"]),
            Progress.unpack(row.get(b"progress")),
            row.get(b"answer"),
        )

    def leave_off(self, id: str, progress: Progress, next_ms: int, poll_ms: int) -> None:
        """The step is over and its plan not: the coordinator looks at it from ``next_ms`` on."""
        with self.server.pipeline(transaction=True) as pipe:
            pipe.hset(self._plan(id), mapping={"progress": progress.pack(), "step_until_ms": 0, "poll_ms": poll_ms})
            pipe.zadd(names.PLANS, {id: next_ms})
            pipe.execute()

    def keep_answer(self, id: str, answer: bytes, progress: Progress) -> None:
        """Before it is given out: whoever goes on after a death gives out the same."""
        self.server.hset(self._plan(id), mapping={"answer": answer, "progress": progress.pack()})

    def answered(self, id: str, hold_until_ms: int, next_ms: int) -> None:
        """The answer is out; the membership is kept until the hold is over."""
        with self.server.pipeline(transaction=True) as pipe:
            pipe.hset(self._plan(id), mapping={"answered": 1, "hold_until_ms": hold_until_ms})
            pipe.hdel(self._plan(id), "manifest", "options", "answer")
            pipe.zadd(names.PLANS, {id: next_ms})
            pipe.execute()

    def clock_ms(self) -> int:
        """The server's time."""
        if self.now_ms is not None:
            return self.now_ms
        seconds, microseconds = self.server.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Plans that the coordinator should look at now."""
        return [id.decode() for id in self.server.zrangebyscore(names.PLANS, "-inf", now_ms, start=0, num=limit)]

    def look(self, id: str) -> Look | None:
        """What is there of a plan; None: nothing."""
        fields = ("created_ms", "progress", "step_until_ms", "poll_ms", "hold_until_ms")
        created, progress, step, poll, hold = self.server.hmget(self._plan(id), *fields)
        if created is None:
            return None
        return Look(Progress.unpack(progress), int(step or 0), int(poll or 0), None if hold is None else int(hold))

    def postpone(self, id: str, next_ms: int) -> None:
        """Look again then; not at one that has gone meanwhile."""
        self.server.zadd(names.PLANS, {id: next_ms}, xx=True)

    def forget(self, id: str) -> None:
        """The hold is over: nothing is left to do; a message of this task that comes late is still known as one."""
        with self.server.pipeline(transaction=True) as pipe:
            pipe.zrem(names.PLANS, id)
            pipe.hdel(self._plan(id), "progress")
            pipe.pexpire(self._plan(id), _ANSWERED_TTL_MS)
            pipe.execute()

    @staticmethod
    def _plan(id: str) -> str:
        return names.PLAN + id


def _packed(value: Any, what: str) -> bytes:
    """JSON, as it was sent, has lone surrogates, numbers of any length, and no end of nesting."""
    try:
        packed: bytes = msgpack.packb(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"farm.submit: {what} holds what can not be kept: {shown(str(error))}",
            fix="send valid Unicode text, numbers of at most 64 bits, lists and mappings that are not nested deep",
        ) from None
    return packed
