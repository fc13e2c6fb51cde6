"""The same random calls on the index and on its model: those of workers, and of who looks after them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from farm.index.jobs import Scope
from farm.index.outcomes import Failure, Taken
from farm.index.record import ClaimRef
from farm.namespace import BundleId
from tests.lua.world import CLAIM_LEASE, LEASE, QUEUE
from tests.property.members import (
    RULES,
    Members,
    bundle_record,
    chunks,
    numbers,
    pick,
    queues,
    rarely,
    scopes,
    some_keys,
)


class Workers(Members):
    """Workers, good and bad ones."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.taken: list[ClaimRef] = []
        #: What lies in the store.
        self.objects: dict[str, BundleId] = {}

    @initialize(left=st.integers(0, 4), done=st.integers(0, 3))
    def begin(self, left: int, done: int) -> None:
        """There is something to lose: entries that are idle and in use, claims that run and that wait."""
        for job, member in ("a1", "a2", "b1", "c1"):
            self.join(job, member, 1, 0)
        self.compile(0, [0, 1], "shared", QUEUE, left)
        self.leave(0, "keep", "itself", 250)
        self.compile(0, [1, 2, 3], "shared", QUEUE, done)
        self.claim(1, [2, 3, 4], "shared", QUEUE, 1, 0)

    def put(self, at: BundleId) -> None:
        self.objects[at.path(self.pair.index.namespace)] = at

    def some_claim(self, number: int) -> ClaimRef | None:
        """One that runs; at times one that was taken over, or has ended."""
        claims = {(at.generation, at.key): at for at in self.taken}
        live = {ref: claim.token for ref, claim in self.pair.model.claims.items() if ref in claims}
        running = [at for ref, at in claims.items() if live.get(ref) == at.token]
        taken_over = [at for at in self.taken if live.get((at.generation, at.key), at.token) != at.token]
        return pick(running, number, taken_over or self.taken)

    @rule(queue=queues)
    def take(self, queue: str) -> None:
        taken = self.call("take", queue, "worker", self.new_nonce(), CLAIM_LEASE)
        if isinstance(taken, Taken):
            assert taken.claim not in self.taken
            self.taken.append(taken.claim)

    @rule(n=numbers, limit=chunks, pauses=rarely)
    def publish(self, n: int, limit: int, pauses: bool) -> None:
        """The worker puts the bundle; if it gets further, it publishes it and tells those who waited, or some."""
        if claim := self.some_claim(n):
            self.put(BundleId(claim.generation, claim.key, claim.token))
            if not pauses:
                self.call("publish", claim, bundle_record(claim.token))
                self.call("tell", limit)

    @rule(n=numbers, which=some_keys, scope=scopes, queue=queues, done=st.integers(0, 4))
    def compile(self, n: int, which: list[int], scope: Scope, queue: str, done: int) -> None:
        """Claims, and some of them come to their end, so that there is something to keep up."""
        self.claim(n, which, scope, queue, 0, 0)
        for at in range(len(set(which))):
            self.take(queue)
            if at < done:
                self.publish(0, 250, False)

    @rule(
        n=numbers,
        limit=chunks,
        remember=st.booleans(),
        kind=st.sampled_from(["transient", "timeout", "cancelled", "released", "rejected"]),
    )
    def fail(self, n: int, limit: int, kind: Any, remember: bool) -> None:
        if claim := self.some_claim(n):
            if kind == "released":
                self.call("release", claim)
            else:
                self.call("fail", claim, Failure(kind, "why", "log"), RULES, remember=remember)
                self.call("tell", limit)

    @rule(n=numbers)
    def drop(self, n: int) -> None:
        """A reader found the bundle of an entry bad; at times of one that has another by now."""
        entries = sorted((g, k, record.token) for (g, k), record in self.pair.seen.entries.items())
        read = [(at.generation, at.key, at.record.token) for held in self.held.values() for at in held.values()]
        found = pick(entries, n, read)
        if found and self.call("drop", *found):
            for relied in self.relied.values():
                if found[1] in relied and relied[found[1]].generation == found[0]:
                    del relied[found[1]]

    @rule(
        seconds=st.sampled_from([0, 0, 20, 20, 300]),
        holds=rarely,
        what=st.sampled_from(["reclaim", "reclaim", "end_lapsed", "bury", "tell", "renew", "wake"]),
        limit=chunks,
        returns=st.sampled_from(["", "publish", "transient", "released"]),
    )
    def attend(self, seconds: int, holds: bool, what: str, limit: int, returns: str) -> None:
        """Time passes, and somebody looks who has not come back, unless there is a hold; a worker may return late."""
        if holds:
            self.call("hold", 2 * CLAIM_LEASE, LEASE + CLAIM_LEASE)
        self.pair.pass_time(seconds)
        match what:
            case "reclaim":
                for queue in self.call("reclaim", RULES, limit):
                    self.take(queue)
                if returns == "publish":
                    self.publish(15, limit, False)
                elif returns:
                    self.fail(15, limit, returns, False)
            case "renew":
                self.call("renew", self.taken[-5:], CLAIM_LEASE)
            case "wake":
                self.call("wake", QUEUE, 2, 10_000)
            case _:
                self.call(what, limit)
