"""Names with the characters that the keys of the index are put together with."""

from __future__ import annotations

import pytest

from tests.lua.world import LEASE, World, key, keys


@pytest.mark.parametrize("job", ["a@1", "a@1@2", "x:y{z}", "t:1:", "jobs", "%d\n\0"])
def test_odd_names_of_jobs_and_members(world: World, job: str) -> None:
    world.idle(key(1))
    who = world.join(job, member=f"{job}:m@1")
    near = world.join(job.partition("@")[0] + "@", member="m")
    world.claim(near, key(2))
    assert isinstance(world.index.acquire(who, keys(3)), list)
    assert world.snapshot().maps[who.run] == {key(1): (1, "i"), key(2): (1, "i")}
    world.publish(world.take("t"))
    world.drain()
    assert world.told(who) == {key(2)}
    assert world.index.wait_notices(who.run, "0-0", 1)[1] == {key(2)}
    world.pass_time(LEASE)
    assert world.index.end_lapsed() == 2
    world.drain()
    assert world.pins(*keys(3)) == [0, 0, 0]
    assert world.join(job).incarnation > who.incarnation
