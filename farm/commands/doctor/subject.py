"""What is examined: the farm as this environment finds it. Each part is looked for once, when it is first wanted."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from redis.exceptions import RedisError

from farm.addresses import Addresses
from farm.client.connection import connect_index, greet, unavailable
from farm.errors import FarmError, InputError
from farm.index import names
from farm.index.index import Index
from farm.index.registry import Registry, Worker
from farm.namespace import Namespace
from farm.settings import Settings, variables
from farm.store.store import Store


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; ``fix`` says who does what about it."""

    ok: bool
    detail: str
    fix: str = ""


class NotExamined(FarmError):
    """A part that this check needs is not there; another check says why."""


class Subject:
    """One farm and this node. What can not be had is raised as an error of the farm, again and again."""

    def __init__(self, environ: Mapping[str, str], cache_dir: str | None = None) -> None:
        self.environ = environ
        self.cache_dir = cache_dir
        self.settings, self.complaints = _read_leniently(environ)

    @cached_property
    def _addresses(self) -> Addresses | FarmError:
        try:
            return Addresses.find(self.settings)
        except FarmError as error:
            return error

    @property
    def addresses(self) -> Addresses:
        """The URLs of the farm."""
        if isinstance(self._addresses, FarmError):
            raise self._addresses
        return self._addresses

    @property
    def index_url(self) -> str | None:
        """The index's URL, if one is known."""
        known = self._addresses
        return known.index_url if isinstance(known, Addresses) else self.settings.index_url

    @property
    def store_url(self) -> str | None:
        """The store's URL, if one is known."""
        known = self._addresses
        return known.store_url if isinstance(known, Addresses) else self.settings.store_url

    @cached_property
    def reached(self) -> tuple[Any, float] | FarmError:
        """A client of the server and the seconds it took to answer; or why it does not."""
        url = self.index_url
        try:
            greet(url or self.addresses.index_url)
            client = connect_index(url or self.addresses.index_url)
            client.ping()
            started = time.monotonic()
            client.ping()
            return client, time.monotonic() - started
        except FarmError as error:
            return error
        except (RedisError, OSError) as error:
            return unavailable(url or "", error)

    @property
    def server(self) -> Any:
        """The index's server."""
        if isinstance(self.reached, FarmError):
            raise NotExamined("not examined: the index server can not be reached", fix="mend check server first")
        return self.reached[0]

    @property
    def registry(self) -> Registry:
        """The farm's registry."""
        return Registry(self.server)

    @cached_property
    def workers(self) -> list[Worker]:
        """The workers that live."""
        return self.registry.workers()

    @property
    def indexes(self) -> list[Index]:
        """The index of each namespace."""
        found = sorted(Namespace.parse(name.decode()) for name in self.server.smembers(names.NAMESPACES))
        return [Index(self.server, namespace) for namespace in found]

    @cached_property
    def store(self) -> Store:
        """The store."""
        if self.store_url is None:
            raise NotExamined("not examined: no store is known", fix="mend checks settings and server first")
        return Store.open(self.store_url)


def _read_leniently(environ: Mapping[str, str]) -> tuple[Settings, list[InputError]]:
    """The settings without those that are wrong, and what is wrong with them."""
    values = {name: environ[name] for name in variables() if name in environ}
    complaints: list[InputError] = []
    while True:
        try:
            return Settings.read(values), complaints
        except InputError as error:
            complaints.append(error)
            named = [name for name in values if re.search(rf"\b{name}\b", error.message)]
            for name in named or list(values):
                del values[name]
