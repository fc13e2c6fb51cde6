"""The whole machine: with leaders at work, any number of them, a store, a clock, late calls and losses."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from farm.namespace import BundleId
from tests.lua.world import CLAIM_LEASE, LEASE
from tests.property.members import KEYS, RULES, bundle_record, chunks, numbers, pick, rarely, some_keys
from tests.property.workers import Workers

GRACE = LEASE // 5
LEADERS = ["leader", "standby"]

leaders = st.sampled_from(LEADERS)
waits = st.sampled_from([0, 0, GRACE // 1000])


class Farm(Workers):
    """Nothing is fenced by leadership: each leader goes on with what it saw last, however long ago that was."""

    def __init__(self, url: str) -> None:
        #: The largest marker in the store.
        self.marker = 1
        #: Leader -> the generation it has marked last, and the paths that it deletes.
        self.raising = dict.fromkeys(LEADERS, 1)
        self.sweeping: dict[str, list[str]] = {name: [] for name in LEADERS}
        #: Bundles that imports have put.
        self.coming: list[BundleId] = []
        super().__init__(url)

    # -- purges ----------------------------------------------------------------------------------------

    @rule(name=leaders, limit=chunks, step=st.sampled_from(["ask", "mark", "raise", "all", "all"]), n=numbers)
    def purge(self, name: str, limit: int, step: str, n: int) -> None:
        """All of a purge, or a step of it: a leader that was paused goes on from there."""
        if step in ("ask", "all"):
            self.call("ask_purge", f"operator {n % 3}")
        if step in ("mark", "all"):
            self.mark(name)
        if step in ("raise", "all"):
            self.call("raise_to", self.raising[name], limit)

    def mark(self, name: str) -> None:
        """A leader looks who waits; if a purge does not answer them already, it writes the next marker."""
        waiting, answerable = self.call("purge_queue")
        generation = self.pair.seen.generation
        if waiting and not answerable:
            self.marker = generation = max(generation, self.marker) + 1
        self.raising[name] = max(1, generation)

    # -- ageing and sweep ------------------------------------------------------------------------------

    @rule(
        limit=chunks,
        ageing=st.sampled_from([None, None, None, True, False]),
        limit_bytes=st.sampled_from([0, 0, 1000, 2000]),
        idle_ms=st.sampled_from([0, 0, 20_000]),
        holds=rarely,
    )
    def age(self, limit: int, ageing: bool | None, limit_bytes: int, idle_ms: int, holds: bool) -> None:
        """A leader ages, maybe under new limits, and drains; a hold keeps it from that."""
        if holds:
            self.call("hold", CLAIM_LEASE, CLAIM_LEASE)
        if ageing is not None:
            self.call("set_limits", limit_bytes, 50, "default", ageing)
        self.call("evict", 500, idle_ms, limit, limit_bytes=limit_bytes)
        self.call("drain", limit)

    @rule(name=leaders, limit=chunks, step=st.sampled_from(["mark", "mark", "delete", "all"]), seconds=waits)
    def sweep(self, name: str, limit: int, step: str, seconds: int) -> None:
        """Mark, delete the objects, say so; a leader that was paused in between deletes and says so late."""
        self.pair.pass_time(seconds)
        if step in ("mark", "all"):
            self.sweeping[name] = self.call("mark_deleting", GRACE, limit)
        if step in ("delete", "all") and self.sweeping[name]:
            for path in self.sweeping[name]:
                self.objects.pop(path, None)
            self.call("swept", self.sweeping[name])

    # -- what the store has and the index does not -------------------------------------------------------

    @rule(n=numbers, which=some_keys, what=st.sampled_from(["search", "rebuild", "put", "land", "put and land"]))
    def look_into_store(self, n: int, which: list[int], what: str) -> None:
        """A leader searches orphans, or rebuilds; or an import puts bundles at places of its own, and lands some."""
        if what == "search":
            self.call("condemn_orphans", list(self.objects.items()))
        if what == "rebuild":
            self.rebuild(n)
        if "put" in what:
            generation, keys = self.pair.seen.generation, [KEYS[n] for n in which]
            for k, token in zip(keys, self.call("reserve", generation, keys, CLAIM_LEASE), strict=False):
                self.coming.append(BundleId(generation, k, token))
                self.put(self.coming[-1])
        if "land" in what:
            self.call("land", [(at, bundle_record(at.token)) for at in self.coming[-1 - n % 4 :]])

    def rebuild(self, n: int) -> None:
        found = [(at, bundle_record(at.token)) for at in self.objects.values()]
        self.call("adopt", found[n % 3 :: 1 + n % 2])

    # -- everybody -------------------------------------------------------------------------------------

    @rule(
        seconds=st.sampled_from([1, 5, 10, 20, 60, 100, 600, 3600]),
        name=leaders,
        leads=st.sampled_from([0, 0, 1, 2, 3]),
    )
    def wait(self, seconds: int, name: str, leads: int) -> None:
        """A leader may renew its lease then, step down, or find a gap and hold."""
        self.pair.pass_time(seconds)
        if leads:
            self.call("lead", name, 5000 if leads > 1 else 0)
        if leads > 2:
            self.call("hold", CLAIM_LEASE, GRACE)

    @rule(n=st.integers(0, 100))
    def late(self, n: int) -> None:
        """A call arrives once more, now."""
        if call := pick(self.pair.sent, n % 12 if n % 2 else n, self.pair.sent):
            self.pair.send(call)
            if call[0] in ("drop", "announce"):
                self.relied.clear()

    @rule(n=numbers, opens=st.sampled_from([True, True, True, False]))
    def lose(self, n: int, opens: bool) -> None:
        """The server saves its data; at times it comes back with what it saved, or empty: the last calls are lost.

        What members, workers, leaders and the store have stays. Whoever finds the namespace lost opens it; at times
        somebody does that late.
        """
        images = self.pair.images
        if n < 10:
            self.pair.remember()
        else:
            self.pair.lose(n % len(images) if images and n < 14 else None)
            self.relied.clear()
        if opens:
            self.call("open", max(1, self.marker - n % 2))
        if n >= 10 and opens:
            self.rebuild(n)

    def teardown(self) -> None:
        """All leave: nothing is left but what is idle, condemned, or remembered for a while."""
        try:
            if self.pair.sound:
                self.settle()
        finally:
            self.pair.server.close()

    def settle(self) -> None:
        self.call("open", self.marker)
        self.pair.pass_time(2 * LEASE // 1000)
        for what in ("end_lapsed", "bury", "tell"):
            while self.call(what, 250):
                pass
        self.call("reclaim", RULES, 250)
        self.call("drain", 250)
        seen = self.pair.seen
        assert not (seen.interest or seen.claims or seen.jobs or seen.maps or seen.graves or seen.dropped)
        assert {g for g, _ in seen.entries} <= {seen.generation}
