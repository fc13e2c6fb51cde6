"""Members and workers that do anything at any time: calls sent again and late, and losses, among them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from farm.index.jobs import Holding, Member, Scope, Want
from farm.index.outcomes import Failure, Hit, Membership, Over, Stale, Taken, UnknownJob
from farm.index.record import ClaimRef
from farm.index.sources import SourceLease
from farm.namespace import PRIVATE_GENERATION
from tests.lua.world import CLAIM_LEASE, LEASE, QUEUE, RULES, World, key, record_of

KEYS = [key(n) for n in range(8)]


class Walk:
    """One walk; what a member may rely on is checked after each step."""

    def __init__(self, url: str, seed: int) -> None:
        self.world = World(url)
        self.index = self.world.index
        self.random = random.Random(seed)
        self.members: dict[tuple[str, str], Member] = {}
        self.taken: list[ClaimRef] = []
        self.held: dict[tuple[str, str], dict[bytes, Holding]] = {}
        #: The generation that a job was promised, by its run.
        self.floors: dict[str, int] = {}
        #: Run -> key -> the hit it was answered with: it stands as long as the job lives.
        self.relied: dict[str, dict[bytes, tuple[int, int]]] = {}
        self.image: dict[bytes, bytes] = {}

    # -- members ---------------------------------------------------------------------------------------

    def join(self) -> None:
        job, member = self.random.choice("abc"), self.random.choice("12")
        who = Member(job, member, "enable", self.random.randrange(3), b"", LEASE)
        answer = self.index.join(who)
        assert isinstance(answer, Membership)
        self.members[job, member] = replace(who, incarnation=answer.incarnation)

    def some_member(self) -> Member | None:
        who = self.random.choice([*self.members.values(), None])
        return who and replace(who, floor=self.floors.get(who.run, 0))

    def some_keys(self, who: Member) -> tuple[list[bytes], Scope]:
        """Keys of everybody, or those of this run alone."""
        some = self.random.choices(KEYS, k=self.random.randint(1, 5))
        if self.random.random() < 0.75:
            return some, "shared"
        return [hashlib.sha256(k + who.run.encode()).digest() for k in some], "private"

    def rely(self, who: Member, wanted: list[bytes], answers: Any) -> None:
        if isinstance(answers, UnknownJob | Stale):
            return
        for k, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Hit):
                assert answer.generation >= who.floor or answer.generation == PRIVATE_GENERATION
                hit = (answer.generation, answer.record.token)
                relied = self.relied.setdefault(who.run, {})
                assert relied.get(k, hit) == hit or (k, *relied[k]) in self.dropped()
                relied[k] = hit
                self.held.setdefault((who.job, who.member), {})[k] = Holding(answer.generation, k, answer.record)

    def acquire(self) -> None:
        if who := self.some_member():
            wanted, scope = self.some_keys(who)
            self.rely(who, wanted, self.index.acquire(who, wanted, scope))

    def lease(self) -> SourceLease | None:
        """Of some epoch, on time or too late; or no sources in the store."""
        late = self.random.choice([-1, 0, 1, 1000])
        lease = SourceLease(self.random.randint(1, 3), (self.index.now_ms or 0) + late)
        return self.random.choice([lease, None])

    def claim(self) -> None:
        if who := self.some_member():
            wanted, scope = self.some_keys(who)
            wants, nonce = [Want(k, b"request", QUEUE) for k in wanted], self.random.choice(["n1", "n2"])
            self.rely(who, wanted, self.index.claim(who, wants, nonce, scope, self.lease()))

    def dropped(self) -> set[tuple[bytes, int, int]]:
        sent = (arguments for name, arguments in self.world.scripts.sent if name == "drop")
        return {(bytes(k), int(g), int(token)) for g, k, token, _ in sent}  # type: ignore[arg-type]

    def raise_floor(self) -> None:
        """A purge: the job asks nothing of below the new generation any more."""
        if (who := self.some_member()) and self.random.random() < 0.2:
            self.floors[who.run] = self.world.seen.generation + 1
            self.relied.pop(who.run, None)
            raised = replace(who, floor=self.floors[who.run])
            self.rely(raised, KEYS, self.index.acquire(raised, KEYS))

    def announce(self) -> None:
        if who := self.some_member():
            held = self.held.get((who.job, who.member), {})
            some = [each for each in held.values() if self.random.random() < 0.7]
            answer = self.index.announce(who, some)
            if isinstance(answer, Over):
                del self.members[who.job, who.member]
                return
            if isinstance(answer, UnknownJob):
                assert answer.incarnation
                self.members[who.job, who.member] = replace(who, incarnation=answer.incarnation)
            for each in some:
                relied = self.relied.get(who.run, {})
                if each.generation > relied.get(each.key, (each.generation, 0))[0]:
                    del relied[each.key]

    def heartbeat(self) -> None:
        if who := self.some_member():
            self.index.heartbeat(who)

    def leave(self) -> None:
        if who := self.some_member():
            self.index.leave(who, self.random.choice(["keep", "cancel"]))

    def end_for_all(self) -> None:
        """Somebody ends the job; its members find out when they announce."""
        if who := self.some_member():
            self.index.end(who.job, who.incarnation, self.random.choice(["keep", "cancel"]), "somebody", LEASE)

    # -- workers ---------------------------------------------------------------------------------------

    def take(self) -> None:
        taken = self.index.take(QUEUE, "w", f"d{self.random.randrange(10**9)}", CLAIM_LEASE)
        if isinstance(taken, Taken):
            assert taken.claim not in self.taken
            self.taken.append(taken.claim)

    def renew(self) -> None:
        self.index.renew(self.taken[-5:], CLAIM_LEASE)

    def publish(self) -> None:
        if self.taken:
            claim = self.random.choice(self.taken[-4:])
            self.index.publish(claim, record_of(claim.token, 100 + claim.token % 900))

    def fail(self) -> None:
        if self.taken:
            claim = self.random.choice(self.taken[-4:])
            kind = self.random.choice(["rejected", "transient", "cancelled", "released"])
            if kind == "released":
                self.index.release(claim)
            else:
                remember = self.random.random() < 0.5
                self.index.fail(claim, Failure(kind, "why"), RULES, remember=remember)  # type: ignore[arg-type]

    def drop(self) -> None:
        entries = self.world.seen.entries
        if entries and self.random.random() < 0.3:
            (g, k), record = self.random.choice(sorted(entries.items(), key=repr))
            self.index.drop(g, k, record.token)

    # -- everybody -------------------------------------------------------------------------------------

    def chores(self) -> None:
        limit, index = self.random.randint(1, 4), self.index
        reclaim, wake = partial(index.reclaim, RULES), partial(index.wake, QUEUE)
        self.random.choice([index.tell, index.bury, index.end_lapsed, reclaim, wake])(limit)

    def pass_time(self) -> None:
        self.world.pass_time(self.random.choice([1, CLAIM_LEASE // 2, CLAIM_LEASE, LEASE // 3]))

    def late(self) -> None:
        """Any call of before arrives once more, now."""
        name, arguments = self.random.choice(self.world.scripts.sent)
        self.world.scripts.run(name, *arguments, now_ms=self.index.now_ms)
        if name == "announce":
            self.relied.clear()

    def lose(self) -> None:
        """The server comes back empty, or as it was a while ago; its clock goes on."""
        self.world.pass_time(1)
        server, chance = self.world.redis, self.random.random()
        if chance < 0.4:
            self.image = {name: server.dump(name) for name in server.scan_iter(match="opfarm:*")}
        elif chance < 0.6:
            server.flushdb()
            for name, data in self.image.items() if self.random.random() < 0.7 else ():
                server.restore(name, 0, data)
            self.relied.clear()
            self.index.open(max([1, *self.floors.values()]))

    def step(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self.join: 3, self.acquire: 6, self.claim: 6, self.raise_floor: 1, self.announce: 2, self.heartbeat: 2,
            self.leave: 2, self.end_for_all: 1, self.take: 6, self.renew: 2, self.publish: 5, self.fail: 3,
            self.drop: 2, self.chores: 6, self.pass_time: 3, self.late: 8, self.lose: 1,
        }  # fmt: skip
        self.random.choices(list(acts), list(acts.values()))[0]()
        self.check()

    def check(self) -> None:
        """What a live job was answered with is there, is pinned, and is still its answer."""
        snapshot = self.world.seen
        dropped = self.dropped()
        live = {job.run for job in snapshot.jobs.values()}
        self.relied = {run: hits for run, hits in self.relied.items() if run in live}
        for job in snapshot.jobs.values():
            for k, (g, token) in self.relied.get(job.run, {}).items():
                if (k, g, token) not in dropped:
                    assert snapshot.entries[g, k].token == token
                    assert snapshot.maps[job.run][k] == (g, "i")

    def end(self) -> None:
        """All leave: nothing is left but entries, and what time itself clears away."""
        self.world.pass_time(LEASE)
        while self.index.end_lapsed():
            pass
        self.world.drain()
        self.index.reclaim(RULES)
        assert not any(g == PRIVATE_GENERATION for g, _ in self.world.seen.entries)
        kinds = {name.partition(b":")[0].decode() for name in self.world.rows()}
        assert kinds <= {"meta", "generations", "e", "idle", "tombs", "f", "x", "near"}
