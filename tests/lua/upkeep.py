"""The random walk with the coordinator's operations in it, and a store whose objects only its sweep deletes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from farm.index.record import Record
from farm.namespace import BundleId, bundle_path
from tests.lua.walk import KEYS, Walk
from tests.lua.world import CLAIM_LEASE, LEASE, RULES, record_of

GRACE = LEASE // 5


class UpkeepWalk(Walk):
    """Members, workers, and leaders that purge, drain, evict, sweep, hold and rebuild at any time."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        #: What lies in the store, by path.
        self.objects: dict[str, tuple[BundleId, Record]] = {}
        #: Entries that somebody brought back after their bundle was gone; a reader drops them.
        self.ghosts: set[str] = set()
        self.marker = 1
        self.world.redis.set("run", 0)

    def path(self, at: BundleId) -> str:
        return bundle_path(self.index.namespace, at.generation, at.key, at.token)

    def publish(self) -> None:
        if self.taken:
            claim = self.random.choice(self.taken[-4:])
            record = record_of(claim.token, 100 + claim.token % 900)
            at = BundleId(claim.generation, claim.key, claim.token)
            if self.random.random() < 0.9:  # else the worker died before it put the bundle
                self.objects.setdefault(self.path(at), (at, record))
                if self.random.random() < 0.9:
                    self.index.publish(claim, record)

    # -- the leader ------------------------------------------------------------------------------------

    def ask(self) -> None:
        if who := self.some_member():
            self.index.ask_purge(who.run, who.job, who.incarnation)
        else:
            self.index.ask_purge(f"operator {self.random.randrange(9)}")

    def purge(self) -> None:
        waiting, answerable = self.index.purge_queue()
        if waiting:
            generation = self.index.generation()
            if not answerable:
                self.marker = generation = max(generation, self.marker) + 1
            self.index.raise_to(generation, self.random.randint(1, 3))

    def evict(self) -> None:
        target, idle = self.random.randrange(3000), self.random.choice([0, CLAIM_LEASE])
        before = self.world.seen
        gone = self.index.evict(target, idle, self.random.randint(1, 4))
        if gone.entries:
            evicted = before.entries.keys() - self.world.seen.entries.keys()
            assert len(evicted) == gone.entries
            assert evicted <= before.idle.keys()
            smallest = min(before.entries[ref].stored_bytes for ref in evicted)
            assert before.stored_bytes - gone.stored_bytes > target - smallest - 1000

    def sweep(self) -> None:
        paths = self.index.mark_deleting(GRACE, self.random.randint(1, 4))
        if self.random.random() < 0.7:
            for path in paths:
                self.objects.pop(path, None)
            if paths and self.random.random() < 0.8:
                self.index.swept(paths)

    def search(self) -> None:
        self.index.condemn_orphans([(path, at) for path, (at, _) in self.objects.items()])

    def rebuild(self) -> None:
        self.index.open(self.marker)
        self.index.hold(CLAIM_LEASE, LEASE)
        some = list(self.objects.values())
        self.index.adopt(self.random.sample(some, len(some) // 2))

    def limits(self) -> None:
        self.index.set_limits(1 << 20, 50, "default", self.random.random() < 0.7)

    def lose(self) -> None:
        run = self.world.redis.get("run")
        super().lose()
        if self.world.redis.get("run") != run:  # the data is another: the leader notices and holds
            self.index.open(self.marker)
            self.index.hold(CLAIM_LEASE, LEASE)
            self.world.redis.set("run", self.random.randrange(10**9))

    def step(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self.ask: 3, self.purge: 3, partial(self.index.drain, 3): 4, self.evict: 3, self.sweep: 5, self.search: 1,
            self.rebuild: 1, self.limits: 1,
        }  # fmt: skip
        if self.random.random() < 0.3:
            self.random.choices(list(acts), list(acts.values()))[0]()
            self.check()
        else:
            super().step()

    def late(self) -> None:
        super().late()
        if self.world.scripts.sent[-1][0] in ("adopt", "announce"):
            self.find_ghosts()

    def announce(self) -> None:
        super().announce()
        self.find_ghosts()

    def find_ghosts(self) -> None:
        entries = self.world.seen.entries
        self.ghosts |= {self.world.seen.path(ref) for ref in entries} - self.objects.keys()

    def check(self) -> None:
        """What a job may rely on is also in the store."""
        snapshot = self.world.seen
        if snapshot.generation < self.marker:
            self.find_ghosts()
        for job in snapshot.jobs.values():
            if job.floor > self.floors.get(job.run, 0):
                self.floors[job.run] = job.floor
                self.relied.pop(job.run, None)
        super().check()
        for run, hits in self.relied.items():
            for key, (g, token) in hits.items():
                path = self.path(BundleId(g, key, token))
                if (key, g, token) not in self.dropped() and path not in self.ghosts:
                    assert path in self.objects, f"{run} has lost {path}"

    def end(self) -> None:
        """All leave, and everything that is not an entry is swept away."""
        self.world.pass_time(2 * LEASE)
        while self.index.end_lapsed():
            pass
        self.world.drain()
        self.index.reclaim(RULES)
        self.index.drain(1000)
        self.search()
        self.world.pass_time(GRACE)
        while paths := self.index.mark_deleting(GRACE):
            for path in paths:
                self.objects.pop(path, None)
            self.index.swept(paths)
        snapshot = self.world.snapshot()
        kept = {snapshot.path(ref) for ref in snapshot.entries}
        assert kept - self.ghosts == self.objects.keys()
        assert {g for g, _ in snapshot.entries} <= {snapshot.generation}
        assert not snapshot.interest
        assert {key for _, key in snapshot.entries} <= set(KEYS)
