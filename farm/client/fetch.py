"""Brings bundles into the node's cache folder: one fetch a node, verified, unpacked; nothing when already right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from farm.client.folder import KernelFolder
from farm.client.nodeuse import NodeUse
from farm.failpoint import reach
from farm.index.jobs import Holding
from farm.index.record import Record
from farm.namespace import Namespace, bundle_path
from farm.store.bundle import unpack
from farm.store.errors import StoreMissing
from farm.store.store import Store

#: A bundle that was published so lately may not be visible on this node yet, and is waited for this long, once.
LATELY_SECONDS, VISIBLE_WITHIN_SECONDS = 60.0, 5.0
_LOOK_EVERY_SECONDS = 0.25

FilesByOperator = Mapping[str, Mapping[str, Path]]


class Delivery(Protocol):
    """Where a job's kernels go; safe to use from several threads."""

    def use(self, namespace: Namespace, keys: Sequence[bytes]) -> None:
        """Say that this process uses these entries; called before they are fetched."""

    def fetch(self, namespace: Namespace, held: Holding) -> Mapping[str, Path]:
        """The entry's files by name, verified.

        Raises:
            StoreMissing, StoreDamaged: the bundle is gone or bad: drop the entry, it is compiled again.
            FarmUnavailable: the store does not answer: try again.
        """

    def record(self, namespace: Namespace, job_id: str, incarnation: int, files: FilesByOperator) -> None:
        """Keep which files each operator has, for people and launchers."""

    def close(self) -> None:
        """Use none of them any more. Safe to repeat."""


class Fetcher:
    """Fetches from one store into one cache folder; safe to use from several threads and processes."""

    def __init__(self, store: Store, root: Path, min_idle_seconds: float, say: Callable[[str], None]) -> None:
        self._store = store
        self._root = root
        self._use = NodeUse(root, min_idle_seconds, say)
        #: Until when what is missing is looked for again; None: nothing was missing yet.
        self._visible_by: float | None = None

    def folder(self, soc: str) -> KernelFolder:
        """The part of the cache folder that holds the kernels of one processor type."""
        return KernelFolder(self._root, soc)

    def use(self, namespace: Namespace, keys: Sequence[bytes]) -> None:
        """Say that this process uses these entries; to be called before they are fetched."""
        self._use.begin(self.folder(namespace.soc).path, keys)

    def fetch(self, namespace: Namespace, held: Holding) -> Mapping[str, Path]:
        """The entry's files on this node, by name."""
        folder = self.folder(namespace.soc)
        record = held.record
        files = folder.present(held.key, record.sha256)
        if files is not None:
            self._use.hit(folder.path, held.key)
            return files
        with folder.lock(held.key):
            files = folder.present(held.key, record.sha256)
            if files is None:
                data = self._get(bundle_path(namespace, held.generation, held.key, record.token), record)
                reach("fetch.after_get")
                bundle = unpack(data, key=held.key, sha256=record.sha256, stored_bytes=record.stored_bytes)
                files = folder.unpack(bundle, record.sha256)
        return files

    def _get(self, path: str, record: Record) -> bytes:
        """A bundle's bytes; on some shared filesystems it appears on other nodes seconds after it was published."""
        while True:
            try:
                return self._store.get(path)
            except StoreMissing:
                if self._visible_by is None:
                    self._visible_by = time.monotonic() + VISIBLE_WITHIN_SECONDS
                published = record.token / 1_000_000 + record.compile_ms / 1000
                if time.monotonic() >= self._visible_by or time.time() - published > LATELY_SECONDS:
                    raise
                time.sleep(_LOOK_EVERY_SECONDS)

    def record(self, namespace: Namespace, job_id: str, incarnation: int, files: FilesByOperator) -> None:
        """``jobs/<job>.json`` beside the entries."""
        self.folder(namespace.soc).write_job(job_id, incarnation, files)

    def close(self) -> None:
        """The node's folders may be aged as far as this process is concerned."""
        self._use.close()
