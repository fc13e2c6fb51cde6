"""What the coordinator asks of the index: purge, drain, evict, sweep, adopt, land, hold. Each twice is as once.

None of them is fenced by leadership: each goes to a stated target and never past it, so two leaders, or one that
was paused and goes on, do no more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from farm.index.answers import batches
from farm.index.record import Record
from farm.index.scripts import Scripts
from farm.namespace import BundleId, Namespace

#: What becomes of an imported bundle: an entry; nothing, as there is one or it is being compiled; or its place was no
#: longer kept for it, and it is to be put again at another.
Landing = Literal["landed", "present", "claimed", "refused"]
_LANDINGS: dict[str, Landing] = {"a": "landed", "s": "landed", "o": "present", "c": "claimed", "r": "refused"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The purge request waits for the leader."""


@dataclass(frozen=True, slots=True)
class Purged:
    """The request is answered: nothing from below this generation serves the asker any more."""

    generation: int


@dataclass(frozen=True, slots=True)
class NoJob:
    """The job that asks is not there (any more)."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The generation in force after a raise (0: not open), how many requests it answered, and 1 if it answers more."""

    generation: int
    answered: int
    left: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """What one call of evict has condemned, and what the namespace holds now."""

    entries: int
    stored_bytes: int
    left_bytes: int


class UpkeepCalls:
    """The coordinator's part of the index, and what others ask of it there."""

    def __init__(self, scripts: Scripts, namespace: Namespace, now_ms: int | None = None) -> None:
        self.scripts = scripts
        self.namespace = namespace
        #: Time under test; None: the server's clock.
        self.now_ms = now_ms

    def ask_purge(self, request: str, job: str = "", incarnation: int = 0) -> Asked | Purged | NoJob:
        """Ask for a purge, or for the answer to an earlier ask of the same id; safe to repeat."""
        reply = self.scripts.run("ask_purge", request, job, incarnation, now_ms=self.now_ms)
        match reply[0]:
            case b"purged":
                return Purged(int(reply[1]))
            case b"asked":
                return Asked()
            case _:
                return NoJob()

    def purge_queue(self, limit: int = 500) -> tuple[int, int]:
        """Requests that wait for a purge, and those of them that the last one answers; forgets dead jobs' ones."""
        waiting, answerable = self.scripts.run("purge_queue", limit, now_ms=self.now_ms)
        return int(waiting), int(answerable)

    def raise_to(self, generation: int, limit: int = 250) -> Raised:
        """Open a generation whose marker is in the store, and answer a chunk of the requests queued up to then."""
        reply = self.scripts.run("raise", generation, limit, now_ms=self.now_ms)
        return Raised(*(int(number) for number in reply))

    def drain(self, limit: int = 250) -> int:
        """Condemn a chunk of the idle entries of retired generations; 0 when none is left, or for now none."""
        return int(self.scripts.run("drain", limit, now_ms=self.now_ms))

    def evict(self, target_bytes: int, min_idle_ms: int, limit: int = 250, *, limit_bytes: int = 0) -> Evicted:
        """Condemn a chunk of the least recently used idle entries, down to the target and not one more.

        With ``limit_bytes`` nothing is done below that size, unless an earlier call has begun what this one goes
        on with.
        """
        reply = self.scripts.run("evict", limit_bytes, target_bytes, min_idle_ms, limit, now_ms=self.now_ms)
        return Evicted(*(int(number) for number in reply))

    def set_limits(self, limit_bytes: int, keep_ratio: int, origin: str, ageing: bool) -> None:
        """Write the limits in force; with ageing off, use times are not judged, and are counted anew when it is on."""
        self.scripts.run("limits", limit_bytes, keep_ratio, origin, int(ageing), now_ms=self.now_ms)

    def mark_deleting(self, grace_ms: int, limit: int = 250) -> list[str]:
        """Paths whose objects are to be deleted now; what an earlier leader left undone is among them."""
        paths = self.scripts.run("mark_deleting", grace_ms, limit, now_ms=self.now_ms)
        return [path.decode() for path in paths]

    def swept(self, paths: Sequence[str]) -> None:
        """Their objects are gone; safe to repeat."""
        for batch in batches(paths):
            self.scripts.run("swept", *batch, now_ms=self.now_ms)

    def condemn_orphans(self, found: Iterable[tuple[str, BundleId]]) -> int:
        """Condemn those of these objects that are no entry, no tombstone and no running claim's.

        Each is given by the path of what lies in the store, and the bundle that it is or is a part of.
        Returns how many.
        """
        condemned = 0
        for batch in batches(list(found)):
            rows = [(path, row.generation, row.key, row.token) for path, row in batch]
            condemned += int(self.scripts.run("orphans", *(part for row in rows for part in row), now_ms=self.now_ms))
        return condemned

    def adopt(self, bundles: Iterable[tuple[BundleId, Record]]) -> int:
        """Make entries of bundles that were found and verified, where the index has none. Returns how many."""
        return self._adopt(bundles, reserved=0).count("a")

    def reserve(self, generation: int, keys: Sequence[bytes], lease_ms: int) -> list[int]:
        """Fresh tokens for bundles of these keys that are about to be put; for that long none of them is an orphan.

        Sent again, it gives others. Returns one a key, or none: the namespace is not open.
        """
        tokens: list[int] = []
        for batch in batches(keys):
            reply = self.scripts.run("reserve", generation, lease_ms, *batch, now_ms=self.now_ms)
            tokens += [int(token) for token in reply]
        return tokens

    def land(self, bundles: Iterable[tuple[BundleId, Record]]) -> list[Landing]:
        """Make entries of verified bundles that were put at reserved places, where the index has none; safe to repeat.

        One that did not become an entry is left to the search for orphans.
        """
        return [_LANDINGS[letter] for letter in self._adopt(bundles, reserved=1)]

    def _adopt(self, bundles: Iterable[tuple[BundleId, Record]], reserved: int) -> str:
        letters = ""
        for batch in batches(list(bundles)):
            rows = [
                (at.key, at.generation, record.pack(), at.path(self.namespace), record.near_row) for at, record in batch
            ]
            arguments = (part for row in rows for part in row)
            letters += self.scripts.run("adopt", reserved, *arguments, now_ms=self.now_ms).decode()
        return letters

    def hold(self, claims_ms: int, entries_ms: int) -> int:
        """Judge nobody for a while, after a gap in which nobody could renew; returns until when (ms)."""
        return int(self.scripts.run("hold", claims_ms, entries_ms, now_ms=self.now_ms))
