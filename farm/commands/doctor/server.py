"""The index's server: there, new enough, and set up so that it keeps what it is told."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from farm.client.connection import public
from farm.commands.doctor.subject import Finding, Subject
from farm.errors import FarmError
from farm.index import identity

#: ZMSCORE and others that the scripts use came with it.
_VERSION_MIN = (6, 2)
#: Below this much of its memory free, a burst of claims may be refused.
_USED_PART_MAX = 0.8


def reachable(subject: Subject) -> Finding:
    """Whether the server answers."""
    reached = subject.reached
    if isinstance(reached, FarmError):
        raise reached
    return Finding(True, f"{public(subject.index_url or '')} answers in {reached[1] * 1000:.1f} ms")


def version(subject: Subject) -> Finding:
    """Whether it knows the commands that are used."""
    about = subject.server.info("server")
    spoken = str(about.get("redis_version", "0"))
    name = str(about.get("server_name", "redis"))
    detail = f"{name} {about[f'{name}_version']} (as Redis {spoken})" if name != "redis" else f"Redis {spoken}"
    numbers = tuple(int(part) for part in spoken.split(".")[:2] if part.isdigit())
    return Finding(numbers >= _VERSION_MIN, detail, "use Redis 6.2 or later, or Valkey")


def policy(subject: Subject) -> Finding:
    """Whether it may drop rows."""
    identity.check_policy(subject.server, public(subject.index_url or ""))
    return Finding(True, "maxmemory-policy noeviction")


def persistence(subject: Subject) -> Finding:
    """Whether what it is told survives its restart."""
    about = subject.server.info("persistence")
    for field, what in (
        ("aof_last_write_status", "the last write to the append-only file failed"),
        ("aof_last_bgrewrite_status", "the last rewrite of the append-only file failed"),
        ("rdb_last_bgsave_status", "the last snapshot failed"),
    ):
        if about.get(field, "ok") != "ok":
            return Finding(
                False, f"{what} ({field} is {about[field]})", "see the server's log; mostly its disk is full"
            )
    if about.get("aof_enabled"):
        return Finding(True, f"append-only file, appendfsync {_configured(subject.server, 'appendfsync')}")
    fix = "CONFIG SET appendonly yes, and in the server's configuration"
    if snapshots := _configured(subject.server, "save"):
        return Finding(False, f"only snapshots (save {snapshots}): a crash loses all that came after the last", fix)
    return Finding(False, "nothing is kept: a restart empties the index", fix)


def _configured(server: Any, name: str) -> str:
    try:
        return str(server.config_get(name).get(name, ""))
    except RedisError:  # managed servers forbid CONFIG
        return "unknown"


def memory(subject: Subject) -> Finding:
    """Whether it has room to grow."""
    about = subject.server.info("memory")
    used, limit = int(about["used_memory"]), int(about.get("maxmemory") or 0)
    whose = "maxmemory"
    if not limit:
        limit, whose = int(about.get("total_system_memory") or 0), "the machine's memory, maxmemory is not set"
    if not limit:
        return Finding(True, f"{_mb(used)} used, no limit known")
    detail = f"{_mb(used)} of {_mb(limit)} used ({used / limit:.0%}; {whose})"
    fix = "raise maxmemory or purge caches: a full server refuses new claims and entries"
    return Finding(used <= limit * _USED_PART_MAX, detail, fix)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1048576:.0f} MB"
