"""What a person is told once, however often the same process meets it."""

from __future__ import annotations

from collections.abc import Callable

_told: set[str] = set()


def say_once(say: Callable[[str], None], text: str) -> None:
    """Say it, unless this process has."""
    if text not in _told:
        _told.add(text)
        say(text)
