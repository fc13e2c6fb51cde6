"""Ageing by Ascend's rule, by real coordinators over real entries; times of use are put into the index."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import farm
from farm.coordinator import age
from farm.coordinator.loop import Coordinator
from farm.index.index import Index
from farm.index.stats import read_stats
from farm.namespace import Namespace
from farm.policy.limits import MEGABYTE
from farm.request.wire import pack as pack_request
from tests.support.kit import Kit, op, running, until
from tests.support.led import SHORT, SHORT_SETTINGS, assert_clean, log_of, objects, put_bundles, start_leader
from tests.unit.workers.requests import shell

MINUTE = 60_000
#: Bytes of one entry's file: ten are a little more than 1 MB.
TENTH = MEGABYTE // 10
NEVER = "[op_compiler_cache]\nmax_op_cache_size=-1\nremain_cache_size_ratio=50\n"


class Silent:
    """No messages are sent, none wait."""

    def send(self, namespace: Namespace, queue: str, count: int) -> None:
        pass

    def is_drained(self, queue: str) -> bool:
        return False


class Led:
    """A farm with a coordinator in this process, which ticks when it is told to."""

    def __init__(self, kit: Kit, environ: dict[str, str], **settings: object) -> None:
        self.kit = kit
        self.environ = environ
        self.connection = kit.farm(**SHORT_SETTINGS | settings).connection
        self.coordinator = Coordinator(self.connection, Silent(), environ)  # type: ignore[arg-type]
        self.tick()  # the first finds nothing: no reason to hold
        self.request = pack_request(shell(""), lambda blob: True)

    def restart(self, **environ: str) -> None:
        """With other limits."""
        self.coordinator = Coordinator(self.connection, Silent(), self.environ | environ)  # type: ignore[arg-type]
        self.connection.server.delete("opfarm:{farm}:leader")

    def put(
        self, *idle_minutes: float, soc: str = "test-soc", size_bytes: int = TENTH, cache: str = "default"
    ) -> list[bytes]:
        """Entries that nobody has used for so long."""
        index = self.index(soc, cache)
        rows = [(secrets.token_bytes(32), self.request) for _ in idle_minutes]
        found = put_bundles(self.kit, rows, size_bytes, soc=soc, cache=cache)
        now_ms = round(time.time() * 1000)
        for at, minutes in zip(found, idle_minutes, strict=True):
            self.connection.server.zadd(f"{index.prefix}idle:1", {at.key: now_ms - round(minutes * MINUTE)})
        return [at.key for at in found]

    def index(self, soc: str = "test-soc", cache: str = "default") -> Index:
        return Index(self.connection.server, Namespace(cache, soc))

    def keys(self, soc: str = "test-soc", cache: str = "default") -> set[bytes]:
        return {key for chunk in self.index(soc, cache).entries() for _, key, _ in chunk}

    def ini(self, text: str, cache: str = "default") -> Path:
        """Somebody edits the cache's op_cache.ini."""
        path = self.kit.store / cache / "op_cache.ini"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def origin(self) -> str:
        """Where the limits in force come from, as stats tell."""
        return read_stats(self.index()).limits.origin

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.coordinator.tick()


@contextmanager
def led(tmp_path: Path, size_mb: str = "1", ratio: str = "50", **settings: object) -> Iterator[Led]:
    kit = Kit(tmp_path)
    try:
        kit.start_server()
        yield Led(kit, {"ASCEND_MAX_OP_CACHE_SIZE": size_mb, "ASCEND_REMAIN_CACHE_SIZE_RATIO": ratio}, **settings)
    finally:
        kit.close()


def test_over_the_limit_and_all_used_of_late_nothing_goes_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with led(tmp_path) as farm_:
        keys = farm_.put(*[10] * 12)
        farm_.tick(5)
        assert farm_.keys() == set(keys)
        warnings = [record for record in caplog.records if "above the limit" in record.message]
        assert len(warnings) == 1
        assert "1800 s" in warnings[0].message


def test_under_the_limit_all_may_be_idle_for_days(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        keys = farm_.put(*[3 * 1440] * 9)
        farm_.tick(3)
        assert farm_.keys() == set(keys)


def test_the_oldest_go_until_the_target_and_not_one_more(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        keys = farm_.put(*[31 + 10 * n for n in range(9)], 29, 1)
        size = farm_.index().stored_bytes() // 11
        farm_.tick(3)
        # Above 1 MB by eleven tenths; at most half of it stays.
        stays = MEGABYTE // 2 // size
        expected = {*keys[: stays - 2], *keys[9:]}
        assert farm_.keys() == expected
        assert farm_.index().stored_bytes() <= MEGABYTE // 2 < farm_.index().stored_bytes() + size
        # Refused until the next time that the limit is reached.
        farm_.put(50)
        farm_.tick(2)
        assert len(farm_.keys()) == stays + 1


def test_exactly_30_minutes_goes(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        keys = farm_.put(30, *[29.5] * 11)
        farm_.tick()
        assert farm_.keys() == set(keys[1:])


def test_one_soc_over_and_another_under(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        farm_.put(*[60] * 12)
        under = farm_.put(*[9000] * 9, soc="other-soc")
        farm_.tick(2)
        assert len(farm_.keys()) < 6
        assert farm_.keys("other-soc") == set(under)


@pytest.mark.parametrize(("ratio", "left"), [("1", 0), ("100", 9)])
def test_ratios_1_and_100(tmp_path: Path, ratio: str, left: int) -> None:
    with led(tmp_path, ratio=ratio) as farm_:
        farm_.put(*[60] * 12)
        farm_.tick(2)
        assert len(farm_.keys()) == left


def test_minus_1_ages_nothing_and_back_from_it_all_have_30_minutes(tmp_path: Path) -> None:
    with led(tmp_path, size_mb="-1") as farm_:
        keys = farm_.put(*[600] * 12)
        farm_.tick(2)
        index = farm_.index()
        assert farm_.connection.server.hget(f"{index.prefix}meta", "ageing") == b"0"
        farm_.restart(ASCEND_MAX_OP_CACHE_SIZE="1")
        farm_.tick(2)
        assert farm_.keys() == set(keys)
        since = int(farm_.connection.server.hget(f"{index.prefix}meta", "ageing_since"))
        farm_.connection.server.hset(f"{index.prefix}meta", "ageing_since", since - 30 * MINUTE)
        farm_.tick(2)
        assert len(farm_.keys()) < 6


def test_a_pass_of_many_ticks_goes_on_to_the_target_under_another_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.coordinator.age.CHUNK", 1)
    monkeypatch.setattr("farm.coordinator.age.CALLS_A_TICK", 3)
    with led(tmp_path) as farm_:
        farm_.put(*[60] * 12)
        farm_.tick()
        assert len(farm_.keys()) == 9
        farm_.restart()
        farm_.tick(4)
        assert farm_.index().stored_bytes() <= MEGABYTE // 2


def test_the_farms_limit_takes_the_oldest_of_all_namespaces(tmp_path: Path) -> None:
    with led(tmp_path, size_mb="5", max_total_size_mb=1, remain_total_size_ratio=50) as farm_:
        one = farm_.put(*[40 + 20 * n for n in range(6)])
        two = farm_.put(*[50 + 20 * n for n in range(6)], soc="other-soc")
        farm_.tick(3)
        left = [key for pair in zip(one, two, strict=True) for key in pair]
        kept = farm_.keys() | farm_.keys("other-soc")
        assert 3 < len(kept) < 6
        assert kept == set(left[: len(kept)])
        assert sum(farm_.index(soc).stored_bytes() for soc in ("test-soc", "other-soc")) <= MEGABYTE // 2


class Lost(Exception):
    """The leader is gone."""


def test_the_farms_limit_is_kept_by_the_next_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(name: str) -> None:
        if name == "age_all.after_evict":
            raise Lost

    with led(tmp_path, size_mb="5", max_total_size_mb=1, remain_total_size_ratio=50) as farm_:
        farm_.put(*[60] * 12)
        with monkeypatch.context() as patch:
            patch.setattr(age, "reach", lost)
            patch.setattr(age, "CHUNK", 2)
            with pytest.raises(Lost):
                farm_.coordinator.tick()
        assert len(farm_.keys()) == 10
        assert farm_.index().stored_bytes() < MEGABYTE + TENTH  # below the limit, not yet at the target
        farm_.restart()
        farm_.tick()
        assert farm_.index().stored_bytes() <= MEGABYTE // 2


def test_while_all_is_held_nothing_goes_and_nothing_is_said_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with led(tmp_path) as farm_:
        farm_.put(*[60] * 12)
        farm_.index().hold(400, 400)
        farm_.tick(3)
        assert len(farm_.keys()) == 12
        assert "above the limit" not in caplog.text
        until(lambda: farm_.coordinator.tick() and len(farm_.keys()) < 12, 5, "the hold is over")


def test_the_farms_limit_spares_a_cache_that_is_never_aged(tmp_path: Path) -> None:
    with led(tmp_path, size_mb="5", max_total_size_mb=1, remain_total_size_ratio=50) as farm_:
        farm_.ini(NEVER, cache="models")
        never = farm_.put(*[900] * 8, cache="models")
        aged = farm_.put(*[60] * 8)
        farm_.tick(2)
        assert farm_.keys(cache="models") == set(never)
        assert farm_.keys() == set(aged)  # what counts is below the limit
        farm_.put(*[60] * 4)
        farm_.tick(2)
        assert farm_.keys(cache="models") == set(never)
        assert len(farm_.keys()) < 6


def test_the_command_ages_by_the_coordinators_idle_time(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        farm_.put(*[10] * 12)
        farm_.tick()
        done = farm_.kit.celery("cache", "age", "--json", FARM_MIN_IDLE_SECONDS="0")
        (row,) = json.loads(done.stdout)["namespaces"]
        assert (row["evicted"], row["target_bytes"] is None) == (0, False)
        farm_.ini("[op_compiler_cache]\nmax_op_cache_size=1,5\nremain_cache_size_ratio=50\n")
        farm_.tick(2)
        assert "line 2: '1,5'" in farm_.kit.celery("cache", "stats").stderr
        checks = json.loads(farm_.kit.celery("doctor", "--json").stdout)["checks"]
        assert [row["ok"] for row in checks if row["name"] == "limits"] == [False]


def test_op_cache_ini_is_made_and_sets_nothing(tmp_path: Path) -> None:
    with led(tmp_path, size_mb="5") as farm_:
        farm_.put(60)
        farm_.tick()
        path = farm_.kit.store / "default" / "op_cache.ini"
        assert "#max_op_cache_size=500" in path.read_text()
        assert path.stat().st_mode & 0o770 == 0o640
        farm_.tick()
        assert farm_.origin() == "environment"
        assert read_stats(farm_.index()).limits.limit_bytes == 5 * MEGABYTE


def test_op_cache_ini_beats_the_environment_as_soon_as_it_is_edited(tmp_path: Path) -> None:
    with led(tmp_path, size_mb="5") as farm_:
        farm_.put(*[60] * 12)
        farm_.tick()
        assert len(farm_.keys()) == 12
        path = farm_.ini("[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=50\n")
        farm_.tick(2)
        assert farm_.origin() == "op_cache.ini"
        assert len(farm_.keys()) == 4
        path.write_text("")  # as an editor does before it writes the new text
        farm_.tick()
        assert farm_.origin() == "op_cache.ini"
        path.unlink()
        farm_.tick(2)
        assert farm_.origin() == "environment"


FAULTS = {
    "[op_compiler_cache]\nmax_op_cache_size=80%\nremain_cache_size_ratio=50\n": "line 2: '80%'",
    "[op_compiler_cache]\n" + "x" * 2**20: "at most 65536 are read",
    "": "is no file",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_faulty_op_cache_ini_is_told_once_and_sets_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with led(tmp_path, size_mb="5") as farm_:
        farm_.put(60)
        if text:
            farm_.ini(text)
        else:
            (farm_.kit.store / "default" / "op_cache.ini").mkdir(parents=True)
        farm_.tick(3)
        assert farm_.origin() == "environment"
        told = [record.message for record in caplog.records if "op_cache.ini" in record.message]
        assert len(told) == 1, told
        assert FAULTS[text] in told[0]


def test_a_publish_that_crosses_the_limit_calls_the_coordinator_at_once(tmp_path: Path) -> None:
    with led(tmp_path) as farm_:
        index = farm_.index()
        farm_.put(*[60] * 2)
        farm_.tick()
        calls = farm_.connection.server.pubsub(ignore_subscribe_messages=True)
        calls.subscribe("opfarm:wake")
        calls.get_message(timeout=1)
        limit = farm_.connection.server.hget(f"{index.prefix}meta", "limit_bytes")
        from tests.lua.world import record_of

        def publish(stored_bytes: int) -> None:
            from farm.index.jobs import Member, Want, as_member

            who = as_member(member := Member("j", "m", "enable", 1, b"{}", 60_000), index.join(member))  # type: ignore[arg-type]
            index.claim(who, [Want(secrets.token_bytes(32), b"r", "q")], secrets.token_hex(4))
            taken = index.take("q", "w", secrets.token_hex(4), 60_000)
            index.publish(taken.claim, record_of(taken.claim.token, stored_bytes))  # type: ignore[union-attr]

        publish(1000)
        assert calls.get_message(timeout=0.2) is None
        publish(int(limit))
        assert calls.get_message(timeout=2) is not None
        publish(1000)
        assert calls.get_message(timeout=0.2) is None
        calls.close()


def test_a_working_set_above_the_limit_compiles_and_is_shown_once(tmp_path: Path) -> None:
    limits = {"ASCEND_MAX_OP_CACHE_SIZE": "1", "FARM_MIN_IDLE_SECONDS": "0"}
    with running(tmp_path, **SHORT, **limits) as kit:
        leader = start_leader(kit)
        told = {"files": {"kernel.o": 3 * TENTH}, "noise": True}
        requests = farm.load(str(kit.manifest(*[op(kit, f"op{n}", **told) for n in range(5)])))
        first = kit.job(job_id="first", **SHORT_SETTINGS)
        assert [one.outcome for one in first.compile(requests)] == ["compiled"] * 5
        until(lambda: "above the limit" in log_of(kit, leader), 10, "it is shown")
        more = farm.load(str(kit.manifest(op(kit, "more", **told))))
        assert first.compile(more)[0].outcome == "compiled"
        shown = read_stats(kit.index())
        assert (shown.entries, shown.pinned_entries) == (6, 6)
        assert shown.stored_bytes > 1.7 * MEGABYTE > shown.limits.limit_bytes == MEGABYTE
        assert [one.outcome for one in first.compile(requests)] == ["hit"] * 5
        assert log_of(kit, leader).count("above the limit") == 1
        first.close()
        until(lambda: kit.index().stored_bytes() <= MEGABYTE // 2, 10, "when it is used no more, it is aged")
        assert read_stats(kit.index()).entries == 1
        assert_clean(kit)


def test_a_store_that_is_away_stops_only_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from farm.errors import FarmUnavailable

    with led(tmp_path, ratio="1") as farm_:
        farm_.put(*[60] * 12)

        def away(path: str) -> None:
            raise FarmUnavailable("store: gone")

        monkeypatch.setattr(farm_.connection.store, "delete", away)
        farm_.tick()
        assert len(farm_.keys()) == 0
        time.sleep(1.1)
        farm_.tick(3)
        assert len([record for record in caplog.records if "can not sweep" in record.message]) == 1
        assert farm_.connection.server.hget("opfarm:{farm}:watch", "tick_ms") is not None
        assert len(objects(farm_.kit)) == 12
        monkeypatch.undo()
        farm_.tick(2)
        assert objects(farm_.kit) == set()
    assert threading.active_count() < 30
