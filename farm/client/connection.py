"""Connects to a farm and checks that it may be used: clients and workers alike."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError
from redis.retry import Retry

from farm.addresses import Addresses
from farm.errors import FarmRefused, FarmUnavailable, InputError
from farm.index import identity, names
from farm.index.identity import Identity
from farm.index.names import SCHEMA_VERSION
from farm.index.registry import Registry
from farm.namespace import Namespace
from farm.settings import Settings
from farm.store.objects import folder_of
from farm.store.store import FarmIdentity, Store

CONNECT_TIMEOUT_SECONDS = 2
CALL_TIMEOUT_SECONDS = 5
#: The first answer of a server; one that hangs is told of in less than 5 s.
_GREETING_TIMEOUT_SECONDS = 3


@dataclass(frozen=True)
class Connection:
    """The parts of a farm that was found in order."""

    settings: Settings
    addresses: Addresses
    #: redis.Redis; its own types can not say that replies are bytes.
    server: Any
    store: Store
    registry: Registry

    def namespaces(self) -> list[Namespace]:
        """All namespaces that were ever opened, in order."""
        return sorted(Namespace.parse(name.decode()) for name in self.server.smembers(names.NAMESPACES))


def connect_index(url: str, call_timeout_seconds: float = CALL_TIMEOUT_SECONDS, retries: int = 1) -> redis.Redis:
    """A client of the index's server that gives up within seconds; its calls are sent again by their callers.

    Raises:
        InputError: the URL has no form that is understood.
    """
    try:
        return redis.Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
            socket_timeout=call_timeout_seconds,
            retry=Retry(NoBackoff(), retries),
            health_check_interval=30,
        )
    except ValueError as error:
        raise InputError(
            f"FARM_INDEX_URL {public(url)!r}: {error}",
            fix="use redis://host:6379/0, rediss://host:6379/0 or unix:///path/socket?db=0",
        ) from None


def greet(url: str) -> None:
    """Have the server answer once.

    Raises:
        redis.exceptions.RedisError: it does not, for some seconds.
        InputError: the URL has no form that is understood.
    """
    with connect_index(url, _GREETING_TIMEOUT_SECONDS, retries=0) as client:
        client.ping()


def unavailable(url: str, error: Exception) -> FarmUnavailable | FarmRefused:
    """What a user is told when the index's server does not answer, or not us."""
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return FarmRefused(
            f"the index server {public(url)} refuses this user: {error}",
            fix="put the right user and password into FARM_INDEX_URL",
        )
    return FarmUnavailable(
        f"the index server {public(url)} does not answer: {error}",
        fix="start it (the embedded farm: celery -A farm up), or correct FARM_INDEX_URL",
    )


def public(url: str) -> str:
    """A URL without the password in it, to be shown."""
    head, at, tail = url.rpartition("@")
    return f"{head.split('://')[0]}://***@{tail}" if at else url


def open_connection(settings: Settings) -> Connection:
    """Find the farm, connect to it and check it, in a few seconds at most.

    Raises:
        FarmUnavailable: index or store do not answer: address, cause and fix.
        FarmRefused: an evicting server, another farm's store, another schema: the operator mends it.
        InputError: the settings are wrong.
    """
    addresses = Addresses.find(settings)
    server = connect_index(addresses.index_url)
    try:
        greet(addresses.index_url)
        identity.check_policy(server, public(addresses.index_url))
        _check_there(addresses.store_url, identity.read(server))
        store = Store.open(addresses.store_url)
        _agree(server, store, addresses)
    except RedisError as error:
        raise unavailable(addresses.index_url, error) from None
    return Connection(settings, addresses, server, store, Registry(server))


def _check_there(store_url: str, of_index: Identity | None) -> None:
    """The folder of a farm that lives is never made anew: it is not mounted here, or misspelt."""
    folder = folder_of(store_url)
    if of_index is not None and folder is not None and not folder.is_dir():
        raise FarmRefused(
            f"the store {store_url} is not there, but the index knows farm {of_index.farm_id}",
            fix="mount the farm's store there, or correct FARM_STORE_URL",
        )


def _agree(server: redis.Redis, store: Store, addresses: Addresses) -> None:
    """Index and store must belong to one farm. The store is named first, so an index without one lost it."""
    of_store, of_index = store.read_identity(), identity.read(server)
    check_identities(of_store, of_index, addresses)
    of_store = of_store or store.write_identity(FarmIdentity(secrets.token_hex(8), SCHEMA_VERSION))
    of_index = of_index or identity.write(server, Identity(of_store.farm_id, of_store.schema))
    check_identities(of_store, of_index, addresses)


def check_identities(of_store: FarmIdentity | None, of_index: Identity | None, addresses: Addresses) -> None:
    """Refuse an index and a store of two farms, an index whose store is empty, and what this version can not read.

    Raises:
        FarmRefused: the operator mends it.
    """
    if of_store is None and of_index is not None:
        raise FarmRefused(
            f"the store {addresses.store_url} is empty, but the index knows farm {of_index.farm_id}",
            fix="mount the farm's store there; if it was emptied on purpose, empty the index too (FLUSHDB)",
        )
    if of_store and of_index and of_index.farm_id != of_store.farm_id:
        raise FarmRefused(
            f"the store {addresses.store_url} belongs to farm {of_store.farm_id}, "
            f"the index {public(addresses.index_url)} to farm {of_index.farm_id}",
            fix="point FARM_STORE_URL and FARM_INDEX_URL at the same farm, or use an empty index or store",
        )
    for found, what in ((of_index, "index"), (of_store, "store")):
        if found and found.schema != SCHEMA_VERSION:
            raise FarmRefused(
                f"the farm's {what} has schema version {found.schema}, this opfarm speaks {SCHEMA_VERSION}",
                fix="use the opfarm version that wrote it, or an empty index and store",
            )
