"""The farm: one shared kernel cache for accelerator operators, and the client that asks it.

Names are loaded when they are first used: commands and helper processes need only a part of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farm.client.connect import Farm, connect
    from farm.client.job import Job
    from farm.client.results import Progress, Result
    from farm.errors import CompileFailed, FarmError, FarmRefused, FarmUnavailable, InputError
    from farm.request.manifest import load, parse
    from farm.request.model import Request

__all__ = [
    "CompileFailed",
    "Farm",
    "FarmError",
    "FarmRefused",
    "FarmUnavailable",
    "InputError",
    "Job",
    "Progress",
    "Request",
    "Result",
    "connect",
    "load",
    "parse",
]

_HOMES = {
    "farm.client.connect": ("Farm", "connect"),
    "farm.client.job": ("Job",),
    "farm.client.results": ("Progress", "Result"),
    "farm.errors": ("CompileFailed", "FarmError", "FarmRefused", "FarmUnavailable", "InputError"),
    "farm.request.manifest": ("load", "parse"),
    "farm.request.model": ("Request",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'farm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
