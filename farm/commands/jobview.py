"""The documents of ``celery -A farm job``: a job that spans namespaces is one row with its namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from farm.client.connection import Connection
from farm.client.livejob import LiveJob, unknown
from farm.client.results import OperatorError
from farm.client.waiting import JobWait
from farm.index.index import Index
from farm.index.joblist import STATES, JobRow, find_jobs, key_states, live_jobs, member_leases
from farm.index.jobs import PRIORITIES
from farm.namespace import Namespace

_MEMBERS_SHOWN = 100
_PRIORITY = {number: name for name, number in PRIORITIES.items()}
_ENDED = {"cancel": "cancelled", "keep": "released"}


def list_jobs(connection: Connection, limit: int) -> dict[str, Any]:
    """The live jobs, at most so many; ``more`` when there are others."""
    indexes = [Index(connection.server, namespace) for namespace in connection.namespaces()]
    ids = list(dict.fromkeys(job for index in indexes for job in live_jobs(index, limit + 1)))
    jobs: dict[str, dict[Namespace, JobRow]] = {}
    for index in indexes:
        for job, row in find_jobs(index, ids).items():
            jobs.setdefault(job, {})[index.namespace] = row
    # A job may have ended between the two looks.
    heard_of = sorted(jobs.items(), key=lambda one: -max(row.lease_left_ms for row in one[1].values()))
    return {"jobs": [_summary(job, rows) for job, rows in heard_of[:limit]], "more": len(heard_of) > limit}


def _summary(job: str, rows: Mapping[Namespace, JobRow]) -> dict[str, Any]:
    first = min(rows.values(), key=lambda row: row.created_ms)
    return {
        "job_id": job,
        "mode": first.mode,
        "priority": _PRIORITY.get(first.priority, str(first.priority)),
        "owner": _owner(first),
        "created": _iso(first.created_ms),
        "members": max(row.members for row in rows.values()),
        "lease_left_seconds": _seconds(max(row.lease_left_ms for row in rows.values())),
        "keys": sum(row.keys for row in rows.values()),
        "namespaces": [str(namespace) for namespace in rows],
    }


def describe_job(connection: Connection, job_id: str, limit: int, say: Callable[[str], None]) -> dict[str, Any]:
    """One job in full.

    Raises:
        InputError: no such job lives.
    """
    job = LiveJob(connection, job_id, say)
    rows = {namespace: row for namespace, row in job.look().items() if row.lease_left_ms > 0}
    if not rows:
        raise unknown(job_id)
    versions = {offer.fingerprint: offer.version for offer in connection.registry.offers()}
    leases: dict[str, int] = {}
    namespaces = []
    for namespace, row in rows.items():
        index = Index(connection.server, namespace)
        for member, left_ms in member_leases(index, job_id, _MEMBERS_SHOWN).items():
            leases[member] = max(left_ms, leases.get(member, 0))
        namespaces.append(_part(index, row, limit, versions))
    shown = sorted(leases.items(), key=lambda one: -one[1])[:_MEMBERS_SHOWN]
    document = _summary(job_id, rows) | {
        "members": max(len(leases), *(row.members for row in rows.values())),
        "leases": [{"member": member, "lease_left_seconds": _seconds(left_ms)} for member, left_ms in shown],
        "namespaces": namespaces,
    }
    del document["keys"], document["lease_left_seconds"]
    return document


def _part(index: Index, row: JobRow, limit: int, versions: Mapping[str, str]) -> dict[str, Any]:
    states = key_states(index, row.run, limit)
    return {
        "cache": index.namespace.cache,
        "soc": index.namespace.soc,
        "incarnation": row.incarnation,
        "floor": row.floor,
        "toolchains": {
            toolchain: {"fingerprint": fingerprint, "version": versions.get(fingerprint)}
            for toolchain, fingerprint in sorted(row.toolchains.items())
        },
        "keys": {
            "total": states.total,
            "looked_at": states.looked_at,
            **{state: states.counts[state] for state in STATES},
        },
        "failures": [_failure(index.namespace, key, OperatorError(failure)) for key, failure in states.failures],
    }


def describe_wait(waiting: JobWait, job_id: str, state: str, reason: str) -> dict[str, Any]:
    """What a wait has come to."""
    watched = waiting.watched
    failures = [
        _failure(namespace, key, error) for namespace, one in watched.items() for key, error in one.failed.items()
    ]
    return {
        "job_id": job_id,
        "state": state,
        "reason": reason,
        "namespaces": [str(namespace) for namespace in watched],
        "counts": {
            "present": sum(len(one.present) for one in watched.values()),
            "failed": len(failures),
            "pending": sum(len(one.pending) for one in watched.values()),
        },
        "failures": failures,
    }


def describe_end(job_id: str, how: str, rows: Mapping[Namespace, JobRow]) -> dict[str, Any]:
    """Where a job was that is ended now."""
    return {
        "job_id": job_id,
        "state": _ENDED[how],
        "members": max(row.members for row in rows.values()),
        "namespaces": [
            {"cache": namespace.cache, "soc": namespace.soc, "incarnation": row.incarnation, "keys": row.keys}
            for namespace, row in rows.items()
        ],
    }


def _failure(namespace: Namespace, key: bytes, error: OperatorError) -> dict[str, Any]:
    return {"key": key.hex(), "cache": namespace.cache, "soc": namespace.soc, "error": error.to_json()}


def _owner(row: JobRow) -> dict[str, Any]:
    try:
        labels = json.loads(row.owner)
    except ValueError:
        return {}
    return labels if isinstance(labels, dict) else {}


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def _seconds(left_ms: int) -> float:
    return round(left_ms / 1000, 1)
