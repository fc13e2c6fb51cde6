"""Ages a node's kernel folder of one processor type, by the rule of the shared cache (farm/policy/ageing.py).

<kernel_cache>/<soc>/.ageing/lock      held by the one process that ages; its time is read as the disk's clock
                             sizes     what each entry measures (sizes.py)
                             unaged    there as long as the limit is -1, when no use times are written
                             since     its time is when that ended; nobody counts as idle for longer

Only entries that the farm made count and go; never one that a live process of the node uses.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from farm.client import entry, inuse, nodelock, removal, sizes
from farm.client.localnames import as_text
from farm.client.ownfolder import own_folder
from farm.errors import FarmError
from farm.policy.ageing import Candidate, target, victims
from farm.policy.limits import Limits

FOLDER = ".ageing"
#: A job waits for this: others only append to a list meanwhile, and the next job tries again.
_PATIENCE_SECONDS = 1.0
#: Each may be large, and there is one for every job that ever ran here.
_JOB_FILES_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class Aged:
    """What was removed from the folder."""

    entries: int = 0
    bytes: int = 0


def age(folder: Path, read_limits: Callable[[], Limits], min_idle_seconds: float) -> Aged:
    """Remove what the limits in force want removed; nothing when they want nothing, or other processes are at it.

    Measured and removed by one process at a time, so that many at once remove no more than one. Safe to interrupt.
    What could not be done now is left to the next job.

    Args:
        read_limits: asked once more before anything is removed: somebody may be writing the file.

    Raises:
        FarmError: it can not be known what is in use, so nothing is aged; the folder's owner mends it.
        OSError: the disk refuses something.
    """
    own_folder(folder / FOLDER)
    limits = read_limits()
    if not limits.ageing:
        (folder / FOLDER / "unaged").touch()
        return Aged()
    _refuse_unsure(folder)
    lock = folder / FOLDER / "lock"
    with nodelock.hold(lock, patience_seconds=0) as inside:
        held = sizes.measure(folder, folder / FOLDER / "sizes") if inside else {}
        since_ms = _ageing_since_ms(folder / FOLDER) if inside else 0
        if not inside or target(sum(held.values()), limits) is None or read_limits() != limits:
            return Aged()
        idle_since_ms = _now_ms(lock) - round(min_idle_seconds * 1000)
        going = _victims(folder, held, limits, since_ms, idle_since_ms)
        gone = removal.remove(
            folder, going, idle_since_ms=idle_since_ms, patience_seconds=_PATIENCE_SECONDS,
            job_files_at_most=_JOB_FILES_AT_MOST,
        )  # fmt: skip
        removed: list[int] = []
        with suppress(removal.Busy):
            removed.extend(held[key.hex()] for key in gone)
    return Aged(len(removed), sum(removed))


def _refuse_unsure(folder: Path) -> None:
    if folder.stat().st_mode & stat.S_IWGRP:
        raise FarmError(
            f"kernels in {as_text(folder)} are not aged: its group may write there, and what other users' jobs use "
            "is not known",
            fix=f"chmod g-w {as_text(folder)}, and give each user a folder",
        )
    if not nodelock.work_in(folder / FOLDER):
        raise FarmError(
            f"kernels in {as_text(folder)} are not aged: file locks do not work there, so it is not known which are "
            "in use",
            fix="keep kernels on a local disk with --op-compiler-cache-dir or ASCEND_CACHE_PATH",
        )


def _victims(folder: Path, held: dict[str, int], limits: Limits, since_ms: int, idle_since_ms: int) -> list[bytes]:
    """The keys that go, in order; counts only what is there now and the farm's."""
    rows = list(_candidates(folder, held, since_ms))
    there_bytes = sum(row.stored_bytes for row in rows)
    target_bytes = target(there_bytes, limits)
    if target_bytes is None:
        return []
    used = inuse.look(folder).keys
    idle = (row for row in rows if row.key not in used)
    return [row.key for row in victims(idle, there_bytes, target_bytes, idle_since_ms)]


def _candidates(folder: Path, held: dict[str, int], since_ms: int) -> Iterator[Candidate]:
    for key, size in held.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            yield Candidate(bytes.fromhex(key), max(since_ms, entry.last_used_ms(folder / key)), size)


def _ageing_since_ms(ageing: Path) -> int:
    """When ageing was last switched on, or 0; whoever ages first after that sets it."""
    with suppress(FileNotFoundError):
        os.utime(ageing / "unaged")
        (ageing / "unaged").replace(ageing / "since")
    try:
        return (ageing / "since").stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _now_ms(lock: Path) -> int:
    """The clock by which this disk's times are written: a server's, where it is mounted from one."""
    os.utime(lock)
    return lock.stat().st_mtime_ns // 1_000_000
