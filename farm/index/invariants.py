"""What holds in the index between any two calls: each invariant is a named predicate over a snapshot.

Used by the tests after every step. A predicate yields one readable line for each violation it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from farm.index.snapshot import Ref, Snapshot
from farm.namespace import PRIVATE_GENERATION

#: Of a class in the fair order, as in lua/lib/queue.lua.
CLASS_WIDTH = 2**44

Invariant = Callable[[Snapshot], Iterator[str]]


def check(snapshot: Snapshot) -> list[str]:
    """Every violation of every invariant, each as ``name: what is wrong``."""
    return [f"{rule.__name__}: {what}" for rule in INVARIANTS for what in rule(snapshot)]


def interest_is_answered(s: Snapshot) -> Iterator[str]:
    """What a live job is interested in is an entry, a live claim, a failure it will be told, or was dropped."""
    for run, ref in _interested(s, graves=False):
        if not (ref in s.entries or ref in s.claims or ref in s.failures or ref in s.dropped):
            yield f"{run} waits for {_name(ref)}, which is nothing"


def dropped_is_pinned(s: Snapshot) -> Iterator[str]:
    """A drop is remembered as long as jobs are interested, and there is no other entry."""
    for ref in s.dropped:
        if ref in s.entries or ref not in s.interest:
            yield f"{_name(ref)} was dropped, and is an entry or nobody's"


def idle_is_unpinned(s: Snapshot) -> Iterator[str]:
    """The idle set holds exactly the entries without interest, so ageing can not touch a pinned one."""
    unpinned = s.entries.keys() - s.interest.keys()
    yield from (f"{_name(ref)} is idle and is pinned or no entry" for ref in s.idle.keys() - unpinned)
    yield from (f"{_name(ref)} is an entry without interest and not idle" for ref in unpinned - s.idle.keys())


def interest_is_counted(s: Snapshot) -> Iterator[str]:
    """The interest in a key is the number of jobs and graveyards whose maps name it."""
    named = Counter(ref for _, ref in _interested(s, graves=True))
    for ref in named.keys() | s.interest.keys():
        if named[ref] != s.interest.get(ref, 0):
            yield f"{_name(ref)} has interest {s.interest.get(ref)} and is named by {named[ref]}"


def claims_are_for_absent_keys(s: Snapshot) -> Iterator[str]:
    """A key has an entry, or one claim, or a failure; a failure may wait to be told while it is claimed again."""
    yield from (f"{_name(ref)} is an entry and is claimed" for ref in s.entries.keys() & s.claims.keys())
    yield from (f"{_name(ref)} is an entry and has a failure" for ref in s.entries.keys() & s.failures)


def claims_have_one_place(s: Snapshot) -> Iterator[str]:
    """A queued claim stands in its own queue and has no token; a running one has a deadline and a token."""
    places = Counter(ref for queue in s.queues.values() for ref in queue) + Counter(s.running.keys())
    for ref in places.keys() | s.claims.keys():
        claim = s.claims.get(ref)
        if claim is None:
            yield f"{_name(ref)} has a place and no claim"
            continue
        if claim.state == "queued":
            placed = claim.token is None and ref in s.queues.get(claim.queue, {})
        else:
            placed = claim.state == "running" and claim.token is not None and ref in s.running
        if not placed or places[ref] != 1:
            yield f"{_name(ref)} is {claim.state} with token {claim.token} and has {places[ref]} places"


def sources_are_counted(s: Snapshot) -> Iterator[str]:
    """An epoch of sources is kept exactly as long as claims carry it."""
    carried = Counter(claim.sources for claim in s.claims.values() if claim.sources)
    if carried != Counter(s.sources):
        yield f"claims carry the epochs {dict(carried)}, counted are {s.sources}"


def places_are_of_the_class(s: Snapshot) -> Iterator[str]:
    """A queued claim stands among those of its own class."""
    for queue in s.queues.values():
        for ref, place in queue.items():
            if ref in s.claims and place // CLASS_WIDTH != s.claims[ref].priority:
                yield f"{_name(ref)} has priority {s.claims[ref].priority} and the place {place}"


def queued_claims_are_wanted(s: Snapshot) -> Iterator[str]:
    """A queued claim that nobody wants is removed; only a running one may finish for the cache alone."""
    for ref, claim in s.claims.items():
        if claim.state == "queued" and ref not in s.interest:
            yield f"{_name(ref)} is queued and nobody wants it"


def bytes_add_up(s: Snapshot) -> Iterator[str]:
    """``bytes`` is the sum of the stored sizes of all shared entries; private ones are counted apart."""
    sizes = Counter({False: 0, True: 0})
    for (generation, _), record in s.entries.items():
        sizes[generation == PRIVATE_GENERATION] += record.stored_bytes
    for what, counted, total in (("", s.stored_bytes, sizes[False]), ("private ", s.private_bytes, sizes[True])):
        if counted != total:
            yield f"meta counts {counted} {what}bytes, the {what}entries have {total}"


def condemned_is_no_entry(s: Snapshot) -> Iterator[str]:
    """No entry's bundle is condemned."""
    for ref in s.entries:
        if s.path(ref) in s.tombs | s.deleting:
            yield f"{_name(ref)} is an entry and its bundle {s.path(ref)} is condemned"


def generations_are_past(s: Snapshot) -> Iterator[str]:
    """Nothing lies in a generation that the namespace has not reached, or under a token not yet given."""
    for ref in s.entries.keys() | s.claims.keys() | s.interest.keys():
        if ref[0] > s.generation:
            yield f"{_name(ref)} lies above generation {s.generation}"
    for ref, claim in s.claims.items():
        if (claim.token or 0) > s.last_token:
            yield f"{_name(ref)} runs under token {claim.token}, the last given is {s.last_token}"


def generations_are_listed(s: Snapshot) -> Iterator[str]:
    """Every generation that has entries is listed, else nobody drains, counts or shows them."""
    for g in {g for g, _ in s.entries} - s.generations:
        yield f"generation {g} has entries and is not listed"


def floors_are_reached(s: Snapshot) -> Iterator[str]:
    """No job was promised a generation that the namespace has not reached: else it would be answered from below."""
    for name, job in s.jobs.items():
        if job.floor > s.generation:
            yield f"job {name} was promised generation {job.floor}, the namespace is at {s.generation}"


def waiters_have_a_claim(s: Snapshot) -> Iterator[str]:
    """Who waits is interested, and waits for a live claim or stands in line to be told."""
    wanted = set(_interested(s, graves=True))
    for ref, runs in s.waiters.items():
        if ref not in s.claims:
            yield f"{sorted(runs)} wait for {_name(ref)}, which nobody claims"
        yield from (f"{run} waits for {_name(ref)} without interest" for run in runs if (run, ref) not in wanted)
    waiting, in_line = s.untold
    yield from (f"nobody will tell the waiters {name!r}" for name in waiting - in_line)


def requests_stand_in_line(s: Snapshot) -> Iterator[str]:
    """Who waits for a purge is served by the next one."""
    yield from (f"nobody will answer the purge request {request}" for request in s.asked - s.requests)


def jobs_have_deadlines(s: Snapshot) -> Iterator[str]:
    """A job lives exactly as long as its members' leases; nothing is held, no stream kept, without a live job."""
    for job in s.jobs.keys() | s.deadlines.keys():
        members = s.jobs[job].members if job in s.jobs else {}
        if not members or s.deadlines.get(job) != max(members.values()):
            yield f"job {job} has members {members} and deadline {s.deadlines.get(job)}"
    live = {job.run for job in s.jobs.values()}
    yield from (f"{run} is no live job and has a map" for run in s.maps.keys() - live)
    yield from (f"{run} is no live job and has notices" for run in s.streams - live)
    yield from (f"nobody will bury {run}" for run in s.graves.keys() - s.buried)


def ended_is_over(s: Snapshot) -> Iterator[str]:
    """What somebody has ended on purpose is not brought back by its members."""
    yield from (f"{job.run} was ended and lives" for job in s.jobs.values() if job.run in s.ended)


INVARIANTS: tuple[Invariant, ...] = (
    interest_is_answered,
    dropped_is_pinned,
    idle_is_unpinned,
    interest_is_counted,
    claims_are_for_absent_keys,
    claims_have_one_place,
    sources_are_counted,
    places_are_of_the_class,
    queued_claims_are_wanted,
    bytes_add_up,
    condemned_is_no_entry,
    generations_are_past,
    generations_are_listed,
    floors_are_reached,
    waiters_have_a_claim,
    requests_stand_in_line,
    jobs_have_deadlines,
    ended_is_over,
)


def _interested(s: Snapshot, *, graves: bool) -> Iterator[tuple[str, Ref]]:
    """Each run and what its map says it is interested in."""
    for maps in (s.maps, s.graves) if graves else (s.maps,):
        for run, held in maps.items():
            yield from ((run, (g, key)) for key, (g, state) in held.items() if state == "i")


def _name(ref: Ref) -> str:
    return f"{ref[0]}:{ref[1].hex()[:12]}"
