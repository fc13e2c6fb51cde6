"""Profiles: named command lines of this worker, from the file that FARM_TOOLCHAINS_FILE names.

file ─ lines       read the TOML, say on which line something is wrong
tables ─ template  what a profile may hold, and the placeholders in its words
program            argv[0] and version: found and asked when the worker starts
toolchain          a profile as a toolchain: fingerprint, and the command for a request
"""

from __future__ import annotations

from collections.abc import Collection

from farm.settings import Settings
from workers.toolchains.profiles.file import ProfileError, read
from workers.toolchains.profiles.toolchain import make
from workers.toolchains.protocol import Toolchain

__all__ = ["find"]


def find(settings: Settings, reserved: Collection[str]) -> dict[str, Toolchain | str]:
    """The profiles by name, each a toolchain or the reason why it can not be used.

    Args:
        reserved: names of the other toolchains, which no profile may have.

    Raises:
        InputError: the file as a whole can not be read; the operator mends it.
    """
    if settings.toolchains_file is None:
        return {}
    file = read(settings.toolchains_file, reserved)
    found: dict[str, Toolchain | str] = {}
    for name, item in file.profiles.items():
        try:
            found[name] = item if isinstance(item, str) else make(file, name, item)
        except ProfileError as error:
            found[name] = str(error)
    return {name if name not in reserved else f"profile {name}": item for name, item in found.items()}
