"""A rebuild by a real coordinator whose store goes away in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.coordinator.chores import ask_rebuild
from farm.errors import FarmUnavailable
from tests.fault.test_ageing import Led, led
from tests.support.led import objects


def rebuilt(farm_: Led) -> bool:
    asked, done = farm_.connection.server.hmget("opfarm:{farm}:chores", "rebuild_asked", "rebuild_done")
    return bool(asked == done)


def test_bundles_that_can_not_be_read_now_are_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with led(tmp_path) as farm_:
        keys = farm_.put(*[60] * 6)
        paths = objects(farm_.kit)
        for kind in ("e:1", "idle:1", "generations"):
            farm_.connection.server.delete(farm_.index().prefix + kind)
        farm_.connection.server.hdel(farm_.index().prefix + "meta", "bytes")

        def away(path: str) -> bytes:
            raise FarmUnavailable("store: gone")

        monkeypatch.setattr(farm_.connection.store, "get", away)
        ask_rebuild(farm_.connection.server)
        farm_.tick(5)
        assert not rebuilt(farm_)
        monkeypatch.undo()
        for _ in range(100):
            farm_.tick()
            if rebuilt(farm_):
                break
        assert farm_.keys() == set(keys)
        farm_.tick(5)  # the search for orphans comes next
        assert objects(farm_.kit) == paths
