"""Gaps in which nobody could renew: each kind is noticed, once, by whoever leads then."""

from __future__ import annotations

from farm.coordinator.watch import GAP_MS, Watch
from farm.index import names
from tests.coordinator.desk import Desk


def watch(desk: Desk, leader: str = "a") -> Watch:
    return Watch(desk.server, names.WATCH, f"{names.WATCH}:{leader}")


def test_each_kind_of_gap(desk: Desk) -> None:
    one = watch(desk)
    assert one.look(1000) == "first tick"
    assert one.look(1000) == "first tick"
    one.seen()
    assert one.look(1000 + GAP_MS) is None
    assert one.look(1001 + GAP_MS) == "no tick for 10 s"
    one.seen()
    assert one.look(1002 + GAP_MS) is None
    desk.server.hset(names.WATCH, "run_id", "another")
    assert one.look(1003 + GAP_MS) == "another run of the server"


def test_a_standby_sees_what_the_leader_before_it_saw(desk: Desk) -> None:
    first, second = watch(desk), watch(desk, "b")
    first.look(1000)
    first.seen()
    assert second.look(2000) is None
    first.look(2001)
    assert second.look(50_000) is not None
    second.seen()
    first.seen()  # was paused in its tick
    assert second.look(50_001) is None


def test_a_server_restarted_or_emptied_within_the_tick_is_still_to_be_noticed(desk: Desk) -> None:
    one = watch(desk)
    one.look(1000)
    desk.server.hset(f"{names.WATCH}:a", "run_id", "the run that was looked at")
    one.seen()
    assert one.look(1001) == "another run of the server"
    desk.server.flushall()
    one.seen()
    assert one.look(1002) == "first tick"


def test_what_the_last_tick_saw_stays_and_what_a_lost_leader_looked_at_goes(desk: Desk) -> None:
    one = watch(desk)
    one.look(1000)
    assert 0 < desk.server.pttl(f"{names.WATCH}:a") <= 60_000
    one.seen()
    assert desk.server.pttl(names.WATCH) == -1
