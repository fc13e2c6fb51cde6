"""Which idle entries go: none below the limit, the oldest first, and not one more than the target needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.policy.ageing import Candidate, excess, target, victims
from farm.policy.limits import Limits

LIMITS = Limits(1000, 50, "environment", True)


def some(*rows: tuple[int, int]) -> list[Candidate]:
    return [Candidate(b"%d" % n, since, size) for n, (since, size) in enumerate(rows)]


def keys(chosen: list[Candidate]) -> list[bytes]:
    return [one.key for one in chosen]


def test_a_pass_begins_at_the_limit() -> None:
    assert target(999, LIMITS) is None
    assert target(1000, LIMITS) == 500
    assert target(10**9, Limits(1000, 50, "environment", False)) is None


def test_the_farms_limit() -> None:
    assert excess(999, 1000, 80) == 0
    assert excess(1000, 1000, 80) == 200
    assert excess(1000, 1000, 100) == 0


def test_the_oldest_go_first_until_the_target() -> None:
    found = some((30, 100), (10, 100), (20, 100), (40, 100))
    assert keys(victims(found, 400, 200, 99)) == [b"1", b"2"]
    assert keys(victims(found, 400, 201, 99)) == [b"1", b"2"]
    assert keys(victims(found, 400, 199, 99)) == [b"1", b"2", b"0"]
    assert victims(found, 400, 400, 99) == []


def test_what_was_used_of_late_stays_and_exactly_then_goes() -> None:
    found = some((10, 100), (20, 100))
    assert keys(victims(found, 200, 0, 10)) == [b"0"]
    assert keys(victims(found, 200, 0, 9)) == []


def test_of_the_same_age_the_order_is_fixed() -> None:
    found = some((10, 1), (10, 1), (10, 1))
    assert keys(victims(reversed(found), 3, 1, 10)) == [b"0", b"1"]


rows = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), max_size=30)


@given(rows, st.integers(0, 2000), st.integers(0, 50), st.integers(0, 500))
def test_never_more_than_is_needed_and_all_that_is(
    given_rows: list[tuple[int, int]], goal: int, before: int, pinned: int
) -> None:
    found = some(*given_rows)
    held = sum(size for _, size in given_rows) + pinned
    chosen = victims(found, held, goal, before)
    left = held - sum(one.stored_bytes for one in chosen)
    assert all(one.idle_since_ms <= before for one in chosen)
    if chosen:
        assert left + chosen[-1].stored_bytes > goal
    if left > goal:
        assert {one.key for one in found if one.idle_since_ms <= before} == set(keys(chosen))
