"""The same random calls on the index and on its model: those of members, and what rules draw from.

What a rule draws never depends on the state: a number picks one of what there is. So a failing example is the same
when it is run again, and shrinks well. How often each of the rarer calls comes is in the lists that are drawn from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from farm.index.claims import RetryRules
from farm.index.jobs import Holding, Member, Scope, Want, as_member
from farm.index.outcomes import Hit, Membership
from farm.index.record import Record
from farm.index.sources import SourceLease
from farm.index.upkeep import Purged
from farm.namespace import PRIVATE_GENERATION
from tests.lua.world import LEASE, QUEUE, key, record_of
from tests.property.pair import Pair

KEYS = [key(n) for n in range(5)]
RULES = RetryRules(max_attempts=2)
QUEUES = [QUEUE, "compile.cuda.ba9876543210"]
STRANGER = Member("z", "m", "enable", 1, b"{}", LEASE, 1)

T = TypeVar("T")
numbers = st.integers(0, 15)
some_keys = st.lists(st.sampled_from(range(len(KEYS))), min_size=1, max_size=4)
scopes = st.sampled_from(["shared", "shared", "shared", "private"])
queues = st.sampled_from([*QUEUES, QUEUE])
hows = st.sampled_from(["keep", "cancel"])
chunks = st.sampled_from([250, 250, 1, 2])
rarely = st.sampled_from([False] * 7 + [True])


def pick(items: Sequence[T], number: int, others: Sequence[T] = ()) -> T | None:
    """One of the items, by a small number one of the last; by a large one also of others; None when there is none."""
    some = others if number > 11 or not items else items
    return some[-1 - number % len(some)] if some else None


def bundle_record(token: int) -> Record:
    """The record of the bundle that was put under the token."""
    return record_of(token, 100 + token % 900)


class Members(RuleBasedStateMachine):
    """Members of jobs: what they hold, and what they may rely on."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.pair = Pair(url)
        self.call = self.pair.call
        self.members: dict[tuple[str, str], Member] = {}
        #: Run and member -> key -> what it holds, as it would announce it.
        self.held: dict[tuple[str, str], dict[bytes, Holding]] = {}
        #: Run and member -> the generation that it was promised, as far as it has heard.
        self.floors: dict[tuple[str, str], int] = {}
        #: Run -> key -> the hit that it was answered with: it stands as long as the job lives.
        self.relied: dict[str, dict[bytes, Hit]] = {}
        self.nonces = 0
        self.call("open", 1)

    @invariant()
    def what_has_ended_is_relied_on_no_more(self) -> None:
        """Also when a late announcement brings the same run back: what it did not name was free in between."""
        for run in self.relied.keys() - {job.run for job in self.pair.seen.jobs.values()}:
            del self.relied[run]

    def some_member(self, number: int) -> Member:
        """One that lives; at times one whose job has ended, or a stranger."""
        jobs, members = self.pair.model.jobs, list(self.members.values())
        alive = [who for who in members if who.job in jobs and jobs[who.job].incarnation == who.incarnation]
        who = pick(alive, number, [STRANGER, *members]) or STRANGER
        return replace(who, floor=max(who.floor, self.floors.get((who.run, who.member), 0)))

    @staticmethod
    def keys_of(who: Member, which: list[int], scope: Scope) -> list[bytes]:
        """Keys of everybody, or those of this run alone."""
        shared = [KEYS[n] for n in which]
        return shared if scope == "shared" else [hashlib.sha256(k + who.run.encode()).digest() for k in shared]

    def new_nonce(self) -> str:
        self.nonces += 1
        return f"nonce {self.nonces}"

    @rule(job=st.sampled_from("abc"), member=st.sampled_from("12"), priority=st.integers(0, 2), forces=numbers)
    def join(self, job: str, member: str, priority: int, forces: int) -> None:
        who = Member(job, member, "force" if forces == 15 else "enable", priority, b"{}", LEASE)
        answer = self.call("join", who)
        if isinstance(answer, Membership):
            self.members[job, member] = as_member(who, answer)

    @rule(n=numbers, which=some_keys, scope=scopes)
    def acquire(self, n: int, which: list[int], scope: Scope) -> None:
        who = self.some_member(n)
        keys = self.keys_of(who, which, scope)
        self.hear(who, keys, self.call("acquire", who, keys, scope))

    @rule(n=numbers, which=some_keys, scope=scopes, queue=queues, epoch=st.sampled_from([0, 0, 1, 2]), late=numbers)
    def claim(self, n: int, which: list[int], scope: Scope, queue: str, epoch: int, late: int) -> None:
        who = self.some_member(n)
        keys = self.keys_of(who, which, scope)
        wants = [Want(k, b"request of " + k, queue) for k in keys]
        sources = SourceLease(epoch, self.pair.now_ms + (0 if late == 15 else 900_000)) if epoch else None
        self.hear(who, keys, self.call("claim", who, wants, self.new_nonce(), scope, sources))

    def promised(self, who: Member) -> int:
        """The latest generation that any member of the run was promised: then all of it has the key from there."""
        joined = [member.floor for member in self.members.values() if member.run == who.run]
        heard = [floor for (run, _), floor in self.floors.items() if run == who.run]
        return max(who.floor, self.pair.model.jobs[who.job].floor, *joined, *heard)

    def hear(self, who: Member, keys: list[bytes], answers: Any) -> None:
        """A live job's answer never changes, a drop and a new floor aside, and is never from below its floor."""
        for k, hit in zip(keys, answers, strict=True) if isinstance(answers, list) else ():
            if isinstance(hit, Hit):
                assert hit.generation >= who.floor or hit.generation == PRIVATE_GENERATION
                relied = self.relied.setdefault(who.run, {})
                assert relied.get(k, hit) == hit or PRIVATE_GENERATION < relied[k].generation < self.promised(who)
                relied[k] = hit
                self.held.setdefault((who.run, who.member), {})[k] = Holding(hit.generation, k, hit.record)

    @rule(n=numbers, forgets=st.sampled_from([0, 0, 1, 2, 4]))
    def announce(self, n: int, forgets: int) -> None:
        """What a member holds comes back, whatever was lost, unless it was deleted or there is newer."""
        who = self.some_member(15 - n)
        held = list(self.held.get((who.run, who.member), {}).values())
        held = [each for at, each in enumerate(held) if not forgets & 1 << at % 3]
        answers = self.call("announce", who, held)
        seen, model = self.pair.seen, self.pair.model
        for each, record in zip(held, answers, strict=True) if isinstance(answers, list) else ():
            has = seen.maps.get(who.run, {}).get(each.key, (0, ""))
            if record:
                assert seen.entries[each.generation, each.key] == record
                assert has == (each.generation, "i")
            else:
                path = model.path((each.generation, each.key), each.record.token)
                was_dropped = seen.dropped.get((each.generation, each.key)) == each.record.token
                assert path in seen.deleting or was_dropped or 0 < each.generation < max(who.floor, has[0])

    @rule(n=numbers, fingerprint=st.sampled_from(["", "0123", "4567"]))
    def stay(self, n: int, fingerprint: str) -> None:
        if fingerprint:
            self.call("choose", self.some_member(n), "host", fingerprint)
        else:
            self.call("heartbeat", self.some_member(n))

    @rule(n=numbers, how=hows, by=st.sampled_from(["itself", "itself", "the reaper", "a person"]), limit=chunks)
    def leave(self, n: int, how: str, by: str, limit: int) -> None:
        """Somebody leaves, or ends a job; the dead are buried, or some of them."""
        who = self.some_member(n)
        if by == "a person":
            self.call("end", who.job, who.incarnation, how, by, LEASE)
        else:
            self.call("leave", replace(who, member="") if by == "the reaper" else who, how)
        self.call("bury", limit)

    @rule(n=numbers)
    def ask_purge(self, n: int) -> None:
        """Each job once; who is answered has a floor."""
        who = self.some_member(n)
        answer = self.call("ask_purge", who.run, who.job, who.incarnation)
        if isinstance(answer, Purged):
            self.floors[who.run, who.member] = max(answer.generation, who.floor)
