"""What the index is made of: jobs, what their maps name, entries, claims; and what follows when interest ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from farm.index.outcomes import Failure, Over, Taken
from farm.index.record import Record
from farm.index.snapshot import Ref
from farm.namespace import Namespace, bundle_path


@dataclass
class Job:
    """A live job: who its members are, and what it was promised."""

    incarnation: int
    mode: str
    priority: int
    floor: int
    members: dict[str, int] = field(default_factory=dict)
    turns: Counter[str] = field(default_factory=Counter)
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def lapses_ms(self) -> int:
        return max(self.members.values())


@dataclass
class Claim:
    """A claim: without a token it is queued, with one it runs until the deadline."""

    queue: str
    priority: int
    nonce: str
    request: bytes
    sources: int
    turn: int = 0
    waiting: set[str] = field(default_factory=set)
    token: int | None = None
    worker: str = ""
    deadline_ms: int = 0
    failed: int = 0
    story: str = ""
    unwanted: bool = False


@dataclass
class Held:
    """What a job's map says of a key: an interest, or the failure that the job was told."""

    generation: int
    failure: Failure | None = None
    remembered: bool = False


class State:
    """Jobs, entries and claims."""

    def __init__(self, namespace: Namespace, now_ms: int) -> None:
        self.namespace, self.now_ms = namespace, now_ms
        self.generation = 0
        self.last_token = 0
        self.jobs: dict[str, Job] = {}
        self.maps: dict[str, dict[bytes, Held]] = {}
        self.graves: dict[str, dict[bytes, Held]] = {}
        self.burials: list[tuple[str, str]] = []
        self.entries: dict[Ref, Record] = {}
        self.idle: dict[Ref, int] = {}
        self.dropped: dict[Ref, int] = {}
        self.claims: dict[Ref, Claim] = {}
        self.virtual_time: Counter[tuple[str, int]] = Counter()
        #: Failure, and until when those are told of it who did not wait for it.
        self.failures: dict[Ref, tuple[Failure, int]] = {}
        #: Finished claims whose waiters are still to be told.
        self.told: list[tuple[Ref, int, set[str]]] = []
        self.notices: Counter[str] = Counter()
        self.woken: dict[str, int] = {}
        self.tombs: dict[str, int] = {}
        self.deleting: dict[str, int] = {}
        self.held_until_ms = self.claims_held_until_ms = 0
        self.ageing = True
        #: Rows that time clears away, each with when that is.
        self.deliveries: dict[str, tuple[Taken | None, int]] = {}
        self.ended: dict[str, tuple[Over, int]] = {}

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.deliveries = {k: row for k, row in self.deliveries.items() if row[1] > self.now_ms}
        self.ended = {k: row for k, row in self.ended.items() if row[1] > self.now_ms}

    def open(self, generation: int) -> int:
        self.generation = max(self.generation, generation, 1)
        return self.generation

    # -- interest --------------------------------------------------------------------------------------

    def is_wanted(self, ref: Ref) -> bool:
        """Whether the map of some job, live or not yet buried, names it."""
        g, key = ref
        rows = (held.get(key) for maps in (self.maps, self.graves) for held in maps.values())
        return any(row and row.failure is None and row.generation == g for row in rows)

    def _want(self, run: str, ref: Ref) -> None:
        self.maps.setdefault(run, {})[ref[1]] = Held(ref[0])
        self.idle.pop(ref, None)

    def _let_go(self, run: str, ref: Ref, cancelled: bool = False) -> None:
        """The run's map names it no more."""
        claim = self.claims.get(ref)
        if claim:
            claim.waiting.discard(run)
        if self.is_wanted(ref):
            return
        self.dropped.pop(ref, None)
        if ref in self.entries:
            self._rest(ref)
        elif claim and claim.token is None:
            del self.claims[ref]
        elif claim and cancelled:
            claim.unwanted = True

    def _refuse_to(self, run: str, ref: Ref, failure: Failure) -> None:
        """The failure is the answer of a run that was interested, for as long as its job lives."""
        self.maps[run][ref[1]] = Held(ref[0], failure)
        self._let_go(run, ref)

    def _rest(self, ref: Ref) -> None:
        """An entry without interest stays, to be aged, in the current generation only."""
        if ref[0] == self.generation:
            self.idle[ref] = self.time_of_use
        else:
            self._condemn(ref)

    @property
    def time_of_use(self) -> int:
        return self.now_ms if self.ageing else 0

    def _condemn(self, ref: Ref) -> None:
        self.tombs.setdefault(self.path(ref, self.entries.pop(ref).token), self.now_ms)
        self.idle.pop(ref, None)

    def path(self, ref: Ref, token: int) -> str:
        return bundle_path(self.namespace, *ref, token)

    def _enter(self, ref: Ref, record: Record) -> None:
        self.entries[ref] = record
        self.failures.pop(ref, None)
        self.dropped.pop(ref, None)

    def _is_current(self, job: str, incarnation: int) -> bool:
        return job in self.jobs and self.jobs[job].incarnation == incarnation

    def _token(self) -> int:
        self.last_token = max(self.last_token + 1, self.now_ms * 1000)
        return self.last_token
