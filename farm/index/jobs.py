"""What a job's members ask of the index: membership, answers for keys, claims, and recovery after a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from farm.index.answers import batches, read_answers
from farm.index.outcomes import Answer, Ended, Left, Membership, NotOpen, OtherMode, Over, Stale, UnknownJob
from farm.index.record import Record
from farm.index.scripts import Scripts
from farm.index.sources import SourceLease
from farm.namespace import Namespace, bundle_path

#: Whose keys a call asks for: the namespace's, or the job's own.
Scope = Literal["shared", "private"]

#: Classes of the fair queue: a lower one is served first.
PRIORITIES = {"urgent": 0, "normal": 1, "bulk": 2}


@dataclass(frozen=True, slots=True)
class Member:
    """Who asks: one member of one incarnation of a job, with the lease that each call extends."""

    job: str
    member: str
    mode: str
    priority: int
    owner: bytes
    lease_ms: int
    incarnation: int = 0
    floor: int = 0

    @property
    def run(self) -> str:
        """The job and its incarnation, as the index names them."""
        return f"{self.job}@{self.incarnation}"


@dataclass(frozen=True, slots=True)
class Want:
    """A key to be claimed: the packed request, and the queue of the toolchain that compiles it."""

    key: bytes
    request: bytes
    queue: str


@dataclass(frozen=True, slots=True)
class Holding:
    """What a member holds: a verified bundle of this generation and key."""

    generation: int
    key: bytes
    record: Record


class JobCalls:
    """The members' half of the index."""

    def __init__(self, scripts: Scripts, namespace: Namespace, now_ms: int | None = None) -> None:
        self.scripts = scripts
        self.namespace = namespace
        #: Time under test; None: the server's clock.
        self.now_ms = now_ms

    def open(self, generation: int) -> int:
        """Give the namespace its meta if it has none, and raise it to the largest marker; never lowers it.

        Safe to repeat, also late. Returns the generation in force.
        """
        return int(self.scripts.run("open", max(1, generation), now_ms=self.now_ms))

    def join(self, who: Member) -> Membership | NotOpen | OtherMode:
        """Become a member, or renew the membership; atomic, safe to repeat.

        Returns:
            Membership: of the incarnation that lives now; a new one when all earlier members have left.
            NotOpen: open the namespace at the largest marker of the store, then ask again.
            OtherMode: the job runs in another mode: the submitter mends it.
        """
        reply = self.scripts.run(
            "join", who.job, who.member, who.mode, who.priority, who.owner, who.lease_ms, now_ms=self.now_ms
        )
        match reply[0]:
            case b"joined":
                return Membership(*(int(number) for number in reply[1:]))
            case b"other_mode":
                return OtherMode(reply[1].decode())
            case _:
                return NotOpen()

    def heartbeat(self, who: Member) -> Left | UnknownJob:
        """Extend the member's lease; safe to repeat. UnknownJob: announce what is held."""
        reply = self.scripts.run("heartbeat", who.job, who.incarnation, who.member, who.lease_ms, now_ms=self.now_ms)
        return Left(int(reply[1])) if reply[0] == b"alive" else UnknownJob()

    def leave(self, who: Member, how: Literal["keep", "cancel"] = "keep") -> Left | Ended | UnknownJob:
        """Give up the membership; the last one out ends the job in O(1). Safe to repeat.

        ``cancel`` also stops running compiles that nobody else wants; otherwise they finish.
        """
        return self._leave(who.job, who.incarnation, who.member, how[0])

    def end_lapsed(self, limit: int = 10) -> int:
        """End jobs whose members' leases are all over; bounded. Returns how many ended."""
        reply = self.scripts.run("lapsed", limit, now_ms=self.now_ms)
        runs = zip(reply[::2], reply[1::2], strict=True)
        return sum(isinstance(self._leave(job, int(run), "", "k"), Ended) for job, run in runs)

    def _leave(self, job: str | bytes, incarnation: int, member: str, how: str) -> Left | Ended | UnknownJob:
        reply = self.scripts.run("leave", job, incarnation, member, how, now_ms=self.now_ms)
        match reply[0]:
            case b"left":
                return Left(int(reply[1]))
            case b"ended":
                return Ended()
            case _:
                return UnknownJob()

    def end(
        self, job: str, incarnation: int, how: Literal["keep", "cancel"], by: str, keep_ms: int
    ) -> Ended | UnknownJob:
        """End a job at once, whoever its members are; in O(1), safe to repeat, also late.

        ``keep_ms``: one job lease; so long its members are told by announce instead of bringing it back.
        """
        reply = self.scripts.run("end", job, incarnation, how[0], by, keep_ms, now_ms=self.now_ms)
        return Ended() if reply == b"ended" else UnknownJob()

    def bury(self, limit: int = 250) -> int:
        """Give back a chunk of the interest of ended jobs. Returns how many graveyards are left."""
        return int(self.scripts.run("bury", limit, now_ms=self.now_ms))

    def choose(self, who: Member, toolchain: str, fingerprint: str) -> str | UnknownJob:
        """Fix the job's fingerprint for a toolchain; the first member decides, all get the same."""
        reply = self.scripts.run("choose", who.job, who.incarnation, toolchain, fingerprint, now_ms=self.now_ms)
        return reply[1].decode() if reply[0] == b"chosen" else UnknownJob()

    def acquire(self, who: Member, keys: Sequence[bytes], scope: Scope = "shared") -> list[Answer] | UnknownJob:
        """Answer keys and pin what is there, in batches of one round trip; each batch is atomic.

        Safe to repeat: a key that the job holds keeps its generation and is counted once.

        Args:
            scope: ``private``: the keys are salted with this run; what is made for them goes with the job.
        """
        head = (who.job, who.incarnation, who.member, who.lease_ms, who.floor, scope)
        calls: list[tuple[str | bytes | int, ...]] = [(*head, *batch) for batch in batches(keys)]
        return self._answers(self.scripts.run_many("acquire", calls, now_ms=self.now_ms) if calls else [])

    def claim(
        self,
        who: Member,
        wants: Sequence[Want],
        nonce: str,
        scope: Scope = "shared",
        sources: SourceLease | None = None,
    ) -> list[Answer] | UnknownJob | Stale:
        """Queue a compile for each key that is still absent; each batch is atomic.

        Safe to repeat with the same nonce: what this caller claimed is answered Claimed again.

        Args:
            sources: under which the sources that the requests name were put into the store; they stay as long as
                the claims. None: the requests name none.
        """
        epoch, until_ms = (sources.epoch, sources.until_ms) if sources else (0, 0)
        head = (who.job, who.incarnation, who.member, who.lease_ms, who.floor, scope, nonce, epoch, until_ms)
        calls = []
        for batch in batches(wants, 50):
            triples = [part for want in batch for part in (want.key, want.request, want.queue)]
            calls.append((*head, *triples))
        replies = self.scripts.run_many("claim", calls, now_ms=self.now_ms) if calls else []
        return Stale() if any(reply[0] == b"stale" for reply in replies) else self._answers(replies)

    @staticmethod
    def _answers(replies: list[list[bytes]]) -> list[Answer] | UnknownJob:
        if any(reply[0] == b"unknown" for reply in replies):
            return UnknownJob()
        return [answer for reply in replies for answer in read_answers(reply)]

    def announce(self, who: Member, holdings: Sequence[Holding]) -> list[Record | None] | UnknownJob | NotOpen | Over:
        """Say what is held, after a reconnect or when the job was unknown; restores interest and entries.

        Safe to repeat. An empty list of holdings restores the membership alone.

        Returns:
            list: the record in force for each holding; another token than the caller's: fetch that bundle.
                None: the job has a newer generation's, or the bundle is being deleted: ask for the key again.
            UnknownJob: the id lives on as another incarnation: take that one and announce again.
            NotOpen: open the namespace at the largest marker of the store, then announce again.
            Over: somebody has ended the job; nothing was restored.
        """
        records: list[Record | None] = []
        for batch in list(batches(holdings)) or [()]:
            reply = self.scripts.run("announce", *self._announcement(who, batch), now_ms=self.now_ms)
            if reply[0] == b"unknown":
                return UnknownJob(int(reply[1]))
            if reply[0] == b"not_open":
                return NotOpen()
            if reply[0] == b"over":
                return Over("cancelled" if reply[1][:1] == b"c" else "released", reply[1][1:].decode(errors="replace"))
            records += [Record.unpack(data) if data else None for data in reply[1]]
        return records

    def _announcement(self, who: Member, batch: Sequence[Holding]) -> list[str | bytes | int]:
        arguments: list[str | bytes | int] = [
            who.job, who.incarnation, who.member, who.mode, who.priority, who.owner, who.lease_ms, who.floor,
        ]  # fmt: skip
        for held in batch:
            path = bundle_path(self.namespace, held.generation, held.key, held.record.token)
            arguments += [held.key, held.generation, held.record.pack(), path, held.record.near_row]
        return arguments


def as_member(who: Member, membership: Membership) -> Member:
    """The same caller, now a member of that incarnation; a floor it was promised never sinks."""
    return replace(who, incarnation=membership.incarnation, floor=max(who.floor, membership.floor))
