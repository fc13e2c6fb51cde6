"""A node's kernel folder: entries unpacked from bundles as plain files, whole or not at all.

<op_compiler_cache_dir>/kernel_cache/<soc>/<key>/...             the files of an entry, read-only
                                          <key>/.opfarm.json     what they must be; marks the farm's own
                                          jobs/<job>.json        operator -> files, for launch scripts
                                          .<key>.lock            held by who fetches the entry
                                          .<key>-<random>.tmp    an entry being unpacked
                                          .inuse/                which entries live processes use
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from farm.client import entry, inuse, jobfile, nodelock, staging
from farm.client.localnames import as_text, on_disk
from farm.client.ownfolder import folder_error, own_folder
from farm.client.swap import swap
from farm.errors import InputError
from farm.namespace import PART
from farm.store.bundle import Bundle

log = logging.getLogger(__name__)

#: Others may install the same entry between two steps of ours; they can not do so for ever.
_INSTALL_TRIES = 10


@cache
def _tidy_once(path: Path) -> None:
    """Reads the whole folder, so it is done once a process and not at every fetch."""
    staging.remove_strays(path)
    inuse.look(path)


class KernelFolder:
    """The entries of one processor type on this node; safe for any number of processes and threads at once.

    Args:
        root: the ``kernel_cache`` folder, as ``resolve_cache_dir`` returns it.
        soc: the processor type.

    Raises:
        InputError: the folder can not be used safely: a link, another user's, open to all, not writable.
    """

    def __init__(self, root: Path, soc: str) -> None:
        if not PART.fullmatch(soc):
            raise InputError(f"soc {soc!r} is not a valid name", fix="use letters, digits and . _ + -")
        self.path = root.absolute() / soc
        self._told_about_locks = False
        own_folder(root)
        own_folder(self.path)
        with self._disk_errors():
            _tidy_once(self.path)

    def present(self, key: bytes, sha256: bytes) -> dict[str, Path] | None:
        """Find the entry of a key if it holds exactly the bundle of that digest; reads every byte.

        Returns:
            File name to absolute path; None when it is to be fetched.
        """
        names = entry.is_right(self._entry(key), key, sha256)
        return None if names is None else self._paths(key, names)

    def unpack(self, bundle: Bundle, bundle_sha256: bytes) -> dict[str, Path]:
        """Make the entry's folder: all of its files at once, in place of an older or damaged one of the farm.

        Safe to repeat and to run in many processes; one that is killed leaves what was there before.

        Returns:
            File name to absolute path.

        Raises:
            InputError: something that the farm did not make is in the way; it is not touched.
            NodeDiskFull: the node's disk is full; nothing is left behind.
        """
        if (there := self.present(bundle.key, bundle_sha256)) is not None:
            return there
        with self._disk_errors():
            self._refuse_foreign(bundle.key)
            with staging.staging(self.path, bundle.key) as staged:
                entry.write(staged, bundle, bundle_sha256)
                self._install(staged, bundle.key, bundle_sha256)
        return self._paths(bundle.key, [file.name for file in bundle.files])

    @contextmanager
    def lock(self, key: bytes) -> Iterator[None]:
        """Be the only one on this node to fetch a key; look again with ``present`` once inside.

        Waits for a holder at most a minute, and not at all where the storage has no locks: what may then
        happen is a second fetch, never a wrong entry.
        """
        with nodelock.hold(staging.lock_name(self.path, key)) as held:
            if not held and not self._told_about_locks:
                self._told_about_locks = True
                log.warning("no file locks in %s: a node may fetch a bundle twice", as_text(self.path))
            yield

    def write_job(self, job_id: str, incarnation: int, operators: Mapping[str, Mapping[str, str | Path]]) -> Path:
        """Add operators to the job's file, beside what other members of the same incarnation wrote.

        The file changes in one step. That of an earlier incarnation is replaced, that of a later one stays.

        Returns:
            The file: ``{"job_id", "incarnation", "operators": {operator: {file name: absolute path}}}``.
        """
        folder = self.path / "jobs"
        own_folder(folder)
        with self._disk_errors():
            return jobfile.write(folder, job_id, incarnation, operators)

    def _install(self, staged: Path, key: bytes, bundle_sha256: bytes) -> None:
        final = self._entry(key)
        for _ in range(_INSTALL_TRIES):
            try:
                staged.rename(final)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            self._refuse_foreign(key)
            if self.present(key, bundle_sha256) is not None:
                return  # another process was faster
            aside = staging.new_name(self.path, key)
            try:
                swap(staged, final, aside)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
            finally:
                staging.remove(aside)
        raise InputError(
            f"entry {as_text(final)} is replaced again and again by other processes",
            fix="do not let programs other than the farm write there",
        )

    def _refuse_foreign(self, key: bytes) -> None:
        final = self._entry(key)
        try:
            ours = entry.is_ours(final)
        except FileNotFoundError:
            return
        if not ours:
            raise InputError(
                f"{as_text(final)} lies where an entry belongs and was not made by the farm; it was not touched",
                fix="move it away, or choose another folder with --op-compiler-cache-dir",
            )

    def _entry(self, key: bytes) -> Path:
        return self.path / key.hex()

    def _paths(self, key: bytes, names: list[str]) -> dict[str, Path]:
        return {name: self._entry(key) / on_disk(name) for name in names}

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise folder_error(self.path, error) from None
