"""What leaders are told, any number of them: purges, ageing, sweep, and the search for what was lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from farm.index.leader import Leader
from farm.index.record import Record
from farm.index.snapshot import Ref
from farm.index.upkeep import Asked, Evicted, Landing, NoJob, Purged, Raised
from farm.namespace import PRIVATE_GENERATION, BundleId, Namespace
from tests.property.model.members import Members

#: How long the answer to a purge request is kept (ms).
ANSWER_TTL = 3_600_000


@dataclass
class Request:
    """A purge request that waits; ``covered``: the last purge answers it."""

    name: str
    job: str
    incarnation: int
    covered: bool = False


@dataclass(frozen=True)
class Purge:
    """A row of the purge log."""

    generation: int
    removed: int
    kept: int
    requests: int


class Model(Members):
    """The whole index of a namespace: members, workers, and the coordinator's part."""

    def __init__(self, namespace: Namespace, now_ms: int) -> None:
        super().__init__(namespace, now_ms)
        self.purges: list[Request] = []
        #: What each purge request is answered (None: it waits), and how long that is kept.
        self.asked: dict[str, tuple[int | None, int]] = {}
        self.purge_log: list[Purge] = []
        self.limit_bytes: int | None = None
        self.ageing_since = 0
        self.passing = False
        #: Places that are kept for imports, each until when.
        self.coming: dict[str, int] = {}
        self.leader = Leader("", 0, 0)

    def pass_time(self, ms: int) -> None:
        super().pass_time(ms)
        self.asked = {name: row for name, row in self.asked.items() if row[1] > self.now_ms}

    @property
    def is_held(self) -> bool:
        return self.now_ms < self.held_until_ms

    def hold(self, claims_ms: int, entries_ms: int) -> int:
        self.claims_held_until_ms = max(self.claims_held_until_ms, self.now_ms + claims_ms)
        self.held_until_ms = max(self.held_until_ms, self.now_ms + entries_ms)
        return self.held_until_ms

    def lead(self, candidate: str, lease_ms: int) -> Leader:
        name, deadline_ms, term = self.leader.name, self.leader.deadline_ms, self.leader.term
        if name == candidate or self.now_ms >= deadline_ms:
            self.leader = Leader(candidate, self.now_ms + lease_ms, term + (name != candidate))
        return self.leader

    # -- purges ----------------------------------------------------------------------------------------

    def ask_purge(self, request: str, job: str = "", incarnation: int = 0) -> Asked | Purged | NoJob:
        answer, _ = self.asked.get(request, (None, 0))
        if answer:
            return Purged(answer)
        if job and not self._is_current(job, incarnation):
            return NoJob()
        if request not in self.asked:
            self.asked[request] = (None, self.now_ms + ANSWER_TTL)
            self.purges.append(Request(request, job, incarnation))
        return Asked()

    def purge_queue(self) -> tuple[int, int]:
        for row in [row for row in self.purges if row.job and not self._is_current(row.job, row.incarnation)]:
            self.purges.remove(row)
            self.asked.pop(row.name, None)
        return len(self.purges), sum(row.covered for row in self.purges)

    def raise_to(self, generation: int, limit: int) -> Raised:
        if not self.generation:
            return Raised(0, 0, 0)
        if self.generation < generation:
            self._purge(generation)
        covered = [row for row in self.purges if row.covered]
        answered = covered[:limit] if self.generation == generation else []
        for row in answered:
            self.purges.remove(row)
            self._answer_purge(row)
        return Raised(self.generation, len(answered), int(len(covered) > len(answered)))

    def _purge(self, generation: int) -> None:
        """One purge answers all that were asked up to now."""
        old = [ref for ref in self.entries if ref[0] == self.generation]
        removed = sum(ref in self.idle for ref in old)
        self.purge_log.append(Purge(generation, removed, len(old) - removed, len(self.purges)))
        self.generation = generation
        for row in self.purges:
            row.covered = True

    def _answer_purge(self, row: Request) -> None:
        if row.job and not self._is_current(row.job, row.incarnation):
            self.asked.pop(row.name, None)
            return
        self.asked[row.name] = (self.generation, self.now_ms + ANSWER_TTL)
        if row.job:
            self.jobs[row.job].floor = self.generation
            self.notices[f"{row.job}@{row.incarnation}"] += 1

    # -- ageing ----------------------------------------------------------------------------------------

    def set_limits(self, limit_bytes: int, keep_ratio: int, origin: str, ageing: bool) -> None:
        if ageing and not self.ageing:
            self.ageing_since = self.now_ms
        if not ageing or limit_bytes != self.limit_bytes:
            self.passing = False
        self.limit_bytes, self.ageing = limit_bytes, ageing

    @property
    def stored_bytes(self) -> int:
        """Of all shared entries; private ones never lead to ageing."""
        return sum(record.stored_bytes for ref, record in self.entries.items() if ref[0] != PRIVATE_GENERATION)

    def evict(self, target_bytes: int, min_idle_ms: int, limit: int, *, limit_bytes: int = 0) -> Evicted:
        """Least recently used first, down to the target; a pass that a full cache began goes on below the limit."""
        before, latest = self.stored_bytes, self.now_ms - min_idle_ms
        if not self.generation or self.is_held or self.ageing_since > latest:
            return Evicted(0, 0, before)
        if limit_bytes and not self.passing and before < limit_bytes:
            return Evicted(0, 0, before)
        old = [ref for ref in self._idle_of(self.generation) if self.idle[ref] <= latest][:limit]
        evicted = 0
        while evicted < len(old) and self.stored_bytes > target_bytes:
            self._condemn(old[evicted])
            evicted += 1
        self.passing = bool(limit_bytes or self.passing) and self.stored_bytes > target_bytes and len(old) == limit
        return Evicted(evicted, before - self.stored_bytes, self.stored_bytes)

    def _idle_of(self, generation: int) -> list[Ref]:
        """The longest idle first."""
        return sorted((ref for ref in self.idle if ref[0] == generation), key=lambda ref: (self.idle[ref], ref[1]))

    def drain(self, limit: int) -> int:
        retired = sorted({g for g, _ in self.idle if PRIVATE_GENERATION < g < self.generation})
        some = [ref for g in retired for ref in self._idle_of(g)][:limit]
        for ref in some if not self.is_held else ():
            self._condemn(ref)
        return len(some) if not self.is_held else 0

    # -- sweep and search ------------------------------------------------------------------------------

    def mark_deleting(self, grace_ms: int, limit: int) -> list[str]:
        """Those marked before, by whichever leader, are among the answer until they are swept."""
        if self.is_held:
            return []
        over = sorted((at, path) for path, at in self.tombs.items() if at <= self.now_ms - grace_ms)
        for _, path in over[:limit]:
            del self.tombs[path]
            self.deleting[path] = self.now_ms
        return sorted(self.deleting, key=lambda path: (self.deleting[path], path))[:limit]

    def swept(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.deleting.pop(path, None)

    def condemn_orphans(self, found: Iterable[tuple[str, BundleId]]) -> int:
        before = len(self.tombs)
        for path, at in found if not self.is_held else ():
            ref, claim = (at.generation, at.key), self.claims.get((at.generation, at.key))
            is_entry = ref in self.entries and path == self.path(ref, self.entries[ref].token)
            is_running = claim is not None and claim.token == at.token
            is_coming = self.coming.get(at.path(self.namespace), 0) > self.now_ms
            if not (is_entry or is_running or is_coming or path in self.deleting):
                self.tombs.setdefault(path, self.now_ms)
        return len(self.tombs) - before

    def reserve(self, generation: int, keys: Sequence[bytes], lease_ms: int) -> list[int]:
        tokens = [self._token() for _ in keys if self.generation]
        for key, token in zip(keys, tokens, strict=False):
            self.coming[self.path((generation, key), token)] = self.now_ms + lease_ms
        return tokens

    def land(self, bundles: Sequence[tuple[BundleId, Record]]) -> list[Landing]:
        landings = [self._adopt(at, record, is_import=True) for at, record in bundles]
        return ["landed" if landing in ("adopted", "same") else landing for landing in landings]  # type: ignore[misc]

    def adopt(self, bundles: Sequence[tuple[BundleId, Record]]) -> int:
        return [self._adopt(at, record, is_import=False) for at, record in bundles].count("adopted")

    def _adopt(self, at: BundleId, record: Record, is_import: bool) -> Literal[Landing, "adopted", "same"]:
        """An entry wins over a found bundle, and so does a claim; nothing condemned is taken back."""
        ref, path = (at.generation, at.key), at.path(self.namespace)
        kept = self.coming.pop(path, 0) > self.now_ms
        if not self.generation:
            return "refused"
        if ref in self.entries:
            return "same" if self.entries[ref] == record else "present"
        if ref in self.claims:
            return "claimed"
        condemned = path in self.tombs or path in self.deleting
        if at.generation == PRIVATE_GENERATION or condemned or (is_import and not kept):
            return "refused"
        self.generation = max(self.generation, at.generation)
        self._enter(ref, record)
        if not self.is_wanted(ref):
            self.idle[ref] = self.time_of_use
        return "adopted"
