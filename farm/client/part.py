"""A job's part in one namespace: its membership, what it holds there, and how it recovers from a loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Literal, TypeVar, cast

from farm.client.link import Link
from farm.errors import FarmError, FarmUnavailable, InputError, JobEnded
from farm.failpoint import reach
from farm.index import names
from farm.index.index import Index
from farm.index.jobs import Holding, Member, Scope, Want, as_member
from farm.index.outcomes import Answer, Ended, Membership, NotOpen, OtherMode, Over, Stale, UnknownJob
from farm.index.sources import SourceEpochs, SourceLease
from farm.index.upkeep import NoJob, Purged
from farm.namespace import bundle_path
from farm.store.store import Store

T = TypeVar("T")

#: A notice says at once that the purge is done; one that was lost costs this.
_PURGE_POLL_MS = 1000
#: Chunks that one member drains when it ends a job; a coordinator or the next one goes on.
_BURY_CALLS = 400


class Part:
    """One member's stand in a namespace. Thread-safe: the heartbeat shares it with the caller."""

    def __init__(self, index: Index, store: Store, link: Link, who: Member) -> None:
        self.index = index
        self.namespace = index.namespace
        self._store = store
        self._link = link
        self.who = who
        self.held: dict[bytes, Holding] = {}
        self._lock = RLock()
        self._hold_seen_ms = 0
        self._reconnects_seen = 0
        self._over: Over | None = None
        #: When the index last heard of this member, and told that it knows it.
        self._known_at = time.monotonic()

    def join(self, purge: bool = False, force_timeout_seconds: float = 30) -> None:
        """Become a member; opens the namespace when nobody has, and has it purged first when the job's mode is force.

        Raises:
            InputError: the job runs in another mode.
            FarmUnavailable: to be purged, and no coordinator serves purges.
        """
        with suppress(FarmError):  # other jobs' remains; whoever comes next tries again
            self._link.call(self.index.end_lapsed)
        answer = self._link.call(lambda: self.index.join(self.who))
        if isinstance(answer, NotOpen):
            self._open()
            answer = self._link.call(lambda: self.index.join(self.who))
        match answer:
            case Membership():
                self.who = as_member(self.who, answer)
                reach("join.after_join")
            case OtherMode(mode):
                raise InputError(
                    f"job {self.who.job} runs with mode {mode}; this member asked for {self.who.mode}",
                    fix="give all members of a job the same mode, or another job id",
                )
            case NotOpen():
                raise FarmError(f"namespace {self.namespace} can not be opened")
        if purge and not self.who.floor:
            self.who = replace(self.who, floor=self._purge(force_timeout_seconds))

    def _purge(self, timeout_seconds: float) -> int:
        """Have entries made before this job's ask serve it no more; once a run, however many members ask.

        Returns the floor: the generation below which this job is never answered.

        Raises:
            FarmUnavailable: no coordinator has served the request in time; it is dropped with the job.
        """
        who, deadline = self.who, time.monotonic() + timeout_seconds
        notices = "0-0"
        while True:
            answer = self._link.call(lambda: self.index.ask_purge(who.run, who.job, who.incarnation))
            if isinstance(answer, Purged):
                return answer.generation
            if time.monotonic() >= deadline:
                raise FarmUnavailable(
                    f"mode force: no coordinator purged {self.namespace} within {timeout_seconds:g} s",
                    fix="start one with: celery -A farm coordinator   or use mode enable",
                )
            if isinstance(answer, NoJob):  # lost with the server's data, or ended by somebody
                self.announce()
            notices, _ = self._link.call(partial(self.index.wait_notices, who.run, notices, _PURGE_POLL_MS))

    def _open(self) -> None:
        generation = self._link.call(lambda: self._store.largest_generation(self.namespace))
        # Known first, then open: the coordinator looks after whatever may have claims, whenever we die.
        self._link.call(lambda: self.index.server.sadd(names.NAMESPACES, str(self.namespace)))
        self._link.call(lambda: self.index.open(generation))

    def ask(self, operation: Callable[[], T | UnknownJob]) -> T:
        """Run an operation of this member; when the index has lost the job, restore it and run it again.

        Raises:
            JobEnded: somebody has ended the job.
        """
        while True:
            self._check()
            answer = self._link.call(operation)
            if self._link.reconnects != self._reconnects_seen or isinstance(answer, UnknownJob):
                self.announce()
            if not isinstance(answer, UnknownJob):
                self._known_at = time.monotonic()
                return answer

    def acquire(self, keys: Sequence[bytes], scope: Scope = "shared") -> list[Answer]:
        """Answers for keys of one scope, in order; what is there is pinned."""
        return self.ask(lambda: self.index.acquire(self.who, keys, scope))

    def claim(
        self, wants: Sequence[Want], nonce: str, scope: Scope = "shared", sources: SourceLease | None = None
    ) -> list[Answer] | Stale:
        """Claims for absent keys of one scope, in order."""
        answer = self.ask(lambda: self.index.claim(self.who, wants, nonce, scope, sources))
        return cast("list[Answer] | Stale", answer)

    def source_lease(self) -> SourceLease:
        """The epoch into which sources that claims name are put, before they are claimed."""
        return self._link.call(SourceEpochs(self.index.server).lease)

    def put_source(self, sha256: bytes, epoch: int, data: bytes) -> None:
        """Put a source that claims will name; safe to repeat.

        Raises:
            FarmUnavailable: the store does not take it, for as long as the settings allow, or its disk is full.
        """
        self._link.call(lambda: self._store.put_source(sha256, epoch, data))

    def choose(self, toolchain: str, fingerprint: str) -> str:
        """The fingerprint that the whole job uses for the toolchain."""
        return self.ask(lambda: self.index.choose(self.who, toolchain, fingerprint))

    def hold(self, holding: Holding) -> None:
        """Remember a verified bundle: it is announced whenever the index may have lost it."""
        with self._lock:
            self.held[holding.key] = holding

    def heartbeat(self) -> None:
        """Extend the lease; restores what a server that lost data has forgotten.

        A hold says that data may be lost although the job is known: redis-py connects again without a word, and a
        replica may know the job and not what it got last.
        """
        self.ask(lambda: self.index.heartbeat(self.who))
        held_until_ms = self._link.call(self.index.held_until_ms)
        if held_until_ms != self._hold_seen_ms:
            self.announce()
            self._hold_seen_ms = held_until_ms

    def announce(self) -> None:
        """Tell the index what is held. Safe to repeat, also by two threads.

        Raises:
            JobEnded: somebody has ended the job.
        """
        with self._lock:
            reconnects = self._link.reconnects
            self._open()
            if time.monotonic() - self._known_at > self.who.lease_ms / 1000:
                self._let_go_of_what_is_gone()
            while True:
                holdings = list(self.held.values())
                answer = self._link.call(partial(self.index.announce, self.who, holdings))
                if isinstance(answer, list):
                    reach("announce.after_announce")
                    break
                if isinstance(answer, NotOpen):
                    self._open()
                elif isinstance(answer, Over):
                    self._over = answer
                    self._check()
                else:  # the id went on without us: what we hold is held by the incarnation that lives now
                    self.who = replace(self.who, incarnation=answer.incarnation or 0)
            self._reconnects_seen = reconnects
            for holding, record in zip(holdings, answer, strict=True):
                if record is None:  # another member has a newer generation's, which is pinned for all of us
                    self.held.pop(holding.key, None)
                else:
                    self.held[holding.key] = replace(holding, record=record)

    def _let_go_of_what_is_gone(self) -> None:
        """After a silence longer than the lease: bundles may have been deleted, and the index have forgotten them.

        Announced, they would be entries again, of which nothing is there.
        """
        with suppress(FarmUnavailable):  # a reader that finds one gone has it compiled again
            for key, one in list(self.held.items()):
                if not self._store.exists(bundle_path(self.namespace, one.generation, key, one.record.token)):
                    del self.held[key]

    def _check(self) -> None:
        if self._over is not None:
            by = f" by {self._over.by}" if self._over.by else ""
            raise JobEnded(
                f"job {self.who.job} was {self._over.how}{by}", fix="submit again; the id is then that of a new job"
            )

    def leave(self, cancel: bool = False) -> None:
        """Give up the membership; the last one out ends the job and drains what it leaves."""
        answer = self._link.call(lambda: self.index.leave(self.who, "cancel" if cancel else "keep"))
        if isinstance(answer, Ended):
            self.bury()

    def end(self, how: Literal["keep", "cancel"], by: str) -> bool:
        """End the job for all its members, and drain what it leaves. False: it had ended already."""
        who = self.who
        answer = self._link.call(lambda: self.index.end(who.job, who.incarnation, how, by, who.lease_ms))
        self.bury()
        return isinstance(answer, Ended)

    def bury(self) -> None:
        """Drain what ended jobs leave, or as much as one member should."""
        for _ in range(_BURY_CALLS):
            if not self._link.call(self.index.bury):
                break
