"""Each invariant finds what breaks it: an index that was right is made wrong in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from farm.index.invariants import INVARIANTS, check
from farm.namespace import bundle_path
from tests.lua.world import QUEUE, World, key

REF = b"1:" + key(7)
Break = Callable[[Any, str, World], Any]

#: What is done to the rows -> the invariants that must notice, others may.
BREAKS: dict[str, tuple[Break, set[str]]] = {
    "an entry in use is lost": (lambda r, p, w: r.hdel(f"{p}e:1", key(0)), {"interest_is_answered", "bytes_add_up"}),
    "a claim is lost": (lambda r, p, w: r.delete(f"{p}c:1:".encode() + key(2)), {"claims_have_one_place"}),
    "an entry is said to be dropped": (lambda r, p, w: r.hset(f"{p}dropped:1", key(0), 1), {"dropped_is_pinned"}),
    "a pinned entry is idle": (lambda r, p, w: r.zadd(f"{p}idle:1", {key(0): 1}), {"idle_is_unpinned"}),
    "an entry can never be aged": (lambda r, p, w: r.zrem(f"{p}idle:1", key(1)), {"idle_is_unpinned"}),
    "a pin too few": (lambda r, p, w: r.hdel(f"{p}i:1", key(0)), {"interest_is_counted", "idle_is_unpinned"}),
    "a pin too many": (lambda r, p, w: r.hincrby(f"{p}i:1", key(0), 1), {"interest_is_counted"}),
    "a claim beside an entry": (
        lambda r, p, w: r.hset(f"{p}c:1:".encode() + key(1), "state", "queued"),
        {"claims_are_for_absent_keys", "claims_have_one_place", "queued_claims_are_wanted"},
    ),
    "a failure beside an entry": (
        lambda r, p, w: r.hset(f"{p}f:1:".encode() + key(1), "error", "x"),
        {"claims_are_for_absent_keys"},
    ),
    "a claim in two queues": (
        lambda r, p, w: r.zadd(f"{p}queue:other", {b"1:" + key(2): 1}),
        {"claims_have_one_place"},
    ),
    "a bulk claim among the normal ones": (
        lambda r, p, w: r.hset(f"{p}c:1:".encode() + key(2), "priority", 2),
        {"places_are_of_the_class"},
    ),
    "sources that no claim carries are kept": (lambda r, p, w: r.hset(f"{p}sources", 7, 1), {"sources_are_counted"}),
    "a place without a claim": (lambda r, p, w: r.zadd(f"{p}running", {REF: 1}), {"claims_have_one_place"}),
    "a queued claim with a token": (
        lambda r, p, w: r.hset(f"{p}c:1:".encode() + key(2), "token", 1),
        {"claims_have_one_place"},
    ),
    "a queued claim nobody wants": (
        lambda r, p, w: [
            r.hset(f"{p}c:1:".encode() + key(7), mapping={"state": "queued", "queue": QUEUE}),
            r.zadd(f"{p}queue:{QUEUE}", {REF: 1}),
        ],
        {"queued_claims_are_wanted"},
    ),
    "bytes counted twice": (lambda r, p, w: r.hincrby(f"{p}meta", "bytes", 1000), {"bytes_add_up"}),
    "a purge request is lost": (lambda r, p, w: r.delete(f"{p}purges"), {"requests_stand_in_line"}),
    "an entry's bundle is condemned": (
        lambda r, p, w: r.zadd(f"{p}tombs", {w.snapshot().path((1, key(0))): 1}),
        {"condemned_is_no_entry"},
    ),
    "an entry's bundle is being deleted": (
        lambda r, p, w: r.zadd(f"{p}deleting", {w.snapshot().path((1, key(0))): 1}),
        {"condemned_is_no_entry"},
    ),
    "a raise is lost": (lambda r, p, w: r.hset(f"{p}meta", "generation", 0), {"generations_are_past"}),
    "tokens start again": (lambda r, p, w: r.hset(f"{p}meta", "last_token", 5), {"generations_are_past"}),
    "a generation is forgotten": (lambda r, p, w: r.delete(f"{p}generations"), {"generations_are_listed"}),
    "a promise is lost": (lambda r, p, w: r.hset(f"{p}j:job", "floor", 9), {"floors_are_reached"}),
    "waiting for nothing": (lambda r, p, w: r.sadd(f"{p}w:".encode() + REF, "job@1"), {"waiters_have_a_claim"}),
    "waiting without interest": (
        lambda r, p, w: r.sadd(f"{p}w:1:".encode() + key(2), "stranger@1"),
        {"waiters_have_a_claim"},
    ),
    "nobody will tell": (lambda r, p, w: r.sadd(f"{p}t:".encode() + REF + b":5", "job@1"), {"waiters_have_a_claim"}),
    "a job without members": (lambda r, p, w: r.delete(f"{p}m:job"), {"jobs_have_deadlines"}),
    "a job without a deadline": (lambda r, p, w: r.delete(f"{p}jobs"), {"jobs_have_deadlines"}),
    "a job is lost": (lambda r, p, w: r.delete(f"{p}j:job", f"{p}m:job"), {"jobs_have_deadlines"}),
    "a stream of an ended job": (lambda r, p, w: r.xadd(f"{p}n:job@1", {"k": "x"}), {"jobs_have_deadlines"}),
    "an ended job lives": (lambda r, p, w: r.set(f"{p}x:{_run(w)}", "c"), {"ended_is_over"}),
    "a grave nobody knows": (lambda r, p, w: r.delete(f"{p}graves"), {"jobs_have_deadlines"}),
}


def _run(world: World) -> str:
    return world.snapshot().jobs["job"].run


@pytest.fixture
def healthy(world: World) -> World:
    """A pinned entry (0), an idle one (1), a queued claim (2), a running one (3), and a grave."""
    world.idle(key(1))
    ended, who = world.join("ended"), world.join()
    world.compiled(ended, key(5))
    world.compiled(who, key(0))
    world.claim(who, key(3))
    world.take("runs")
    world.claim(who, key(2))
    world.index.ask_purge("an operator")
    world.index.leave(ended)
    assert check(world.snapshot()) == []
    return world


@pytest.mark.parametrize("what", BREAKS)
def test_each_break_is_noticed_and_named(healthy: World, what: str) -> None:
    action, names = BREAKS[what]
    action(healthy.redis, healthy.index.prefix, healthy)
    violations = check(healthy.snapshot())
    assert names <= {line.partition(":")[0] for line in violations}
    assert all(len(line) < 300 for line in violations)


def test_every_invariant_has_a_break() -> None:
    assert {rule.__name__ for rule in INVARIANTS} == set().union(*(names for _, names in BREAKS.values()))
    assert all(rule.__doc__ for rule in INVARIANTS)


def test_scripts_and_python_name_a_bundle_alike(world: World) -> None:
    """A retired entry is condemned by the script, under the path that the worker gave the store."""
    who = world.join()
    held = world.compiled(who, *(key(n) for n in range(6)))
    world.scripts.run("acquire", "other", 0, "m", 1, 0, key(9), now_ms=world.index.now_ms)
    raiser = world.join("raiser")
    world.scripts.run(
        "acquire", "raiser", raiser.incarnation, "m", 1000, 2, "shared", key(9), now_ms=world.index.now_ms
    )
    world.end(who)
    paths = {bundle_path(world.index.namespace, 1, each.key, each.record.token) for each in held}
    assert world.snapshot().tombs == paths
