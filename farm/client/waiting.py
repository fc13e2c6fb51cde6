"""Waits for all that a job has asked for, whoever submitted it; keeps the job alive meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from farm.client.claiming import Claiming
from farm.client.connection import Connection
from farm.client.livejob import LiveJob, unknown
from farm.client.part import Part
from farm.client.results import OperatorError
from farm.client.tending import Tending
from farm.errors import JobEnded
from farm.index.joblist import asked_keys, claim_queues
from farm.index.outcomes import Failure, Hit, Joined, Left, Refused
from farm.index.registry import Offer, Registry
from farm.namespace import Namespace

#: A notice may be lost, and members may ask for more: everything is looked at again this often.
POLL_SECONDS = 5.0
_WAIT_MS = 500

State = Literal["done", "failed", "timeout", "cancelled"]


@dataclass
class Watched:
    """The keys of one namespace: what is there, what failed, and what is waited for, with its claim's generation."""

    part: Part
    notices: str = "0-0"
    present: set[bytes] = field(default_factory=set)
    failed: dict[bytes, OperatorError] = field(default_factory=dict)
    pending: dict[bytes, int | None] = field(default_factory=dict)
    offers: dict[bytes, Offer] = field(default_factory=dict)


@dataclass
class _Waiting:
    """One key that is waited for, as the chores see it."""

    watched: Watched
    key: bytes
    part: Part
    offer: Offer

    def fail(self, failure: Failure, remembered: bool = False) -> None:
        self.watched.pending.pop(self.key, None)
        self.watched.failed[self.key] = OperatorError(failure, remembered)


class JobWait:
    """One wait. Its membership lapses with its lease, so that it never ends the job that it waited for."""

    def __init__(self, connection: Connection, job_id: str, say: Callable[[str], None]) -> None:
        settings = connection.settings
        self._job = LiveJob(connection, job_id, say)
        self._say = say
        self._registry: Registry = connection.registry
        self._heartbeat_seconds = settings.heartbeat_seconds
        claiming = Claiming(connection.addresses, say)
        self._tending = Tending(settings, connection.registry, self._job.link, claiming)
        self._queues: dict[str, Offer] = {}
        self.watched: dict[Namespace, Watched] = {}

    def run(self, timeout_seconds: float | None) -> tuple[State, str]:
        """Wait until every key that the job has asked for is there or has failed, or the time is over.

        Returns the state, and why when somebody ended the job.

        Raises:
            InputError: no such job lives.
            FarmUnavailable: the farm is gone for longer than the settings allow.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            self._look_at_all()
            if not self.watched:
                raise unknown(self._job.id)
            while not self._is_done():
                if deadline is not None and time.monotonic() >= deadline:
                    return "timeout", ""
                self._step()
        except JobEnded as ended:
            return "cancelled", ended.message
        return ("failed" if any(one.failed for one in self.watched.values()) else "done"), ""

    def _is_done(self) -> bool:
        """Nothing is waited for, also after another look for what members have asked meanwhile."""
        if not any(one.pending for one in self.watched.values()):
            self._look_at_all()
        return not any(one.pending for one in self.watched.values())

    def _step(self) -> None:
        timeout_ms = _WAIT_MS // len(self.watched)
        for one in self.watched.values():
            run = one.part.who.run
            one.notices, told = self._job.link.call(partial(one.part.index.wait_notices, run, one.notices, timeout_ms))
            self._resolve(one, told & one.pending.keys())
        if time.monotonic() >= self._next_poll:
            self._look_at_all()
        if self._tending.due():
            self._tending.tend(self._chores(), self._say)

    def _look_at_all(self) -> None:
        """Find the job's namespaces, stay a member in each, and ask for what is not there yet."""
        self._next_poll = time.monotonic() + min(POLL_SECONDS, self._heartbeat_seconds)
        for namespace, row in self._job.look().items():
            if namespace not in self.watched and row.lease_left_ms > 0:
                part = self._job.part(namespace, row)
                answer = self._job.link.call(lambda part=part: part.index.heartbeat(part.who))  # type: ignore[misc]
                if isinstance(answer, Left):
                    self.watched[namespace] = Watched(part)
            elif namespace in self.watched:
                part = self.watched[namespace].part
                part.who = replace(part.who, floor=max(part.who.floor, row.floor))
        for one in self.watched.values():
            one.part.heartbeat()
            index, run = one.part.index, one.part.who.run
            known = one.present | one.failed.keys()
            asked = self._job.link.call(lambda index=index, run=run: set(asked_keys(index, run)))  # type: ignore[misc]
            self._resolve(one, (asked | one.pending.keys()) - known)

    def _resolve(self, one: Watched, keys: Iterable[bytes]) -> None:
        """The job's own answers; asking for what it has asked for changes nothing."""
        some = list(keys)
        for key, answer in zip(some, one.part.acquire(some), strict=True):
            one.pending.pop(key, None)
            match answer:
                case Hit():
                    one.present.add(key)
                case Refused(failure, remembered):
                    one.failed[key] = OperatorError(failure, remembered)
                case Joined(generation):
                    one.pending[key] = generation
                case _:  # dropped: the member that has the request asks for it again
                    one.pending[key] = None

    def _chores(self) -> list[_Waiting]:
        """What is waited for and has a claim, with the toolchain that it waits for."""
        waiting = []
        for one in self.watched.values():
            unknown = [(g, key) for key, g in one.pending.items() if g is not None and key not in one.offers]
            index = one.part.index
            queues = self._job.link.call(partial(claim_queues, index, unknown)) if unknown else []
            for (_, key), queue in zip(unknown, queues, strict=True):
                if queue and (offer := self._offer(queue)):
                    one.offers[key] = offer
            waiting += [_Waiting(one, key, one.part, one.offers[key]) for key in one.pending if key in one.offers]
        return waiting

    def _offer(self, queue: str) -> Offer | None:
        if queue not in self._queues:
            self._queues = {offer.queue: offer for offer in self._job.link.call(self._registry.offers)}
        return self._queues.get(queue)
