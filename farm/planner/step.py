"""One step of a Celery-only submission: ask for everything once, and answer if nothing is waited for any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from farm.client.connection import Connection
from farm.client.document import submission_document
from farm.client.identity import job_id, owner_labels
from farm.client.job import Job
from farm.client.results import OperatorError, Result
from farm.errors import FarmError, FarmUnavailable, JobEnded
from farm.index.index import Index
from farm.index.joblist import Awaited, awaited
from farm.index.outcomes import Failure
from farm.index.plans import MEMBER, Plan, Stand
from farm.namespace import Namespace
from farm.planner.bundles import BundlePaths
from farm.planner.options import SubmitOptions
from farm.request.document import read_document
from farm.request.manifest import parse
from farm.request.model import Request

_WHERE = "manifest"


class Step:
    """One step of one plan; what it learns goes into the plan's progress."""

    def __init__(self, connection: Connection, plan: Plan, now_ms: int) -> None:
        self._connection = connection
        self._plan = plan
        self._progress = plan.progress
        self._now_ms = now_ms
        self.options = SubmitOptions()

    def run(self) -> dict[str, Any] | None:
        """The answer, or None while something is waited for. Safe to do twice.

        Raises:
            InputError: manifest or options are wrong: the submitter mends it.
            FarmUnavailable: index, store or (mode force) coordinator do not answer: a later step may do better.
        """
        self.options = SubmitOptions.read(self._plan.options)
        if self.options.timeout is not None and not self._progress.deadline_ms:
            self._progress.deadline_ms = self._plan.created_ms + round(self.options.timeout * 1000)
        requests, job = self._requests(), self._job()
        if not self._connection.registry.offers():
            return self._without_workers()
        try:
            return self._ask(job, requests)
        finally:
            job.detach()

    def _ask(self, job: Job, requests: Sequence[Request]) -> dict[str, Any] | None:
        try:
            for namespace, stand in self._progress.stands.items():
                job.go_on(Namespace.parse(namespace), stand.incarnation)
            results = job.compile(requests, wait=False)
        except JobEnded as ended:
            results = self._cancelled(requests, ended.message)
        self._progress.away_since_ms = 0
        return self._judge(job, requests, results)

    def _requests(self) -> list[Request]:
        manifest = self._plan.manifest
        if isinstance(manifest, str):
            manifest = read_document(manifest.encode(errors="surrogatepass"), _WHERE, "")
        return parse(manifest, where=_WHERE, folder=None, soc=self.options.soc, toolchain=self.options.toolchain)

    def _job(self) -> Job:
        settings, options = self._connection.settings, self.options
        return Job(
            self._connection,
            job_id(self._plan.id),
            mode=options.mode,
            cache=options.cache or settings.cache,
            priority=options.priority,
            owner=owner_labels(options.owner or "via=celery"),
            shaping=options.shaping(),
            delivery=lambda say: BundlePaths(self._connection.store),
            member=MEMBER,
        )

    def _without_workers(self) -> dict[str, Any] | None:
        """No key can be made: no toolchain is known, so no fingerprint."""
        bound = self._connection.settings.no_worker_seconds
        if self._now_ms - self._plan.created_ms < bound * 1000:
            return None
        message = f"no worker has ever registered with this farm (waited {bound:g} s)"
        return refused(FarmUnavailable(message, fix="start one: celery -A farm worker"))

    def away(self, error: FarmUnavailable) -> dict[str, Any] | None:
        """A part of the farm was away: the answer once that is so for longer than the settings allow."""
        self._progress.away_since_ms = since = self._progress.away_since_ms or self._now_ms
        is_too_long = self._now_ms - since >= self._connection.settings.reconnect_seconds * 1000
        return refused(error) if is_too_long else None

    def _cancelled(self, requests: Sequence[Request], message: str) -> list[Result]:
        keys = self._progress.keys or [""] * len(requests)
        error = OperatorError(Failure("cancelled", message))
        return [
            Result(request.name, key, request.soc, "failed", error=error)
            for request, key in zip(requests, keys, strict=True)
        ]

    def _judge(self, job: Job, requests: Sequence[Request], results: list[Result]) -> dict[str, Any] | None:
        progress, lease_ms = self._progress, round(self._connection.settings.job_lease_seconds * 1000)
        for namespace, incarnation in job.incarnations().items():
            progress.stands[str(namespace)] = Stand(incarnation, lease_ms)
        progress.keys = [result.key for result in results]
        waits = self._waits(job, results)
        results = [self._settled(result, waits) for result in results]
        is_over = bool(progress.deadline_ms) and self._now_ms >= progress.deadline_ms
        if not is_over and any(result.outcome == "pending" for result in results):
            return None
        seconds = (self._now_ms - self._plan.created_ms) / 1000
        return submission_document(job, requests, results, seconds, "timeout")

    def _waits(self, job: Job, results: Sequence[Result]) -> dict[str, Awaited]:
        """What is waited for, by key; notes it for the coordinator and for later steps."""
        self._progress.pending = []
        found: dict[str, Awaited] = {}
        for namespace, stand in self._progress.stands.items():
            parsed = Namespace.parse(namespace)
            pending = [bytes.fromhex(one.key) for one in results if one.outcome == "pending" and one.soc == parsed.soc]
            waits = awaited(Index(self._connection.server, parsed), f"{job.id}@{stand.incarnation}", pending)
            for key, one in waits.items():
                found[key.hex()] = one
                self._progress.pending.append((namespace, one.generation, key))
                how = "compiled" if one.claimed_by == job.id else "joined"
                self._progress.outcomes.setdefault(key.hex(), how)
        self._note_unserved({one.queue for one in found.values()})
        return found

    def _note_unserved(self, queues: set[str]) -> None:
        served = self._connection.registry.slots().keys()
        since = self._progress.unserved
        self._progress.unserved = {queue: since.get(queue, self._now_ms) for queue in queues - served}

    def _settled(self, result: Result, waits: dict[str, Awaited]) -> Result:
        """What this job had compiled is not a hit; what nobody can compile has failed."""
        if result.outcome == "hit":
            return replace(result, outcome=self._progress.outcomes.get(result.key, "hit"))  # type: ignore[arg-type]
        bound = self._connection.settings.no_worker_seconds
        queue = waits[result.key].queue if result.outcome == "pending" and result.key in waits else ""
        since = self._progress.unserved.get(queue)
        if since is None or self._now_ms - since < bound * 1000:
            return result
        failure = Failure("no_worker", f"no worker served {queue} for {bound:g} s")
        return replace(result, outcome="failed", error=OperatorError(failure))


def refused(error: FarmError) -> dict[str, Any]:
    """The answer when nothing can be asked for at all."""
    return {"error": {"code": error.code, "message": error.message, "fix": error.fix}}
