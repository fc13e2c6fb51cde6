"""Why an operator is, or is not, in the cache: what there is of its key, and what the nearest entry has otherwise.

Only looks: joins no job, claims nothing, holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from farm.client.connection import Connection
from farm.client.toolchains import Toolchains, prepare
from farm.errors import FarmError, FarmUnavailable
from farm.index.index import Index
from farm.index.lookup import Near, Standing, near_entries, standings
from farm.index.registry import Offer
from farm.index.slots import tensor_slot
from farm.namespace import Namespace, bundle_path
from farm.request.key import Difference, explain, parts
from farm.request.model import Request
from farm.request.wire import unpack as unpack_request
from farm.store.bundle import unpack as unpack_bundle

#: Bundles that are read at most for one operator: of the nearest one some may be gone or bad.
_READ_MAX = 4
_REMEMBERED = 64
#: The parts of a key that say which compiler it is.
_COMPILER = ("toolchain", "compiler fingerprint")
_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Explanation:
    """One operator: its key and what there is of it, and the nearest entry with everything that differs."""

    name: str
    key: bytes
    standing: Standing
    #: Its own key when it is present; None when no entry has its type.
    nearest: bytes | None
    nearest_name: str
    #: ``here`` is the operator's, ``there`` the nearest entry's.
    differs: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """What an entry was made from, and by what."""

    request: Request
    toolchain: str
    version: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    key: bytes
    offer: Offer


class Explainer:
    """Explains operators as a new job of one cache would ask for them."""

    def __init__(self, connection: Connection, cache: str) -> None:
        self._connection = connection
        self._cache = cache
        self._made = lru_cache(_REMEMBERED)(self._read)

    def explain(self, requests: Sequence[Request]) -> list[Explanation]:
        """One explanation a request, in order.

        Raises:
            InputError: a request does not fit its toolchain: the submitter mends it.
        """
        toolchains = Toolchains(self._connection.registry, lambda read: read())
        toolchains.load(requests, 0, lambda text: None)
        found: list[Explanation | None] = [None] * len(requests)
        by_namespace: dict[Namespace, list[tuple[int, _Asked]]] = {}
        for at, request in enumerate(requests):
            offer = toolchains.preferred(request)
            asked = _Asked(*prepare(request, offer), offer)
            by_namespace.setdefault(Namespace(self._cache, request.soc), []).append((at, asked))
        for namespace, group in by_namespace.items():
            index = Index(self._connection.server, namespace)
            for (at, asked), standing in zip(group, standings(index, [one.key for _, one in group]), strict=True):
                found[at] = self._explanation(index, asked, standing)
        return [one for one in found if one is not None]

    def _explanation(self, index: Index, asked: _Asked, standing: Standing) -> Explanation:
        name, key = asked.request.name, asked.key
        if standing.state == "present":
            return Explanation(name, key, standing, key, name, ())
        found = self._nearest(index, asked)
        if found is None:
            return Explanation(name, key, standing, None, "", ())
        near, made = found
        return Explanation(name, key, standing, near.key, near.record.name, tuple(_differences(asked, made)))

    def _nearest(self, index: Index, asked: _Asked) -> tuple[Near, _Made] | None:
        """The entry of the type with the same tensors, else one of the operator's own name, else the latest."""
        request, slot = asked.request, tensor_slot(asked.request)
        entries = [near for near in near_entries(index, request.type, slot) if near.key != asked.key]
        for near in entries[:1]:
            made = self._made(index.namespace, near)
            if made and (made.request.inputs, made.request.outputs) == (request.inputs, request.outputs):
                return near, made

        def distance(near: Near) -> tuple[bool, bool, int]:
            record = near.record
            return record.name != request.name, record.toolchain != request.toolchain, -record.token

        for near in sorted(entries, key=distance)[:_READ_MAX]:
            if made := self._made(index.namespace, near):
                return near, made
        return None

    def _read(self, namespace: Namespace, near: Near) -> _Made | None:
        record = near.record
        path = bundle_path(namespace, near.generation, near.key, record.token)
        try:
            data = self._connection.store.get(path)
            bundle = unpack_bundle(data, key=near.key, sha256=record.sha256, stored_bytes=record.stored_bytes)
            request = unpack_request(bundle.request)
        except FarmUnavailable:
            raise
        except FarmError:
            return None  # gone or bad: whoever reads it for its kernels drops it
        about: dict[str, Any] = dict(bundle.provenance)
        return _Made(
            request,
            str(about.get("toolchain", record.toolchain)),
            str(about.get("version", "?")),
            str(about.get("fingerprint", "")),
        )


def _differences(asked: _Asked, made: _Made) -> Iterator[Difference]:
    """The parts of the keys that differ; a compiler by its version, and by its fingerprint only where that is alike."""
    here = parts(asked.request, asked.offer.fingerprint)
    there = parts(made.request, made.fingerprint)
    differs = explain(here, there)
    if any(one.part in _COMPILER for one in differs):
        ours = f"{asked.offer.toolchain} {asked.offer.version}"
        theirs = f"{made.toolchain} {made.version}"
        if ours == theirs:
            ours += f" (fingerprint {asked.offer.fingerprint[:_SHOWN_DIGITS]})"
            theirs += f" (fingerprint {made.fingerprint[:_SHOWN_DIGITS]})"
        yield Difference("toolchain", ours, theirs)
    yield from (one for one in differs if one.part not in _COMPILER)
