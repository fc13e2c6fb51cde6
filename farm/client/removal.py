"""Takes entries out of a node's kernel folder: never one that a live process uses, never what the farm did not make.

An entry is renamed away while nobody can begin to use one, and deleted after that. So it is there as a whole or not at
all, also when the remover is killed: what it leaves is swept as other leftovers are (``staging.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm.client import entry, inuse, jobfile, nodelock, staging
from farm.client.localnames import as_text
from farm.client.ownfolder import folder_error
from farm.errors import FarmError
from farm.failpoint import reach

#: Entries that are put aside while those who want to use others wait; deleting them, which takes longer, comes after.
_AT_ONCE = 500


class Busy(FarmError):
    """Others kept saying what they use for so long that nobody could take entries away; later it will do."""


def remove(
    folder: Path, keys: Sequence[bytes], *, idle_since_ms: int | None = None,
    patience_seconds: float = nodelock.PATIENCE_SECONDS, job_files_at_most: int | None = None,
) -> Iterator[bytes]:  # fmt: skip
    """Remove entries of one processor type, but for those in use by now; yields the key of each that was removed.

    Args:
        folder: of the processor type, as ``KernelFolder.path``.
        idle_since_ms: leave those alone that were used later.
        patience_seconds: how long to wait for others to let us be alone.
        job_files_at_most: how many files of jobs are looked at, for those whose kernels are all gone; None: all.

    Raises:
        FarmError: it can not be known what is in use; nothing more is removed. Busy: not now.
    """
    for first in range(0, len(keys), _AT_ONCE):
        aside = _put_aside(folder, keys[first : first + _AT_ONCE], idle_since_ms, patience_seconds)
        reach("removal.put_aside")
        for key, path in aside:
            staging.remove(path)
            reach("removal.deleted_one")
            yield key
    if keys and (folder / "jobs").is_dir():
        jobfile.remove_finished(folder / "jobs", job_files_at_most)


def _put_aside(
    folder: Path, keys: Sequence[bytes], idle_since_ms: int | None, patience_seconds: float
) -> list[tuple[bytes, Path]]:
    """Rename entries away while nobody can begin to use one: whoever asks next finds none and fetches it."""
    aside = []
    with inuse.alone(folder, patience_seconds) as inside:
        use = inuse.look(folder)
        if not use.sure:
            raise FarmError(
                f"file locks do not work in {as_text(folder)}, so it is not known which kernels are in use",
                fix="stop the jobs of this node and remove the folder by hand, or keep kernels on a local disk",
            )
        if not inside:
            raise Busy(
                f"for {patience_seconds:g} s others were about to use kernels in {as_text(folder)}", fix="try again"
            )
        for key in keys:
            path, away = folder / key.hex(), staging.new_name(folder, key)
            if key not in use.keys and _renamed(path, away, idle_since_ms):
                aside.append((key, away))
    return aside


def _renamed(path: Path, away: Path, idle_since_ms: int | None) -> bool:
    try:
        if entry.is_ours(path) and (idle_since_ms is None or entry.last_used_ms(path) <= idle_since_ms):
            path.rename(away)
            return True
    except FileNotFoundError:
        pass  # somebody else removed it
    except OSError as error:
        raise folder_error(path, error) from None
    return False
