"""Work done in chunks: bury, tell. No call does more than it was asked for, and none is needed twice."""

from __future__ import annotations

from farm.index import names
from farm.index.registry import Registry, Worker
from tests.lua.world import LEASE, T0, World, key, keys, record_of


def fields(world: World, kind: str) -> int:
    """How many rows all hashes or sets of a kind have together."""
    return sum(len(value) for name, value in world.rows().items() if name.partition(b":")[0] == kind.encode())


def test_bury_gives_back_a_chunk_a_call(world: World) -> None:
    wanted = keys(20)
    world.idle(*wanted)
    first, second = world.join("first"), world.join("second")
    for who in (first, second):
        world.index.acquire(who, wanted)
    world.index.leave(first)
    world.index.leave(second)
    assert sum(world.pins(*wanted)) == 40
    left = []
    while fields(world, "g"):
        before = fields(world, "g")
        left.append(world.index.bury(limit=6))
        assert before - fields(world, "g") <= 6
        assert sum(world.pins(*wanted)) == fields(world, "g")
    assert left == [2, 2, 2, 1, 1, 1, 1, 0]
    world.resend_unchanged("bury")
    assert len(world.snapshot().idle) == 20
    world.join("first")
    world.resend_unchanged("bury")


def test_bury_passes_over_a_grave_that_is_gone(world: World) -> None:
    who = world.join()
    world.compiled(who, key(1))
    world.index.leave(who)
    world.watched = False
    world.lose(b"g")
    assert world.index.bury() == 0
    assert world.index.bury() == 0


def test_tell_sends_a_chunk_of_notices_a_call(world: World) -> None:
    jobs = [world.join(f"job {n}") for n in range(9)]
    for who in jobs:
        world.claim(who, key(0), key(1), nonce=who.job)
    for n in range(2):
        world.publish(world.take(f"t{n}"))
    counts = []
    for _ in range(10):
        left = world.index.tell(limit=4)
        counts.append((left, sum(len(world.told(who)) for who in jobs)))
        if not left:
            break
    assert counts == [(2, 4), (2, 8), (1, 9), (1, 13), (1, 17), (0, 18)]
    world.resend_unchanged("tell")
    assert all(world.told(who) == {key(0), key(1)} for who in jobs)
    world.index.leave(jobs[0])
    world.resend_unchanged("tell")


def test_tell_never_brings_back_the_stream_of_a_job_that_ended(world: World) -> None:
    who, other = world.join(), world.join("other")
    for each in (who, other):
        world.claim(each, key(1), nonce=each.job)
    world.publish(world.take("t"))
    world.index.leave(who)
    new = world.join()
    assert world.index.tell() == 0
    assert world.snapshot().streams == {other.run}
    assert world.told(new) == set()


def test_notices_are_not_kept_for_a_reader_that_never_reads(world: World) -> None:
    world.watched = False
    who = world.join()
    stream = f"{world.index.prefix}n:{who.run}"
    pipe = world.redis.pipeline(transaction=False)
    for _ in range(20_500):
        pipe.xadd(stream, {"k": b"x" * 32})
    pipe.execute()
    world.claim(who, key(1))
    world.publish(world.take("t"))
    world.index.tell()
    assert world.redis.xlen(stream) < 20_200
    assert world.redis.xrevrange(stream, count=1)[0][1] == {b"k": key(1)}


def test_a_job_of_many_keys_ends_in_one_short_call(world: World) -> None:
    world.watched = False
    wanted = keys(5000)
    prefix = world.index.prefix
    world.redis.hset(f"{prefix}e:1", mapping=dict.fromkeys(wanted, record_of(1).pack()))
    world.redis.zadd(f"{prefix}idle:1", dict.fromkeys(wanted, 5))
    who = world.join()
    world.index.acquire(who, wanted)
    world.redis.config_resetstat()
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 1
    calls = sum(row["calls"] for row in world.redis.info("commandstats").values())
    assert calls < 40
    assert sum(world.pins(*wanted)) == 5000


def test_lapsed_workers_are_forgotten_a_thousand_a_call(world: World) -> None:
    registry = Registry(world.redis, now_ms=T0)
    for n in range(1050):
        registry.register(Worker(f"w{n}", "h", 1, 1, ()), [], 1000)
    registry.now_ms = T0 + 1000
    left = []
    for _ in range(3):
        registry.register(Worker("alive", "h", 1, 1, ()), [], 60_000)
        left.append((world.redis.zcard(names.WORKER_LEASES), world.redis.hlen(names.WORKERS)))
    assert left == [(51, 51), (1, 1), (1, 1)]


def test_purge_requests_are_looked_at_and_counted_a_chunk_a_call(world: World) -> None:
    gone = [world.join(f"job {n}") for n in range(4)]
    for who in gone:
        world.index.ask_purge(who.run, who.job, who.incarnation)
    for who in gone:
        world.end(who)
    assert world.index.purge_queue(limit=3) == (1, 0)
    assert world.index.purge_queue(limit=3) == (0, 0)
    assert fields(world, "asked") == 0
    for n in range(5):
        world.index.ask_purge(f"r{n}")
    world.index.raise_to(2, limit=1)
    assert world.index.purge_queue(limit=3) == (4, 3)


def test_what_an_earlier_leader_left_undone_is_handed_over_in_chunks(world: World) -> None:
    world.idle(*keys(5))
    world.index.raise_to(2)
    world.index.drain()
    for _ in range(2):
        assert len(world.index.mark_deleting(0, limit=2)) == 2
    assert fields(world, "deleting") == 4


def test_the_log_of_purges_is_bounded(world: World) -> None:
    world.watched = False
    for n in range(2, 1302):
        world.index.raise_to(n)
    assert 1000 <= world.redis.xlen(f"{world.index.prefix}purge_log") < 1200


def test_waiters_are_told_a_few_a_call_until_all_are(world: World) -> None:
    members = [world.join(f"job {n}") for n in range(5)]
    for who in members:
        world.claim(who, key(1), nonce=who.job)
    world.publish(world.take("d"))
    assert [world.index.tell(limit=2) for _ in range(3)] == [1, 1, 0]
    assert [world.told(who) for who in members] == [{key(1)}] * 5
