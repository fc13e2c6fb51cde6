"""What a job's members are told: membership, answers for keys, claims, and what they bring back after a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from farm.index.jobs import Holding, Member, Scope, Want
from farm.index.outcomes import (
    Absent,
    Answer,
    Claimed,
    Ended,
    Hit,
    Joined,
    Left,
    Membership,
    NotOpen,
    OtherMode,
    Over,
    Refused,
    Stale,
    UnknownJob,
)  # fmt: skip
from farm.index.record import Record
from farm.index.snapshot import Ref
from farm.index.sources import SourceLease
from farm.namespace import PRIVATE_GENERATION
from tests.property.model.state import Claim, Held, Job
from tests.property.model.workers import Workers


class Members(Workers):
    """The members' half."""

    def _extend(self, who: Member) -> Job:
        job = self.jobs[who.job]
        job.members[who.member] = max(job.members.get(who.member, 0), self.now_ms + who.lease_ms)
        return job

    def _count(self, job: Job) -> int:
        """The members; those whose lease is over are none, but while entries are held nobody's is."""
        if self.now_ms >= self.held_until_ms:
            job.members = {member: end for member, end in job.members.items() if end > self.now_ms}
        return len(job.members)

    def _end(self, name: str, how: str) -> None:
        run = f"{name}@{self.jobs.pop(name).incarnation}"
        self.notices.pop(run, None)
        if held := self.maps.pop(run, None):
            self.graves[run] = held
            self.burials.append((how, run))

    def join(self, who: Member) -> Membership | NotOpen | OtherMode:
        if not self.generation:
            return NotOpen()
        if who.job in self.jobs and not self._count(self.jobs[who.job]):
            self._end(who.job, "k")
        if who.job not in self.jobs:
            self.jobs[who.job] = Job(self._token(), who.mode, who.priority, 0)
        if self.jobs[who.job].mode != who.mode:
            return OtherMode(self.jobs[who.job].mode)
        job = self._extend(who)
        return Membership(job.incarnation, self.generation, job.floor, len(job.members))

    def heartbeat(self, who: Member) -> Left | UnknownJob:
        if not self._is_current(who.job, who.incarnation):
            return UnknownJob()
        return Left(self._count(self._extend(who)))

    def leave(self, who: Member, how: Literal["keep", "cancel"] = "keep") -> Left | Ended | UnknownJob:
        if not self._is_current(who.job, who.incarnation):
            return UnknownJob()
        self.jobs[who.job].members.pop(who.member, None)
        if members := self._count(self.jobs[who.job]):
            return Left(members)
        self._end(who.job, how[0])
        return Ended()

    def end_lapsed(self, limit: int) -> int:
        over = sorted((job.lapses_ms, name) for name, job in self.jobs.items() if job.lapses_ms <= self.now_ms)
        over = [] if self.now_ms < self.held_until_ms else over[:limit]
        for _, name in over:
            self._end(name, "k")
        return len(over)

    def end(self, job: str, incarnation: int, how: str, by: str, keep_ms: int) -> Ended | UnknownJob:
        run = f"{job}@{incarnation}"
        if not self._is_current(job, incarnation):
            return Ended() if run in self.ended else UnknownJob()
        until_ms = max(self.now_ms + keep_ms, self.jobs[job].lapses_ms)
        self.ended[run] = (Over("cancelled" if how == "cancel" else "released", by), until_ms)
        self._end(job, how[0])
        return Ended()

    def bury(self, limit: int, left: set[bytes]) -> int:
        """``left``: the keys that the server has left in the first grave in line."""
        if self.burials:
            how, run = self.burials[0]
            grave = self.graves.get(run, {})
            some = grave.keys() - left
            assert len(some) == min(limit, len(grave))
            for key in some:
                held = grave.pop(key)
                if held.failure is None:
                    self._let_go(run, (held.generation, key), cancelled=how == "c")
            if not grave:
                self.graves.pop(run, None)
                self.burials.pop(0)
        return len(self.burials)

    def choose(self, who: Member, toolchain: str, fingerprint: str) -> str | UnknownJob:
        if not self._is_current(who.job, who.incarnation):
            return UnknownJob()
        return self.jobs[who.job].fingerprints.setdefault(toolchain, fingerprint)

    # -- answers ---------------------------------------------------------------------------------------

    def acquire(self, who: Member, keys: Sequence[bytes], scope: Scope = "shared") -> list[Answer] | UnknownJob:
        if not self._is_current(who.job, who.incarnation):
            return UnknownJob()
        self._extend(who)
        self.generation = max(self.generation, who.floor)
        return self._answers(who, keys, scope)

    def claim(
        self,
        who: Member,
        wants: Sequence[Want],
        nonce: str,
        scope: Scope = "shared",
        sources: SourceLease | None = None,
    ) -> list[Answer] | UnknownJob | Stale:
        if not self._is_current(who.job, who.incarnation):
            return UnknownJob()
        if sources and self.now_ms >= sources.until_ms:
            return Stale()
        answers = self.acquire(who, [want.key for want in wants], scope)
        assert isinstance(answers, list)
        return [self._claim(who, *row, nonce, scope, sources) for row in zip(wants, answers, strict=True)]

    def _claim(
        self, who: Member, want: Want, answer: Answer, nonce: str, scope: Scope, sources: SourceLease | None
    ) -> Answer:
        ref = (self._generation(who.run, want.key, scope), want.key)
        if isinstance(answer, Joined) and self.claims[ref].nonce == nonce:
            return Claimed(ref[0])
        if isinstance(answer, Absent):
            if ref not in self.claims:
                priority = self.jobs[who.job].priority
                claim = Claim(want.queue, priority, nonce, want.request, sources.epoch if sources else 0)
                claim.waiting.add(who.run)
                self.claims[ref] = claim
                self._stand_in_line(claim, self.jobs[who.job])
                self._want(who.run, ref)
            return Claimed(ref[0])
        return answer

    def _generation(self, run: str, key: bytes, scope: Scope) -> int:
        """The one that the job has for a key, else the current one."""
        held = self.maps.get(run, {}).get(key)
        new = PRIVATE_GENERATION if scope == "private" else self.generation
        return held.generation if held else new

    def _answers(self, who: Member, keys: Sequence[bytes], scope: Scope) -> list[Answer]:
        answers: dict[bytes, Answer] = {}
        rows: dict[int, list[bytes]] = {}
        held = self.maps.setdefault(who.run, {})
        for key in dict.fromkeys(keys):
            row = held.get(key)
            if row and PRIVATE_GENERATION < row.generation < who.floor:
                del held[key]
                if row.failure is None:
                    self._let_go(who.run, (row.generation, key))
                row = None
            if row and row.failure:
                answers[key] = Refused(row.failure, row.remembered)
            else:
                rows.setdefault(self._generation(who.run, key, scope), []).append(key)
        for g, some in rows.items():
            answers |= {key: self._answer(who, (g, key)) for key in some}
        if not held:
            del self.maps[who.run]
        return [answers[key] for key in keys]

    def _answer(self, who: Member, ref: Ref) -> Answer:
        """Entry, live claim, failure (told to those who waited always, else while it is remembered), or absent."""
        g, key = ref
        if ref in self.entries:
            self._want(who.run, ref)
            return Hit(g, self.entries[ref].pack())
        if claim := self.claims.get(ref):
            claim.waiting.add(who.run)
            claim.unwanted = False
            self._want(who.run, ref)
            if claim.token is None and self.jobs[who.job].priority < claim.priority:
                claim.priority = self.jobs[who.job].priority
                self._stand_in_line(claim, self.jobs[who.job])
            return Joined(g)
        held = self.maps[who.run]
        failure, until_ms = self.failures.get(ref, (None, 0))
        if failure and (key in held or self.now_ms < until_ms):
            if key in held:
                self._refuse_to(who.run, ref, failure)
            else:
                held[key] = Held(g, failure, remembered=True)
            return Refused(failure, held[key].remembered)
        return Absent()

    def announce(self, who: Member, holdings: Sequence[Holding]) -> list[Record | None] | UnknownJob | NotOpen | Over:
        if not self.generation:
            return NotOpen()
        if who.run in self.ended:
            return self.ended[who.run][0]
        if who.job not in self.jobs:
            self.jobs[who.job] = Job(who.incarnation, who.mode, who.priority, who.floor)
            if who.run in self.graves:
                self.maps[who.run] = self.graves.pop(who.run)
        elif self.jobs[who.job].incarnation != who.incarnation:
            return UnknownJob(self.jobs[who.job].incarnation)
        self._extend(who)
        self.generation = max(self.generation, who.floor)
        return [self._restore(who, each) for each in holdings]

    def _restore(self, who: Member, each: Holding) -> Record | None:
        """The record in force; none from below the floor or what the job has by now, none that goes or was dropped."""
        ref, path = (each.generation, each.key), self.path((each.generation, each.key), each.record.token)
        old = self.maps.get(who.run, {}).get(each.key)
        least = max(who.floor, old.generation if old and old.failure is None else 0)
        if PRIVATE_GENERATION < each.generation < least:
            return None
        if ref not in self.entries:
            if path in self.deleting or self.dropped.get(ref) == each.record.token:
                return None
            self.generation = max(self.generation, each.generation)
            self._enter(ref, each.record)
            self.tombs.pop(path, None)
            if ref in self.claims:
                self._finish(ref, self._token())
        self._want(who.run, ref)
        if old and old.failure is None and old.generation != each.generation:
            self._let_go(who.run, (old.generation, each.key))
        return self.entries[ref]
