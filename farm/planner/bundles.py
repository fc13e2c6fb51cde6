"""Where the kernels of a Celery-only job go: nowhere; its files are named by their bundles' paths in the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from farm.client.fetch import FilesByOperator
from farm.index.jobs import Holding
from farm.namespace import Namespace, bundle_path
from farm.store.bundle import unpack
from farm.store.store import Store


class BundlePaths:
    """Reads each bundle, so that nobody is told of a bad one, and unpacks none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def use(self, namespace: Namespace, keys: Sequence[bytes]) -> None:
        """Nothing lies on this node that somebody could remove."""

    def fetch(self, namespace: Namespace, held: Holding) -> dict[str, Path]:
        """The bundle's path, relative to the store's root, for each file that is in it."""
        record = held.record
        path = bundle_path(namespace, held.generation, held.key, record.token)
        bundle = unpack(self._store.get(path), key=held.key, sha256=record.sha256, stored_bytes=record.stored_bytes)
        return {file.name: Path(path) for file in bundle.files}

    def record(self, namespace: Namespace, job_id: str, incarnation: int, files: FilesByOperator) -> None:
        """The result says it."""

    def close(self) -> None:
        """Nothing is kept open."""
