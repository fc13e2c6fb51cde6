"""Which farm an index belongs to, and whether it may be used: one farm id and schema, and a server that keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farm.errors import FarmRefused
from farm.index import names


@dataclass(frozen=True, slots=True)
class Identity:
    """The farm that an index, or a store, belongs to."""

    farm_id: str
    schema: int


def read(server: Any) -> Identity | None:
    """The identity written in the index; None in an empty one."""
    farm_id, schema = server.hmget(names.IDENTITY, "farm_id", "schema")
    return Identity(farm_id.decode(), int(schema or 0)) if farm_id else None


def write(server: Any, identity: Identity) -> Identity:
    """Give an empty index its identity; the first writer wins. Returns what it is now."""
    with server.pipeline(transaction=True) as pipe:
        pipe.hsetnx(names.IDENTITY, "farm_id", identity.farm_id)
        pipe.hsetnx(names.IDENTITY, "schema", identity.schema)
        pipe.execute()
    return read(server) or identity


def check_policy(server: Any, url: str) -> None:
    """Refuse a server that may evict keys: the index's rows are state, not a cache (infra facts, section 7).

    Raises:
        FarmRefused: the operator sets the policy.
    """
    policy = server.info("memory").get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise FarmRefused(
            f"the index server {url} has maxmemory-policy {policy}: it may drop entries and pins at any time",
            fix="set maxmemory-policy noeviction (CONFIG SET maxmemory-policy noeviction, and in its configuration)",
        )
