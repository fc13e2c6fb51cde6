"""What a submission comes to, as one JSON document: for ``submit --json`` and for Celery-only clients alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from farm.client.job import Job
from farm.client.results import Result, count
from farm.request.model import Request

Unanswered = Literal["submitted", "timeout"]


def submission_document(
    job: Job, requests: Sequence[Request], results: list[Result], seconds: float, unanswered: Unanswered
) -> dict[str, Any]:
    """The document of docs/running.md; ``unanswered`` is the state when operators are pending and none failed."""
    counts = count(results)
    return {
        "job_id": job.id,
        "incarnation": job.incarnation,
        "state": "failed" if counts["failed"] else unanswered if counts["pending"] else "done",
        "mode": job.mode,
        "effective_mode": job.shaping.decision.effective_mode,
        "reason": job.shaping.reason(requests),
        "ops": [result.to_json() for result in results],
        "counts": counts,
        "seconds": round(seconds, 3),
    }
