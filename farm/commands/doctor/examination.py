"""The checks in the order in which one mends what they find; all of them are run, whatever the others say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from redis.exceptions import RedisError

from farm.commands.doctor import environment, limits, messages, node, server, store, workers
from farm.commands.doctor.subject import Finding, Subject
from farm.errors import FarmError

SERVER = "server"

CHECKS: Mapping[str, Callable[[Subject], Finding]] = {
    "settings": environment.settings,
    "environment": environment.environment,
    "celery_variables": environment.celery_variables,
    SERVER: server.reachable,
    "server_version": server.version,
    "server_policy": server.policy,
    "server_persistence": server.persistence,
    "server_memory": server.memory,
    "identity": store.identities,
    "store": store.usable,
    "store_space": store.space,
    "broker": messages.broker,
    "results": messages.results,
    "toolchains": workers.toolchains,
    "queues": workers.queues,
    "clocks": workers.clocks,
    "versions": workers.versions_agree,
    "worker_settings": workers.settings_agree,
    "limits": limits.limits,
    "cache_folder": node.cache_folder,
    "file_locks": node.file_locks,
}


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the report; ``fix`` is empty where nothing is to be done."""

    name: str
    ok: bool
    detail: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """As it stands in a command's JSON (docs/running.md)."""
        return asdict(self)


def examine(subject: Subject, checks: Mapping[str, Callable[[Subject], Finding]] = CHECKS) -> list[Check]:
    """Run all checks; none of them can end the examination."""
    return [_row(name, _run(check, subject)) for name, check in checks.items()]


def _row(name: str, found: Finding) -> Check:
    fix = "" if found.ok else " ".join(found.fix.split())
    return Check(name, found.ok, " ".join(found.detail.split()), fix)


def _run(check: Callable[[Subject], Finding], subject: Subject) -> Finding:
    try:
        return check(subject)
    except FarmError as error:
        return Finding(False, error.message, error.fix)
    except (RedisError, OSError) as error:
        return Finding(False, f"{type(error).__name__}: {error}", "see the message, and check server")
    except Exception as error:  # a check that is itself broken hides no other
        return Finding(False, f"this check failed by itself: {type(error).__name__}: {error}", "report this message")
