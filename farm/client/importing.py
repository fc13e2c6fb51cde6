"""Brings the entries of an archive into a farm: verified, put into the store, adopted where there is none.

For each portion of the archive: those whose key has an entry are passed over; the others are read and verified; the
index gives each a fresh token, which is its place in the store and keeps the search for orphans away; they are put
there; ``land`` makes entries of them, unless somebody was faster. Killed in between, an import leaves objects without
entry, which the search collects when their places have lapsed; run again, it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, TypeVar

from farm.client.connection import Connection
from farm.client.link import Link
from farm.client.portions import portions
from farm.client.proof import Proof, prove_foreign
from farm.errors import FarmError, FarmUnavailable, InputError
from farm.failpoint import reach
from farm.index import names
from farm.index.index import Index
from farm.index.joblist import find_jobs, live_jobs
from farm.index.names import SCHEMA_VERSION
from farm.namespace import BundleId, Namespace
from farm.request.key import KEY_SCHEMA_VERSION
from farm.store.archive import ArchiveReader, BadMember, BrokenArchive, Header, Member

T = TypeVar("T")

#: A place is kept so long: a portion must be put meanwhile.
_PLACE_MS = 600_000
_TRIES = 3
_PUT_THREADS = 8
_JOBS_MAX = 100_000


@dataclass
class Imported:
    """What an import has done to one namespace."""

    index: Index
    #: Everything is adopted into this one, also when a purge retires it meanwhile.
    generation: int
    entries: int = 0
    stored_bytes: int = 0
    present: int = 0
    #: Keys that are being compiled here now.
    in_flight: int = 0


@dataclass
class Report:
    """What an import has done, complete or not."""

    namespaces: dict[Namespace, Imported] = field(default_factory=dict)
    #: Members that are not what they should be: name and why.
    damaged: list[BadMember] = field(default_factory=list)
    #: Imported entries by what compiled them: toolchain, fingerprint, version.
    toolchains: dict[tuple[str, str, str], int] = field(default_factory=dict)
    #: Those of them that this farm knows.
    known: set[tuple[str, str, str]] = field(default_factory=set)
    #: Why the rest of the archive was not read.
    stopped: FarmError | None = None


@dataclass(frozen=True)
class _Arrival:
    member: Member
    #: Of an input that can not go back; else it is read when it is known to be wanted.
    data: bytes | None


class Importing:
    """One import."""

    def __init__(
        self, connection: Connection, cache: str | None, say: Callable[[str], None],
        progress: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """``cache``: the one that takes all entries; None: each goes to the one that it came from."""
        self._connection = connection
        self._cache = cache
        self._link = Link(connection.addresses.index_url, connection.settings.reconnect_seconds, say)
        self._say = say
        self._progress = progress
        self._report = Report()

    def run(self, file: BinaryIO) -> Report:
        """Import what can be imported; safe to run again, and at the same time.

        Raises:
            InputError: the file is no archive, or one that this version can not use.
            FarmError: a live job was promised that nothing made before it serves it: nothing was imported.
            FarmUnavailable: index or store are gone for longer than the settings allow; what has landed stays.
        """
        reader = ArchiveReader(file)
        _check_versions(reader.header)
        for namespace in reader.header.namespaces:
            self._open(self._target(namespace))
        with ThreadPoolExecutor(_PUT_THREADS, thread_name_prefix="farm-import") as pool:
            for portion in portions(self._arrivals(reader), lambda one: one.member.size_bytes):
                by_namespace: dict[Namespace, list[_Arrival]] = {}
                for one in portion:
                    by_namespace.setdefault(self._target(one.member.namespace), []).append(one)
                for namespace, some in by_namespace.items():
                    self._bring(self._report.namespaces[namespace], some, reader, pool)
                if self._report.stopped:
                    break
                self._tell()
        offers = self._link.call(self._connection.registry.offers)
        there = {(offer.toolchain, offer.fingerprint) for offer in offers}
        self._report.known = {one for one in self._report.toolchains if one[:2] in there}
        return self._report

    def _target(self, namespace: Namespace) -> Namespace:
        return Namespace(self._cache or namespace.cache, namespace.soc)

    def _open(self, namespace: Namespace) -> None:
        """The generation comes first: a purge that is asked for after that is not answered with what we bring."""
        index = Index(self._connection.server, namespace)
        largest = self._connection.store.largest_generation(namespace)
        generation = self._link.call(partial(index.open, largest))
        self._link.call(partial(index.server.sadd, names.NAMESPACES, str(namespace)))
        jobs = self._link.call(lambda: find_jobs(index, live_jobs(index, _JOBS_MAX)))
        if forcing := sorted(job for job, row in jobs.items() if row.mode == "force"):
            raise FarmError(
                f"job {forcing[0]} lives in {namespace} with mode force: nothing made before it may serve it",
                fix="import when it has ended (celery -A farm job ls), or into another cache: --cache",
            )
        self._report.namespaces[namespace] = Imported(index, generation)

    def _arrivals(self, reader: ArchiveReader) -> Iterator[_Arrival]:
        """The members that may be bundles of ours, up to where the file is broken."""
        try:
            for member in reader.members():
                if isinstance(member, BadMember):
                    self._refuse(member)
                elif self._target(member.namespace) not in self._report.namespaces:
                    self._refuse(BadMember(member.name, "its namespace is not in the archive's own list"))
                else:
                    yield _Arrival(member, None if reader.can_go_back else reader.read(member))
        except BrokenArchive as error:
            self._report.stopped = BrokenArchive(f"the archive is broken: {error.message}", fix=_AGAIN)

    def _bring(self, done: Imported, arrivals: list[_Arrival], reader: ArchiveReader, pool: ThreadPoolExecutor) -> None:
        if self._link.call(done.index.generation) > done.generation:
            self._report.stopped = FarmError(
                f"namespace {done.index.namespace} was purged while it was imported",
                fix="import again if these entries shall serve those who ask after the purge",
            )
            return
        tokens = self._link.call(lambda: done.index.known_tokens(done.generation, [one.member.key for one in arrivals]))
        absent = [one for one, token in zip(arrivals, tokens, strict=True) if token is None]
        done.present += len(arrivals) - len(absent)
        proofs: dict[bytes, tuple[bytes, Proof]] = {}
        for one in absent:
            if one.member.key in proofs:
                done.present += 1
                continue
            data = reader.read(one.member) if one.data is None else one.data
            try:
                proofs[one.member.key] = (data, prove_foreign(data, one.member.key, done.index.namespace))
            except FarmError as error:
                self._refuse(BadMember(one.member.name, error.message))
        self._land(done, proofs, pool)

    def _land(self, done: Imported, proofs: dict[bytes, tuple[bytes, Proof]], pool: ThreadPoolExecutor) -> None:
        """Put bundles and make entries of them; those whose place lapsed meanwhile are put again at another."""
        index, tries = done.index, 0
        while proofs:
            keys, tries = list(proofs), tries + 1
            tokens = self._link.call(partial(index.reserve, done.generation, keys, _PLACE_MS))
            if not tokens or tries > _TRIES:
                raise FarmUnavailable(
                    f"{index.namespace}: bundles could not be made entries (the index has lost its data, or the store "
                    f"takes more than {_PLACE_MS // 60_000} minutes for a few of them)",
                    fix=_AGAIN,
                )
            places = [BundleId(done.generation, key, token) for key, token in zip(keys, tokens, strict=True)]
            paths = [place.path(index.namespace) for place in places]
            list(pool.map(self._connection.store.put, paths, [proofs[key][0] for key in keys]))
            reach("import.after_put")
            records = [replace(proofs[place.key][1].record, token=place.token) for place in places]
            landings = self._link.call(partial(index.land, list(zip(places, records, strict=True))))
            for key, landing in zip(keys, landings, strict=True):
                if landing != "refused":
                    self._count(done, landing, proofs.pop(key)[1])
        reach("import.after_portion")

    def _count(self, done: Imported, landing: str, proof: Proof) -> None:
        if landing == "claimed":
            done.in_flight += 1
        elif landing == "present":
            done.present += 1
        else:
            done.entries += 1
            done.stored_bytes += proof.record.stored_bytes
            made_by = (proof.request.toolchain, proof.fingerprint, proof.version)
            self._report.toolchains[made_by] = self._report.toolchains.get(made_by, 0) + 1

    def _refuse(self, member: BadMember) -> None:
        self._report.damaged.append(member)
        self._say(f"damaged: {member.name!r}: {member.reason}")

    def _tell(self) -> None:
        everywhere = self._report.namespaces.values()
        self._progress(
            sum(one.entries + one.present for one in everywhere), sum(one.stored_bytes for one in everywhere)
        )


_AGAIN = "import the whole file again: what has landed is kept, and it goes on from there"


def _check_versions(header: Header) -> None:
    ours, its = (SCHEMA_VERSION, KEY_SCHEMA_VERSION), (header.schema, header.key_schema)
    if its != ours:
        raise InputError(
            f"the archive's farm has schema {its[0]} and keys of version {its[1]}, this opfarm has {ours[0]} and "
            f"{ours[1]}: nothing in it would ever be found",
            fix="export from a farm of this opfarm version",
        )
