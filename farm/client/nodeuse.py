"""What one member of a job uses on its node: said before it looks, marked when it ends, and aged at both ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.client import entry, localageing, locallimits
from farm.client.inuse import InUse
from farm.client.localnames import as_text
from farm.client.notices import say_once
from farm.errors import FarmError
from farm.policy.limits import MEGABYTE, Limits


class NodeUse:
    """One member's use of the kernel folders below one root. Its threads may share it; a forked child makes its own.

    Args:
        root: the ``kernel_cache`` folder.
        say: is told what was aged, and once what keeps a folder from being aged; no job fails for that.
    """

    def __init__(self, root: Path, min_idle_seconds: float, say: Callable[[str], None]) -> None:
        self._root = root
        self._min_idle_seconds = min_idle_seconds
        self._say = say
        self._in_use = InUse()
        self._folders: list[Path] = []
        self._marks = False

    def begin(self, folder: Path, keys: Sequence[bytes]) -> None:
        """Say that these entries are used, before they are looked for.

        The first time, the folder is aged after that, so that what this job is about to use is not among what goes.
        """
        self._in_use.add(folder, keys)
        if folder not in self._folders:
            self._folders.append(folder)
            locallimits.generate(self._root, self._say)
            self._age(folder)

    def hit(self, folder: Path, key: bytes) -> None:
        """An entry of this folder was there already."""
        if self._marks:
            entry.mark_used(folder / key.hex())

    def close(self) -> None:
        """Use nothing any more, and age each folder that was used. Safe to repeat."""
        if self._folders and self._limits().ageing:
            self._in_use.mark()
        self._in_use.close()
        while self._folders:
            self._age(self._folders.pop())

    def _limits(self) -> Limits:
        limits = locallimits.read(self._root, os.environ, self._say)
        self._marks = limits.ageing
        return limits

    def _age(self, folder: Path) -> None:
        try:
            aged = localageing.age(folder, self._limits, self._min_idle_seconds)
        except FarmError as error:
            say_once(self._say, str(error))
        except OSError as error:
            say_once(self._say, f"kernels in {as_text(folder)} could not be aged: {error.strerror}")
        else:
            if aged.entries:
                gone = f"{aged.entries} unused {'kernel' if aged.entries == 1 else 'kernels'}"
                size = f"{aged.bytes / MEGABYTE:.1f} MB"
                self._say(f"the kernel folder was full: removed {gone} ({size}) from {as_text(folder)}")
