"""Collects what a compile left: the declared files, all of them there, none of them empty."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from farm.store.bundle import BundleFile

#: More than any kernel; a compiler that writes more has gone wrong, and the worker holds it all in memory.
TOTAL_CAP_BYTES = 1 << 30


class BadOutputs(Exception):
    """The compiler said all is well, and what it left says otherwise."""


def collect(out: Path, patterns: Sequence[str]) -> tuple[BundleFile, ...]:
    """Read the files that match, by names relative to ``out``; links are not followed and never collected.

    A pattern is matched as a shell does (``*`` stays within a folder, ``**`` does not); one that matches a
    folder takes all that is in it.

    Raises:
        BadOutputs: a pattern matches nothing, a matching file is empty, or all are too large.
        OSError: the disk's own.
    """
    sizes = _regular_files(out)
    chosen: set[str] = set()
    for pattern in patterns:
        matching = {name for name in sizes if _matcher(pattern).fullmatch(name)}
        if not matching:
            left = ", ".join(sorted(sizes)[:5]) or "nothing"
            raise BadOutputs(f"it left no file that matches output {pattern!r} (it left: {left})")
        chosen |= matching
    if empty := sorted(name for name in chosen if sizes[name] == 0):
        raise BadOutputs(f"output {empty[0]!r} is empty")
    total_bytes = sum(sizes[name] for name in chosen)
    if total_bytes > TOTAL_CAP_BYTES:
        raise BadOutputs(f"its outputs have {total_bytes} bytes; at most {TOTAL_CAP_BYTES} are kept")
    return tuple(_read(out, name) for name in sorted(chosen))


def _regular_files(out: Path) -> dict[str, int]:
    """Sizes by relative name of everything below ``out`` that is really a file there."""
    sizes = {}
    for folder, _, names in os.walk(out):
        for name in names:
            path = Path(folder, name)
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                sizes[path.relative_to(out).as_posix()] = found.st_size
    return sizes


def _matcher(pattern: str) -> re.Pattern[str]:
    parts = pattern.strip("/").removeprefix("./").split("/")
    folders = "".join("(?:[^/]+/)*" if part == "**" else _glob(part) + "/" for part in parts[:-1])
    last = ".*" if parts[-1] == "**" else _glob(parts[-1])
    return re.compile(f"{folders}{last}(?:/.*)?", re.DOTALL)


def _glob(part: str) -> str:
    """One part of a pattern; ``*`` and ``?`` are special, brackets are not."""
    return re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _read(out: Path, name: str) -> BundleFile:
    path = out / name
    return BundleFile(name, 0o555 if path.lstat().st_mode & 0o100 else 0o444, path.read_bytes())
