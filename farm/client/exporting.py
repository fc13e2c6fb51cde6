"""Writes entries of a farm into an archive. Looks only: nothing is pinned, no time of use changes.

What a job uses is pinned by that job and can not go; of a job's export we become a member, so that the job lasts as
long as it is read. What nobody uses may be aged while its namespace is read: the cache has lost it, and so has the
archive.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from farm.client.connection import Connection
from farm.client.livejob import LiveJob, unknown
from farm.client.part import Part
from farm.client.portions import portions
from farm.errors import FarmError, FarmRefused
from farm.index.index import Index
from farm.index.joblist import JobRow, held_keys
from farm.index.names import SCHEMA_VERSION
from farm.index.outcomes import Left
from farm.index.stats import EntryRow, list_entries, read_entries
from farm.namespace import PRIVATE_GENERATION, Namespace, bundle_path
from farm.request.key import KEY_SCHEMA_VERSION
from farm.store.archive import ArchiveWriter, Header
from farm.store.errors import StoreDamaged, StoreMissing

_READ_THREADS = 8
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A key that was wanted and is not in the archive; ``name`` is "" where there is no entry."""

    key: bytes
    name: str
    reason: str


@dataclass
class Exported:
    """One namespace's part of an archive."""

    namespace: Namespace
    generation: int
    entries: int = 0
    stored_bytes: int = 0
    passed_over: list[PassedOver] = field(default_factory=list)


@dataclass
class _Source:
    """A namespace, as it was when the export began, and the job whose entries are wanted if it is one's."""

    index: Index
    done: Exported
    part: Part | None = None
    run: str = ""

    def rows(self) -> Iterator[EntryRow]:
        """The entries that are wanted, each once."""
        seen: set[bytes] = set()
        found = self._of_job() if self.run else list_entries(self.index, None, self.done.generation)
        for row in found:
            if row.key not in seen:
                seen.add(row.key)
                yield row

    def _of_job(self) -> Iterator[EntryRow]:
        held = dict(self._shared())
        keys = [key for key, generation in held.items() if generation == self.done.generation]
        self._pass_over(held.keys() - set(keys), "it is of a generation that was purged")
        for at in range(0, len(keys), _CHUNK):
            chunk = keys[at : at + _CHUNK]
            there = read_entries(self.index, self.done.generation, chunk)
            self._pass_over(set(chunk) - {row.key for row in there}, "it is not compiled yet")
            yield from there

    def _shared(self) -> Iterator[tuple[bytes, int]]:
        held = held_keys(self.index, self.run)
        return ((key, generation) for generation, key in held if generation != PRIVATE_GENERATION)

    def _pass_over(self, keys: Iterable[bytes], reason: str) -> None:
        self.done.passed_over += [PassedOver(key, "", reason) for key in sorted(keys)]


class Exporting:
    """One export."""

    def __init__(
        self, connection: Connection, say: Callable[[str], None], progress: Callable[[int, int], None]
    ) -> None:
        """``progress`` is told entries and bytes after each portion."""
        self._connection = connection
        self._store = connection.store
        self._say = say
        self._progress = progress
        self._next_heartbeat = 0.0

    def run(self, indexes: Sequence[Index], file: BinaryIO, job: str | None = None) -> list[Exported]:
        """Write the shared entries of these namespaces' current generations, or what one live job holds of them.

        Raises:
            InputError: no such job lives.
            FarmError: a namespace was purged, or the job ended by somebody, while it was read; the file is no archive.
            FarmUnavailable: index or store do not answer.
            OSError: the file can not be written.
        """
        sources = [_Source(index, Exported(index.namespace, index.generation())) for index in indexes]
        if job is not None:
            sources = self._of_job(job, sources)
        writer = ArchiveWriter(file, self._header(source.done.namespace for source in sources))
        for source in sources:
            self._write(source, writer)
            for one in source.done.passed_over:
                self._say(f"passed over {one.name or source.done.namespace} ({one.key.hex()[:16]}): {one.reason}")
        writer.close()
        return [source.done for source in sources]

    def _of_job(self, job: str, sources: Iterable[_Source]) -> list[_Source]:
        """The job's part of the sources; we are a member of it from now on, and lapse with our lease.

        To leave would end a job that nobody else is a member of just now, as after ``submit --no-wait``.
        """
        live = LiveJob(self._connection, job, self._say)
        rows: dict[Namespace, JobRow] = {at: row for at, row in live.look().items() if row.lease_left_ms > 0}
        found = []
        for source in sources:
            if row := rows.get(source.index.namespace):
                source.part, source.run = live.part(source.index.namespace, row), row.run
                if isinstance(source.index.heartbeat(source.part.who), Left):
                    found.append(source)
        if not found:
            raise unknown(job)
        return found

    def _header(self, namespaces: Iterable[Namespace]) -> Header:
        identity = self._store.read_identity()
        if identity is None:
            raise FarmRefused(f"the store {self._store.url} has lost its identity", fix="mount the farm's store again")
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return Header(SCHEMA_VERSION, KEY_SCHEMA_VERSION, identity.farm_id, created, tuple(namespaces))

    def _write(self, source: _Source, writer: ArchiveWriter) -> None:
        done = source.done
        with ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="farm-export") as pool:
            for portion in portions(source.rows(), lambda row: row.record.stored_bytes):
                self._keep_alive(source)
                found = pool.map(partial(self._read, done.namespace), portion)
                for row, data in zip(portion, found, strict=True):
                    if isinstance(data, bytes):
                        writer.add(done.namespace, row.key, data)
                        done.entries += 1
                        done.stored_bytes += len(data)
                    else:
                        done.passed_over.append(PassedOver(row.key, row.record.name, data))
                self._check(source)
                self._progress(writer.entries, writer.stored_bytes)
        self._check(source)

    def _read(self, namespace: Namespace, row: EntryRow) -> bytes | str:
        """The bundle's bytes as they were published, or what is wrong."""
        try:
            data = self._store.get(bundle_path(namespace, row.generation, row.key, row.record.token))
        except StoreMissing:
            return "it has gone meanwhile"
        except StoreDamaged as error:
            return error.message
        if hashlib.sha256(data).digest() != row.record.sha256:
            return "its bytes differ from those that were published: see cache verify"
        return data

    def _keep_alive(self, source: _Source) -> None:
        if source.part and time.monotonic() >= self._next_heartbeat:
            source.part.heartbeat()
            self._next_heartbeat = time.monotonic() + self._connection.settings.heartbeat_seconds

    def _check(self, source: _Source) -> None:
        """Entries that a purge has retired are nobody's wish any more, also not at another site."""
        if source.index.generation() != source.done.generation:
            raise FarmError(
                f"namespace {source.done.namespace} was purged while it was exported", fix="export it again"
            )
