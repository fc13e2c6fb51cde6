"""What no test runs because it is long can at least be loaded: it breaks when what it imports is renamed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LONG = sorted(
    path.relative_to(TESTS.parent).with_suffix("").as_posix().replace("/", ".")
    for folder in ("bench", "soak", "e2e")
    for path in (TESTS / folder).glob("*.py")
)


@pytest.mark.parametrize("name", LONG)
def test_it_can_be_loaded(name: str) -> None:
    import_module(name)


def test_there_are_some() -> None:
    assert {"tests.bench.index", "tests.soak.soak", "tests.e2e.compose"} <= set(LONG)
