"""Private entries: one job's own, counted apart, and gone with it."""

from __future__ import annotations

from dataclasses import replace

from farm.index.jobs import Holding, Member, Want
from farm.index.outcomes import Absent, Hit, UnknownJob
from farm.index.stats import find_entries, list_entries, read_stats
from farm.namespace import PRIVATE_GENERATION, BundleId
from tests.lua.world import LEASE, QUEUE, World, key, kinds


def compiled(world: World, who: Member, k: bytes) -> tuple[Holding, str]:
    """A private entry of the job, and where its bundle lies."""
    assert kinds(world.index.claim(who, [Want(k, b"request", QUEUE)], "n", "private")) == "C"  # type: ignore[arg-type]
    taken = world.take(f"delivery {len(world.scripts.sent)}")
    assert taken.claim.generation == PRIVATE_GENERATION
    record = world.publish(taken)
    world.drain()
    at = BundleId(PRIVATE_GENERATION, k, taken.claim.token)
    return Holding(PRIVATE_GENERATION, k, record), at.path(world.index.namespace)


def test_members_share_it_and_it_goes_with_the_job(world: World) -> None:
    first, second = world.join(), world.join(member="second")
    _, path = compiled(world, first, key(1))
    assert kinds(world.index.acquire(second, [key(1)], "private")) == "H"  # type: ignore[arg-type]
    world.index.leave(first)
    assert world.seen.tombs == set()
    world.end(second)
    assert world.seen.entries == {}
    assert world.seen.idle == {}
    assert world.seen.tombs == {path}
    assert (world.seen.stored_bytes, world.seen.private_bytes) == (0, 0)


def test_it_is_in_no_figure_but_its_own(world: World) -> None:
    who = world.join()
    compiled(world, who, key(1))
    world.compiled(who, key(2))
    stats = read_stats(world.index)
    assert (stats.entries, stats.pinned_entries, stats.retired_entries, stats.private_entries) == (1, 1, 0, 1)
    assert (stats.stored_bytes, world.seen.private_bytes) == (1000, 1000)
    assert [row.key for row in list_entries(world.index, None)] == [key(2)]
    assert find_entries(world.index, key(1)) == []
    assert [name for name in world.rows() if name.startswith(b"near:")] == [b"near:1"]


def test_it_never_crosses_a_limit_and_no_ageing_or_purge_takes_it(world: World) -> None:
    who = world.join()
    world.index.set_limits(500, 1, "environment", ageing=True)
    compiled(world, who, key(1))
    assert world.index.evict(0, 0, limit_bytes=500).entries == 0
    world.index.raise_to(2)
    while world.index.drain():
        pass
    raised = replace(who, floor=2)
    for scope in ("private", "shared"):  # what the job holds is its answer, whatever it was promised since
        answers = world.index.acquire(raised, [key(1)], scope)  # type: ignore[arg-type]
        assert isinstance(answers, list)
        assert isinstance(answers[0], Hit)
    world.resend_unchanged("acquire", "claim")


def test_another_run_of_the_job_does_not_get_it(world: World) -> None:
    """The key is salted with the run; even one that knows it finds nothing in the shared generations."""
    who = world.join()
    compiled(world, who, key(1))
    other = world.join("other")
    answers = world.index.acquire(other, [key(1)])
    assert isinstance(answers, list)
    assert isinstance(answers[0], Absent)
    assert answers[0] == Absent()


def test_a_compile_that_nobody_waits_for_any_more_is_condemned(world: World) -> None:
    who = world.join()
    world.index.claim(who, [Want(key(1), b"request", QUEUE)], "n", "private")
    taken = world.take("t")
    world.end(who)
    world.publish(taken)
    assert world.seen.entries == {}
    assert len(world.seen.tombs) == 1


def test_after_a_loss_only_its_job_brings_it_back(world: World) -> None:
    who = replace(world.join(), floor=3)
    holding, path = compiled(world, who, key(1))
    world.lose_everything()
    at = BundleId(PRIVATE_GENERATION, holding.key, holding.record.token)
    assert world.index.adopt([(at, holding.record)]) == 0
    assert world.index.announce(who, [holding]) == [holding.record]
    assert world.seen.private_bytes == holding.record.stored_bytes
    world.end(who)
    assert world.seen.tombs == {path}


def test_dropped_it_is_compiled_again_as_private(world: World) -> None:
    who = world.join()
    holding, _ = compiled(world, who, key(1))
    world.index.drop(PRIVATE_GENERATION, key(1), holding.record.token)
    again, _ = compiled(world, who, key(1))
    assert again.record.token > holding.record.token


def test_a_lapsed_job_leaves_none(world: World) -> None:
    who = world.join()
    compiled(world, who, key(1))
    world.pass_time(LEASE)
    world.index.end_lapsed()
    world.drain()
    assert world.seen.entries == {}
    assert isinstance(world.index.acquire(who, [key(1)], "private"), UnknownJob)
