"""The rows by which explain finds the nearest entry: written with the entry, bounded, and only hints."""

from __future__ import annotations

from dataclasses import replace

from farm.index.lookup import Standing, near_entries, standings
from farm.index.outcomes import Failure
from farm.index.record import Record
from farm.index.slots import SLOTS, near_row, tensor_slot
from farm.namespace import BundleId
from farm.request.model import Tensor
from tests.lua.world import RULES, World, key, keys, record_of
from tests.unit.request.sample import sample


def publish(world: World, k: bytes, **fields: object) -> Record:
    """An entry of this key that nobody uses."""
    who = world.join("maker")
    world.claim(who, k, nonce=k.hex())
    taken = world.take(k.hex())
    record = replace(record_of(taken.claim.token), **fields)  # type: ignore[arg-type]
    world.index.publish(taken.claim, record)
    world.resend_unchanged("publish")
    world.end(who)
    return record


def near(world: World, type: str = "Add", slot: int = 0) -> list[bytes]:
    return [one.key for one in near_entries(world.index, type, slot)]


def test_the_same_slot_comes_first_then_the_latest(world: World) -> None:
    for n, slot in ((0, 5), (1, 7), (2, 9)):
        publish(world, key(n), tensor_slot=slot)
        world.pass_time(1)
    publish(world, key(3), type="Sub", tensor_slot=7)
    assert near(world, "Add", 7) == [key(1), key(2), key(0)]
    assert near(world, "Add", 8) == [key(2), key(1), key(0)]
    assert near(world, "Sub", 0) == [key(3)]
    assert near(world, "Mul") == []


def test_a_slot_holds_the_latest(world: World) -> None:
    publish(world, key(1), tensor_slot=3)
    publish(world, key(2), tensor_slot=3)
    assert near(world, "Add", 3) == [key(2)]


def test_what_is_gone_is_passed_over(world: World) -> None:
    records = [publish(world, key(n), tensor_slot=n) for n in range(3)]
    world.index.drop(1, key(1), records[1].token)
    assert set(near(world)) == {key(0), key(2)}


def test_announced_and_rebuilt_entries_are_found_too(world: World) -> None:
    who = world.join()
    held = world.compiled(who, key(1))
    world.lose_everything()
    world.index.announce(who, held)
    assert near(world) == [key(1)]
    world.resend_unchanged("announce")
    world.index.adopt([(BundleId(1, key(2), 7), replace(record_of(7), tensor_slot=1))])
    world.resend_unchanged("adopt")
    assert near(world, slot=1) == [key(2), key(1)]


def test_a_drained_generation_leaves_no_rows(world: World) -> None:
    publish(world, key(1))
    world.index.raise_to(2)
    assert near(world) == []
    while world.index.drain():
        pass
    assert not [name for name in world.rows() if name.startswith(b"near:")]


def test_the_rows_of_a_million_types_are_bounded(world: World) -> None:
    world.watched = False
    rows = f"{world.index.prefix}near:1"
    world.redis.hset(rows, mapping={f"row {n}": b"x" * 32 for n in range(19_998)})
    for n in range(5):
        publish(world, key(n), type=f"type {n}")
    assert world.redis.hlen(rows) == 20_000


def test_rows_are_short_and_tell_types_and_tensors_apart() -> None:
    assert len(near_row("T" * 4000, SLOTS - 1)) == 9
    assert len({near_row("Add", 1), near_row("Add", 2), near_row("Sub", 1)}) == 3
    asked = sample()
    same = replace(asked, name="other", attrs={}, entry=None)
    assert tensor_slot(asked) == tensor_slot(same)
    shapes = [replace(asked, inputs=(Tensor((n, 128), "float16"),)) for n in range(200)]
    assert len({tensor_slot(one) for one in shapes}) > SLOTS // 2
    assert all(0 <= tensor_slot(one) < SLOTS for one in shapes)
    swapped = replace(asked, inputs=asked.outputs, outputs=asked.inputs)
    assert tensor_slot(swapped) != tensor_slot(asked)


def test_a_look_says_what_a_fresh_job_would_find_and_changes_nothing(world: World) -> None:
    who = world.join()
    world.compiled(who, key(0))
    world.claim(who, *keys(4)[1:])
    for n in range(2):
        failure = Failure("rejected", f"no {n}")
        world.index.fail(world.take(f"t{n}").claim, failure, RULES, remember=n == 0)
    (running,) = (world.take("t2").claim.key,)
    with world.unchanged():
        found = dict(zip(keys(6), standings(world.index, keys(6)), strict=True))
    assert found[key(0)] == Standing("present")
    assert found[running] == Standing("in flight")
    assert found[key(5)] == Standing("absent")
    rest = [found[k] for k in keys(4)[1:] if k != running]
    assert sorted(rest, key=lambda one: one.state) == [
        Standing("absent"), Standing("remembered failure", Failure("rejected", "no 0")),
    ]  # fmt: skip
    world.pass_time(RULES.remember_ms)
    assert [one.state for one in standings(world.index, keys(4)) if one.failure] == []
