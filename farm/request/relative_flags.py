"""Flags of toolchain ``host`` that name a file or folder by a relative name: ``-Iinc``, ``-include config.h``.

Only includes written in the source are followed. What lies in such a folder would stay behind, and the worker's
compiler would miss it or, worse, find another header of that name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from farm.request.values import FieldError, join, shown

_NAMING = ("-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-I")


def check_relative_flags(flags: object, given: Iterable[str]) -> None:
    """Refuse a flag that names what the manifest does not give in ``source.files`` (``given``).

    Raises:
        FieldError: names the flag; the submitter lists its folder in source.include_dirs.
    """
    names = [os.path.normpath(name) for name in given]
    for at, flag, value in _relative(flags):
        place = os.path.normpath(value)
        if (place == "." and names) or any(name == place or name.startswith(f"{place}/") for name in names):
            continue
        raise FieldError(
            f"{shown(flag)} names {shown(value)}, which does not travel with the source",
            "list its folder in source.include_dirs, or write #include into the source",
            join("options.flags", at),
        )


def _relative(flags: object) -> Iterator[tuple[int, str, str]]:
    """Position, flag and value, joined to the flag or the next item; what is no list of texts is told elsewhere."""
    items = [str(flag) for flag in flags] if isinstance(flags, list | tuple) else []
    at = 0
    while at < len(items):
        begun, flag = at, next((name for name in _NAMING if items[at].startswith(name)), None)
        if flag is not None:
            value = items[at].removeprefix(flag)
            if not value:
                at += 1
                value = items[at] if at < len(items) else ""
            if value and not value.startswith(("/", "=", "$", "-", "@")):  # those have their own refusals
                yield begun, flag, value
        at += 1
