"""The random walk with the coordinator's operations in it, and a store whose objects only its sweep deletes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from farm.index.record import ClaimRef, Record
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
        self.put: set[ClaimRef] = set()
        #: Bundles that imports are putting, and have not landed yet.
        self.coming: list[BundleId] = []
        #: What jobs relied on when data was lost, and until when they may say so: nothing of it goes meanwhile.
        self.survivors: dict[str, dict[bytes, tuple[int, int]]] = {}
        self.survive_until_ms = 0
        self.marker = 1
        self.world.redis.set("run", 0)

    def path(self, at: BundleId) -> str:
        return bundle_path(self.index.namespace, at.generation, at.key, at.token)

    def publish(self) -> None:
        if self.taken:
            claim = self.random.choice(self.taken[-4:])
            record = record_of(claim.token, 100 + claim.token % 900)
            at = BundleId(claim.generation, claim.key, claim.token)
            if claim not in self.put:  # one worker puts it once; what is deleted is not put again
                self.put.add(claim)
                self.objects[self.path(at)] = (at, record)
            if self.random.random() < 0.7:
                self.index.publish(claim, record)

    def work(self) -> None:
        """A job asks, workers do what is queued: so there is something to keep up."""
        self.join()
        self.claim()
        for _ in range(self.random.randint(1, 4)):
            self.take()
            self.publish()

    def bring(self) -> None:
        """An import reserves places and puts bundles there; it lands some now, some late, some never."""
        wanted = self.random.sample(KEYS, 3)
        generation = self.index.generation()
        tokens = self.index.reserve(generation, wanted, CLAIM_LEASE)
        self.coming += [BundleId(generation, k, token) for k, token in zip(wanted, tokens, strict=True)]
        for at in self.coming[-3:]:
            self.objects[self.path(at)] = (at, record_of(at.token, 100 + at.token % 900))

    def land(self) -> None:
        some = self.random.sample(self.coming, len(self.coming) // 2)
        self.coming = [at for at in self.coming if at not in some]
        landings = self.index.land((at, record_of(at.token, 100 + at.token % 900)) for at in some)
        for at, landing in zip(some, landings, strict=True):
            if landing == "landed":
                assert self.world.seen.entries[at.generation, at.key].token == at.token
                assert self.path(at) in self.objects

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
            largest = max(before.entries[ref].stored_bytes for ref in evicted)
            assert before.stored_bytes - gone.stored_bytes + largest > target

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
        self.index.hold(1, 1)  # longer ones would leave the other acts little to do
        some = list(self.objects.values())
        self.index.adopt(self.random.sample(some, len(some) // 2))

    def limits(self) -> None:
        self.index.set_limits(1 << 20, 50, "default", self.random.random() < 0.7)

    def lose(self) -> None:
        run, relied = self.world.redis.get("run"), self.relied
        super().lose()
        if self.world.redis.get("run") != run:  # the data is another: the leader notices and holds
            self.index.open(self.marker)
            self.survive_until_ms = self.index.hold(CLAIM_LEASE, LEASE)
            self.survivors = relied
            self.world.redis.set("run", self.random.randrange(10**9))

    def step(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self.work: 8, self.leave: 6, self.chores: 6, self.pass_time: 6, self.ask: 1, self.purge: 2,
            partial(self.index.drain, 3): 4, self.evict: 6, self.sweep: 8, self.search: 2, self.rebuild: 2,
            self.limits: 1, self.bring: 3, self.land: 3,
        }  # fmt: skip
        if self.random.random() < 0.6:
            self.random.choices(list(acts), list(acts.values()))[0]()
            self.check()
        else:
            super().step()

    def late(self) -> None:
        # A hold that comes again and again would leave nothing to do.
        self.world.scripts.sent = [sent for sent in self.world.scripts.sent if sent[0] != "hold"]
        super().late()
        if self.world.scripts.sent[-1][0] in ("adopt", "announce"):
            self.find_ghosts()

    def announce(self) -> None:
        sent = len(self.world.scripts.sent)
        super().announce()
        announced = [arguments for name, arguments in self.world.scripts.sent[sent:] if name == "announce"]
        for job, run, *_ in announced if (self.index.now_ms or 0) < self.survive_until_ms else ():
            self.check_survivors(f"{job}@{run}")
        self.find_ghosts()

    def check_survivors(self, run: str) -> None:
        """What a member brings back within the hold is whole."""
        snapshot = self.world.seen
        for key, (g, token) in self.survivors.get(run, {}).items():
            entry = snapshot.entries.get((g, key))
            if entry and entry.token == token and (key, g, token) not in self.dropped():
                path = snapshot.path((g, key))
                assert path in self.objects or path in self.ghosts, f"{run} has lost {path}"

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
