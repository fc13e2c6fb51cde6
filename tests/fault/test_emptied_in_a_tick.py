"""The server is emptied while the leader is in the middle of a tick: the next one notices, whichever step it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.coordinator import purges, sweep
from farm.coordinator.watch import Watch
from tests.fault.test_ageing import led
from tests.support.kit import until


def once(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, happens: Callable[[], object]) -> None:
    """Something happens before the next call of a function, and not before later ones."""
    real = getattr(where, name)

    def function(*arguments: Any) -> Any:
        monkeypatch.setattr(where, name, real)
        happens()
        return real(*arguments)

    monkeypatch.setattr(where, name, function)


@pytest.mark.parametrize(("where", "name"), [(purges, "serve"), (sweep, "sweep"), (Watch, "seen")])
@pytest.mark.parametrize("first", [False, True], ids=["any tick", "a leader's first"])
def test_what_was_lost_within_a_tick_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, first: bool
) -> None:
    with led(tmp_path) as farm_:
        entries = set(farm_.put(1, 2, 3))
        farm_.tick(3)
        if first:
            farm_.connection.server.delete("opfarm:{farm}:watch")
            farm_.restart()
        once(monkeypatch, where, name, farm_.connection.server.flushall)
        farm_.tick()
        assert farm_.keys() == set()
        until(lambda: farm_.coordinator.tick() and farm_.keys() == entries, 10, "it is rebuilt")
