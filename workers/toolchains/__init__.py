"""Toolchains: what turns a request into kernels on this machine, and how they are found.

Adding one is a module with a ``find`` and a row in ``_FINDERS``; profiles come from a file of the operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from farm.settings import Settings
from workers.toolchains import command, cuda, host, profiles
from workers.toolchains.protocol import Command, Toolchain

__all__ = ["Command", "Found", "Toolchain", "find"]

_FINDERS: Mapping[str, Callable[[Settings], Toolchain | str]] = {
    "host": host.find,
    "cuda": cuda.find,
    "command": command.find,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What this worker can compile with, and why it can not with the rest."""

    toolchains: tuple[Toolchain, ...]
    missing: Mapping[str, str]


def find(settings: Settings) -> Found:
    """Look for every toolchain on this machine; takes a second or two, as compilers are hashed.

    Raises:
        InputError: the file of profiles can not be read as a whole; the operator mends it.
    """
    named = profiles.find(settings, reserved=_FINDERS.keys())
    found: dict[str, Toolchain | str] = {name: finder(settings) for name, finder in _FINDERS.items()} | named
    return Found(
        toolchains=tuple(item for item in found.values() if not isinstance(item, str)),
        missing={name: item for name, item in found.items() if isinstance(item, str)},
    )
