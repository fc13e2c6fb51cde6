"""What must hold in every run, whatever happens in it; each checker is told by the actors, or looks for itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from farm.index import invariants
from farm.index.index import Index
from farm.index.jobs import Holding, Member
from farm.index.outcomes import Taken
from farm.index.snapshot import Snapshot, read
from farm.namespace import PRIVATE_GENERATION, BundleId, Namespace, bundle_path
from tests.sim.scheduler import Process, Scheduler
from tests.sim.server import SimServer
from tests.sim.shelf import Shelf

Ref = tuple[Namespace, int, bytes]


class Broken(AssertionError):
    """A promise was broken; ``about`` is what the trace is to be searched for."""

    def __init__(self, what: str, about: str = "") -> None:
        super().__init__(what)
        self.about = about


@dataclass
class Attempt:
    """One compile of a claim."""

    process: Process
    token: int
    #: How it ended: published, or why it was not; None while it runs.
    ended: str | None = None


@dataclass
class Checks:
    """All checkers of a run."""

    scheduler: Scheduler
    server: SimServer
    shelf: Shelf
    claim_lease_ms: int
    #: Before this time after a loss of data, members may not have announced yet.
    recovery_ms: int
    attempts: dict[Ref, list[Attempt]] = field(default_factory=dict)
    #: Run and floor -> key -> the bundle that it was answered with.
    answers: dict[tuple[Namespace, str, int], dict[bytes, BundleId]] = field(default_factory=dict)
    #: Bundles that a fault has lost or damaged; bundles that a reader found so.
    spoilt: set[BundleId] = field(default_factory=set)
    dropped: set[BundleId] = field(default_factory=set)
    #: Run (or a person's request for a purge) -> the generation in force when it first came.
    forced: dict[tuple[Namespace, str], int] = field(default_factory=dict)
    #: Member -> the same of the run that it joined: it may come back into another one of the job's id.
    joined: dict[tuple[Namespace, str], int] = field(default_factory=dict)
    #: Token -> when its worker was told that it had lost the claim.
    lost_ms: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    # -- compiles --------------------------------------------------------------------------------------

    def compile_begins(self, namespace: Namespace, taken: Taken, process: Process) -> Attempt:
        """At most one compile of a key in a generation, and one more for each that was lost."""
        claim = taken.claim
        earlier = self.attempts.setdefault((namespace, claim.generation, claim.key), [])
        if earlier and not self._is_excused(namespace, claim.generation, claim.key, earlier[-1]):
            last = earlier[-1]
            raise Broken(
                f"{claim.generation}:{claim.key.hex()[:12]} is compiled again by {process.name} under {claim.token}, "
                f"although {last.process.name} ({last.ended or 'still at it'}) has compiled it under {last.token}",
                claim.key.hex()[:12],
            )
        attempt = Attempt(process, claim.token)
        earlier.append(attempt)
        self.counts["compiles"] += 1
        self.counts["again"] += len(earlier) > 1
        return attempt

    def _is_excused(self, namespace: Namespace, generation: int, key: bytes, last: Attempt) -> bool:
        """Whether the last attempt was lost, or what it made is no entry any more."""
        if last.ended == "published":
            index = Index(self.server.raw, namespace)
            return index.known_tokens(generation, [key])[0] is None
        is_over = last.ended is not None or last.token in self.lost_ms or not last.process.is_alive
        return is_over or self._was_disturbed(last.process, self.scheduler.now_ms)

    def claim_is_lost(self, attempt: Attempt, key: bytes) -> None:
        """A worker that could renew all the time keeps its claim."""
        if not self._was_disturbed(attempt.process, self.lost_ms[attempt.token]):
            raise Broken(f"{attempt.process.name} lost its claim {attempt.token} for no reason", key.hex()[:12])

    def _was_disturbed(self, process: Process, before_ms: int) -> bool:
        since_ms = before_ms - 3 * self.claim_lease_ms
        return max(process.disturbed_ms, self.server.disturbed_ms, self.server.lost_ms) >= since_ms

    # -- answers ---------------------------------------------------------------------------------------

    def called(self, name: str, call: tuple[Any, ...], reply: Any) -> None:
        """The server has executed a script."""
        if name == "renew":
            self._renewed(call[6:-1:2], reply)
        if name not in ("join", "ask_purge", "drop", "leave", "end"):
            return
        namespace = Namespace.parse(re.findall("{(.*)}", call[3])[0])
        if name == "join":
            if reply[0] == b"joined":
                first = self.forced.setdefault((namespace, f"{call[4]}@{int(reply[1])}"), int(reply[2]))
                self.joined.setdefault((namespace, call[5]), first)
        elif name == "ask_purge":
            self._asked(namespace, str(call[4]), reply)
        elif name == "drop":
            self._dropped(namespace, BundleId(int(call[4]), call[5], int(call[6])))
        elif reply == b"ended" or reply[0] == b"ended":  # if a member comes back, what was idle may be gone
            job = call[4].decode() if isinstance(call[4], bytes) else call[4]
            self._forget(namespace, f"{job}@{call[5]}")

    def _renewed(self, tokens: tuple[Any, ...], reply: bytes) -> None:
        for token, letter in zip(tokens, reply.decode(), strict=True):
            if letter == "l":
                self.lost_ms.setdefault(int(token), self.scheduler.now_ms)

    def _asked(self, namespace: Namespace, request: str, reply: Any) -> None:
        """A purge was asked for, maybe again: its answer is a generation above the one of the first ask."""
        least = self.forced.setdefault((namespace, request), Index(self.server.raw, namespace).generation())
        if reply[0] == b"purged" and int(reply[1]) <= least and not self.server.losses:
            raise Broken(f"{request} asked for a purge in generation {least}, the answer was {int(reply[1])}", request)

    def _dropped(self, namespace: Namespace, bundle: BundleId) -> None:
        if bundle not in self.dropped | self.spoilt and bundle.path(namespace) in self.shelf.objects:
            raise Broken(f"{bundle.path(namespace)} is good and was dropped", bundle.key.hex()[:12])
        self.dropped.add(bundle)

    def _forget(self, namespace: Namespace, run: str) -> None:
        for known in [known for known in self.answers if known[:2] == (namespace, run)]:
            del self.answers[known]

    def answered(self, who: Member, namespace: Namespace, held: Holding) -> None:
        """A job's answer never changes but for a drop; a force job's was claimed after its request.

        After a loss of data a job's id may be a force job's, and members of before that are in it by its id alone:
        what was promised to whom is in their floors.
        """
        found = BundleId(held.generation, held.key, held.record.token)
        answers = self.answers.setdefault((namespace, who.run, who.floor), {})
        before = answers.setdefault(held.key, found)
        if before != found and before not in self.dropped | self.spoilt:
            raise Broken(f"{who.run} was answered {before.path(namespace)}, now {found.path(namespace)}", who.job)
        answers[held.key] = found
        self.counts["answers"] += 1
        least = 0 if self.server.losses else self.joined.get((namespace, who.member), 0)
        if who.mode == "force" and held.generation != PRIVATE_GENERATION and not least < who.floor <= held.generation:
            raise Broken(f"{who.run} was promised {who.floor} and given {found.path(namespace)}", who.job)

    def data_were_lost(self) -> None:
        """Members announce what they hold; where two held different bundles of one key, one is in force for all."""
        self.answers.clear()

    # -- the store ---------------------------------------------------------------------------------------

    def deleting(self, path: str) -> None:
        """No entry's object is ever deleted."""
        cache, soc, rest = path.split("/", 2)
        found = BundleId.parse(rest)
        if found is None:
            return
        index = Index(self.server.raw, Namespace(cache, soc))
        if index.known_tokens(found.generation, [found.key]) == [found.token] and not self.is_recovering():
            raise Broken(f"{path} is deleted and is an entry", found.key.hex()[:12])
        self.counts["deleted"] += 1

    def is_recovering(self) -> bool:
        """Whether data were lost of late, so that not all is restored yet."""
        return self.scheduler.now_ms < self.server.lost_ms + self.recovery_ms

    # -- looks -------------------------------------------------------------------------------------------

    def look(self, namespace: Namespace) -> Snapshot:
        """Every invariant of the index holds now, whatever is under way."""
        snapshot = read(Index(self.server.raw, namespace))
        if violations := invariants.check(snapshot):
            raise Broken(f"{namespace}: " + "; ".join(violations[:3]), violations[0].partition(":")[2][:12])
        self.counts["looks"] += 1
        return snapshot

    def is_kept(self, snapshot: Snapshot, run: str, held: Holding) -> None:
        """What a healthy member holds is an entry, is pinned, and lies in the store."""
        ref, namespace = (held.generation, held.key), snapshot.namespace
        path = bundle_path(namespace, held.generation, held.key, held.record.token)
        entry = snapshot.entries.get(ref)
        bundle = BundleId(held.generation, held.key, held.record.token)
        if bundle in self.dropped | self.spoilt or run in snapshot.ended or self._is_superseded(snapshot, run, held):
            return
        if entry is None or entry.token != held.record.token:
            raise Broken(f"{run} holds {path}, the index has {entry and entry.token}", held.key.hex()[:12])
        if ref not in snapshot.interest or snapshot.maps.get(run, {}).get(held.key) != (held.generation, "i"):
            raise Broken(f"{run} holds {path} and has no pin on it", held.key.hex()[:12])
        if path not in self.shelf.objects:
            raise Broken(f"{run} holds {path}, which is not in the store", held.key.hex()[:12])
        self.counts["pins"] += 1

    def _is_superseded(self, snapshot: Snapshot, run: str, held: Holding) -> bool:
        """Whether the job itself was promised a later generation since, and has the key from there.

        Only members of two runs in one have different floors: those of before a loss come back into what a newer
        member of the same id has started with a force of its own.
        """
        generation, _ = snapshot.maps.get(run, {}).get(held.key, (0, ""))
        job = snapshot.jobs.get(run.rpartition("@")[0])
        return job is not None and job.run == run and held.generation < job.floor <= generation

    def left(self, snapshot: Snapshot) -> Iterator[Broken]:
        """At the end nobody waits, nothing is claimed, condemned or buried, and no object is nobody's."""
        s = snapshot
        left = {
            "claims": s.claims, "waiters": s.waiters, "running": s.running, "jobs": s.jobs, "maps": s.maps,
            "graves": s.graves, "untold": s.untold[0], "tombs": s.tombs, "deleting": s.deleting,
            "interest": s.interest, "private": [ref for ref in s.entries if ref[0] == PRIVATE_GENERATION],
            "retired": [ref for ref in s.entries if ref[0] != s.generation], "sources": s.sources,
        }  # fmt: skip
        if full := {name: len(rows) for name, rows in left.items() if rows}:
            yield Broken(f"{s.namespace}: left at the end: {full}")
        entries = {s.path(ref) for ref in s.entries}
        there = {path for path in self.shelf.objects if path.startswith(f"{s.namespace}/") and is_bundle(path)}
        if entries != there:
            lost, orphans = sorted(entries - there)[:3], sorted(there - entries)[:3]
            yield Broken(f"{s.namespace}: entries without object {lost}, objects without entry {orphans}")


def is_bundle(path: str) -> bool:
    """Whether an object of the store is a bundle, or what a killed writer left of one."""
    rest = path.split("/", 2)[-1].partition("#")[0]
    return BundleId.parse(rest) is not None
