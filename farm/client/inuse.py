"""Which entries the live processes of this node use: a list of keys for each job's member, locked while it lives.

<kernel_cache>/<soc>/.inuse/<kernel>-<random>.keys     keys in hex, one a line
                            gate                       passed by many to add keys, alone to take entries away

The lock on a list ends with its process, however that ends; a list whose lock is free is dead and is removed. Of
lists made under another kernel (see staging) nothing is known for a day, so what they name counts as used. What a
dead list names was used until it is found.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from farm.client import entry, nodelock
from farm.client.localnames import as_text
from farm.client.ownfolder import own_folder
from farm.client.staging import FOREIGN_KERNEL_SECONDS, kernel
from farm.errors import FarmError

log = logging.getLogger(__name__)

FOLDER = ".inuse"
_GATE = "gate"
_NAME = re.compile(r"(?P<kernel>[0-9a-f]{8})-[0-9a-f]{16}\.keys")
_KEY = re.compile(rb"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class InUse:
    """The entries that one member of a job uses. Threads may share it; a forked child makes its own."""

    def __init__(self) -> None:
        self._lists: dict[Path, tuple[Path, int]] = {}
        self._noted: set[tuple[Path, bytes]] = set()
        self._lock = Lock()
        self._told = False

    def add(self, folder: Path, keys: Iterable[bytes]) -> None:
        """Say that these entries are used, before they are looked for; one append, safe to repeat.

        A disk that does not take the list costs a warning: the job itself needs none.
        """
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if (folder, key) not in self._noted]
            if not new:
                return
            try:
                own_folder(folder / FOLDER)
                with nodelock.gate(folder / FOLDER / _GATE, alone=False):
                    if folder not in self._lists:
                        self._lists[folder] = _make(folder / FOLDER)
                    _append(self._lists[folder][1], new)
            except (OSError, FarmError) as error:
                self._warn(folder, error)
            else:
                self._noted.update((folder, key) for key in new)

    def mark(self) -> None:
        """Note at each of these entries that it is used now."""
        with self._lock:
            noted = list(self._noted)
        for folder, key in noted:
            entry.mark_used(folder / key.hex())

    def close(self) -> None:
        """Use nothing any more. Safe to repeat."""
        with self._lock:
            for path, descriptor in self._lists.values():
                with suppress(OSError):
                    path.unlink()
                os.close(descriptor)
            self._lists.clear()
            self._noted.clear()

    def _warn(self, folder: Path, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("can not note in %s which kernels are in use (%s): do not clean it now", as_text(folder), error)


@dataclass(frozen=True, slots=True)
class Use:
    """The keys in use in a folder; when not ``sure``, locks do not work there and there may be more."""

    keys: frozenset[bytes]
    sure: bool


def look(folder: Path) -> Use:
    """What live processes use in the kernel folder of a processor type; dead lists are removed on the way."""
    lists = folder / FOLDER
    keys: set[bytes] = set()
    try:
        sure = not lists.is_dir() or nodelock.work_in(lists)
        for path in _lists_in(lists):
            keys.update(_keys_of(path, locks_work=sure))
    except OSError as error:
        log.warning("can not read %s: %s", as_text(lists), error.strerror)
        sure = False
    return Use(frozenset(keys), sure)


def peek(folder: Path) -> frozenset[bytes]:
    """As ``look``, for a list that people read: nothing is written or removed, so no right to write is needed."""
    keys: set[bytes] = set()
    try:
        for path in _lists_in(folder / FOLDER):
            keys.update(_keys_of(path, locks_work=_locks_work_on(path), tidy=False))
    except OSError as error:
        log.warning("can not read %s: %s", as_text(folder / FOLDER), error.strerror)
    return frozenset(keys)


@contextmanager
def alone(folder: Path, patience_seconds: float = nodelock.PATIENCE_SECONDS) -> Iterator[bool]:
    """Keep others from adding to what they use, as long as entries are taken away. Yields whether that worked."""
    own_folder(folder / FOLDER)
    with nodelock.gate(folder / FOLDER / _GATE, alone=True, patience_seconds=patience_seconds) as inside:
        yield inside


def _make(lists: Path) -> tuple[Path, int]:
    while True:
        path = lists / f"{kernel()}-{secrets.token_hex(8)}.keys"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o640)
        # Whoever took it for dead between the two steps has removed it.
        if nodelock.try_lock(descriptor) is not False and nodelock.still_there(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _append(descriptor: int, keys: Iterable[bytes]) -> None:
    """The line feed in front ends a line of an append that failed half-way."""
    rest = memoryview(b"".join(b"\n" + key.hex().encode() for key in keys) + b"\n")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _lists_in(lists: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError), os.scandir(lists) as rows:
        yield from [lists / row.name for row in rows if _NAME.fullmatch(row.name)]


def _locks_work_on(path: Path) -> bool:
    """Whether the lock of a list keeps others out, tried with the list itself: somebody has it, or we get it once."""
    descriptors: list[int] = []
    try:
        for _ in range(2):
            descriptors.append(os.open(path, _READ))
        locked = nodelock.try_lock(descriptors[0])
        return locked is False or (locked is True and nodelock.try_lock(descriptors[1]) is False)
    except FileNotFoundError:
        return False  # closed a moment ago
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _keys_of(path: Path, locks_work: bool, tidy: bool = True) -> list[bytes]:
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return []  # closed a moment ago
    with os.fdopen(descriptor, "rb") as file:
        dead = locks_work and _is_dead(path, descriptor)
        keys = [line.decode() for line in file.read().splitlines() if _KEY.fullmatch(line)]
        if not dead:
            return [bytes.fromhex(key) for key in keys]
        if tidy:
            _remove(path, keys)
        return []


def _remove(path: Path, keys: Iterable[str]) -> None:
    for key in keys:
        entry.mark_used(path.parent.parent / key)
    with suppress(OSError):
        path.unlink()


def _is_dead(path: Path, descriptor: int) -> bool:
    """Whether nobody uses the list any more; its lock is then ours, so its maker can not begin to."""
    if not nodelock.try_lock(descriptor) or not nodelock.still_there(path, descriptor):
        return False
    found = _NAME.fullmatch(path.name)
    if found and found["kernel"] == kernel():
        return True
    return time.time() - os.fstat(descriptor).st_mtime > FOREIGN_KERNEL_SECONDS
