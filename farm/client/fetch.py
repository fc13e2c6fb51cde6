"""Brings bundles into the node's cache folder: one fetch a node, verified, unpacked; nothing when already right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from farm.client.folder import KernelFolder
from farm.client.nodeuse import NodeUse
from farm.failpoint import reach
from farm.index.jobs import Holding
from farm.namespace import Namespace, bundle_path
from farm.store.bundle import unpack
from farm.store.store import Store

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
                data = self._store.get(bundle_path(namespace, held.generation, held.key, record.token))
                reach("fetch.after_get")
                bundle = unpack(data, key=held.key, sha256=record.sha256, stored_bytes=record.stored_bytes)
                files = folder.unpack(bundle, record.sha256)
        return files

    def record(self, namespace: Namespace, job_id: str, incarnation: int, files: FilesByOperator) -> None:
        """``jobs/<job>.json`` beside the entries."""
        self.folder(namespace.soc).write_job(job_id, incarnation, files)

    def close(self) -> None:
        """The node's folders may be aged as far as this process is concerned."""
        self._use.close()
