"""Who takes part: workers, members of jobs and coordinators, each the product's own code in a process that may die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError

from farm.client.job import Job
from farm.client.results import Result
from farm.client.shaping import Shaping
from farm.coordinator.loop import Coordinator
from farm.errors import FarmError, FarmUnavailable, InputError, JobEnded
from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.jobs import Holding
from farm.index.outcomes import Taken
from farm.index.record import Record
from farm.index.registry import Worker
from farm.index.stats import waiting_claims
from farm.namespace import Namespace, bundle_path
from farm.policy.modes import Debug, decide
from farm.request.model import Request
from farm.request.wire import unpack as unpack_request
from farm.store.bundle import unpack
from tests.sim.broker import CoordinatorMessages
from tests.sim.checkers import Broken
from tests.sim.compiler import KERNEL, SimToolchain
from tests.sim.scheduler import Process
from tests.sim.threads import Event
from workers.compile import Compiler, Outcome
from workers.keeping import Limits
from workers.leases import Leases
from workers.patience import Patience
from workers.registration import Registration, offer_of
from workers.runner import Stop
from workers.worker import PATIENCE_FACTOR, REST_FRACTION

if TYPE_CHECKING:
    from tests.sim.world import World


class _WatchedCompiler(Compiler):
    """The worker's own code; the checkers are told when a compile begins and how it ended."""

    world: World
    process: Process

    def _attempt(self, namespace: Namespace, taken: Taken, toolchain: Any, stop: Stop) -> Outcome:
        attempt = self.world.checks.compile_begins(namespace, taken, self.process)
        result = super()._attempt(namespace, taken, toolchain, stop)
        if stop.reason == "lost":
            self.world.checks.claim_is_lost(attempt, taken.claim.key)
        attempt.ended = "published" if isinstance(result, Record) else stop.reason or result.__class__.__name__
        return result


class WorkerHost:
    """One worker process with its slots, put together as workers.worker does it."""

    def __init__(self, world: World, process: Process, toolchains: Sequence[SimToolchain], slots: int) -> None:
        self._world = world
        self.process = process
        settings, scheduler = world.settings, world.scheduler
        self._connection = world.connection(process)
        self._stopping = Event(scheduler)
        self._leases = Leases(settings.claim_lease_seconds, settings.renew_seconds)
        self._indexes: dict[Namespace, Index] = {}
        offers = [offer_of(toolchain) for toolchain in toolchains]
        self.queues = tuple(offer.queue for offer in offers)
        self._compiler = _WatchedCompiler(
            worker_id=process.name, store=self._connection.store,
            toolchains=dict(zip(self.queues, toolchains, strict=True)), index=self._index, leases=self._leases,
            area=None, limits=Limits(settings.compile_timeout_seconds, None), rules=RetryRules.of(settings),
            patience=Patience(settings.reconnect_seconds * PATIENCE_FACTOR, self._stopping),  # type: ignore[arg-type]
            store_patience=Patience(settings.reconnect_seconds, self._stopping),  # type: ignore[arg-type]
            send=self._send, rest_seconds=settings.claim_lease_seconds / REST_FRACTION,
        )  # fmt: skip
        for name, value in {"world": world, "process": process}.items():
            object.__setattr__(self._compiler, name, value)
        worker = Worker(process.name, process.name, 1, slots, self.queues)
        self._registration = Registration(self._connection.registry, worker, offers)
        self._slots = slots
        scheduler.spawn(process, self._run)

    def _run(self) -> None:
        self._registration.start()
        self._leases.start()
        for number in range(self._slots):
            queue = self.queues[number % len(self.queues)]
            self._world.scheduler.spawn(self.process, partial(self._consume, queue))

    def _consume(self, queue: str) -> None:
        """One slot: what Celery and the compile task do with messages."""
        while not self._stopping.is_set():
            namespace = Namespace.parse(self._world.broker.receive(queue))
            self._compiler.serve(namespace, queue)
            if self._has_more(namespace, queue) and CoordinatorMessages(self._world.broker).is_drained(queue):
                self._send(namespace, queue)

    def _has_more(self, namespace: Namespace, queue: str) -> bool:
        try:
            return bool(waiting_claims(self._index(namespace), [queue])) and not self._stopping.is_set()
        except Exception as error:
            if isinstance(error, OperationalError | OSError) or "redis" in type(error).__module__:
                return False
            raise

    def _index(self, namespace: Namespace) -> Index:
        return self._indexes.setdefault(namespace, Index(self._connection.server, namespace))

    def _send(self, namespace: Namespace, queue: str) -> None:
        CoordinatorMessages(self._world.broker).send(namespace, queue, 1)

    def stop(self) -> None:
        """An orderly end: what runs is given back."""
        self._stopping.set()
        self._leases.stop_all()
        self._world.scheduler.spawn(self.process, self._registration.close)


class CoordinatorHost:
    """One coordinator process."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self._stop = Event(world.scheduler)
        self.coordinator = Coordinator(
            world.connection(process), CoordinatorMessages(world.broker), world.environ  # type: ignore[arg-type]
        )  # fmt: skip
        self.coordinator.name = process.name  # its own has the number of a real process
        world.scheduler.spawn(process, partial(self.coordinator.run, self._stop))  # type: ignore[arg-type]

    def stop(self) -> None:
        """Step down after this tick."""
        self._stop.set()


@dataclass
class Plan:
    """What one member is to do."""

    job: str
    mode: str
    cache: str
    priority: str
    requests: list[Request]
    #: Asked for a second time, of what it has asked already.
    again: list[Request]
    hold_ms: int
    timeout_seconds: float | None
    leaves: bool
    operators: dict[str, str] = field(default_factory=dict)


class _Delivery:
    """In place of the node's cache folder; what it is given is checked to be what was asked for."""

    def __init__(self, member: MemberHost) -> None:
        self._member = member

    def use(self, namespace: Namespace, keys: Sequence[bytes]) -> None: ...

    def fetch(self, namespace: Namespace, held: Holding) -> Mapping[str, Path]:
        world, member = self._member.world, self._member
        record = held.record
        path = bundle_path(namespace, held.generation, held.key, record.token)
        data = member.store.get(path)
        bundle = unpack(data, key=held.key, sha256=record.sha256, stored_bytes=record.stored_bytes)
        if bundle.files != (world.modelled.kernel(unpack_request(bundle.request)),):
            raise Broken(f"{member.process.name} was given a wrong kernel: {path}", held.key.hex()[:12])
        world.checks.answered(member.job._parts[namespace].who, namespace, held)
        return {KERNEL: Path(path)}

    def record(self, namespace: Namespace, job_id: str, incarnation: int, files: object) -> None: ...

    def close(self) -> None: ...


class MemberHost:
    """One member of a job: submits, holds what it got, and leaves or vanishes."""

    def __init__(self, world: World, process: Process, plan: Plan, done: Callable[[MemberHost], None]) -> None:
        self.world = world
        self.process = process
        self.plan = plan
        self._done = done
        connection = world.connection(process)
        self.store = connection.store
        self.job = Job(
            connection, plan.job, mode=plan.mode, cache=plan.cache, priority=plan.priority, owner={"user": "sim"},
            shaping=Shaping(decide(plan.mode, Debug())), delivery=lambda say: _Delivery(self), member=process.name,
        )  # fmt: skip
        self.outcome = "running"
        world.scheduler.spawn(process, self._run)

    def holds(self) -> dict[Namespace, tuple[str, list[Holding]]]:
        """What it is sure to have, by namespace; nothing when it leaves, or has heard that the job was ended."""
        parts = {} if self.job._ended or self.outcome != "running" else self.job._parts
        return {namespace: (part.who.run, list(part.held.values())) for namespace, part in parts.items()}

    def _run(self) -> None:
        try:
            self._check(self.job.compile(self.plan.requests, self._say, self.plan.timeout_seconds))
            self.world.scheduler.wait(self.plan.hold_ms)
            if self.plan.again:
                self._check(self.job.compile(self.plan.again, self._say, self.plan.timeout_seconds))
            self.outcome = "done"
        except JobEnded:
            self.outcome = "ended"
        except FarmUnavailable as error:
            self.outcome = f"unavailable: {error.message}"
            self.world.trace.event(self.process.name, self.outcome)
            if not self.world.explains(error):
                raise Broken(f"{self.process.name} was told that {error}", self.process.name) from None
        except InputError as error:
            if "runs with mode" not in error.message:
                raise
            self.outcome = "other mode"
        if self.plan.leaves:
            try:
                self.job.close()
            except FarmError as error:
                self.world.trace.event(self.process.name, f"could not leave: {error}")
        else:
            self.job.detach()
        self._done(self)

    def _check(self, results: list[Result]) -> None:
        for result in results:
            self.world.checks.counts[result.outcome] += 1
            if result.error:
                self._check_error(result)
            elif result.outcome != "pending" and not result.files:
                raise Broken(f"{self.process.name}: {result.name} is {result.outcome} without files", result.key[:12])

    def _check_error(self, result: Result) -> None:
        assert result.error
        kind = result.error.failure.kind
        rejected = self.plan.operators[result.name] == "rejected"
        if rejected != (kind == "rejected") and kind != "cancelled" and not self.world.may_fail(result.error.failure):
            raise Broken(f"{self.process.name}: {result.name} failed: {result.error}", result.key[:12])

    def _say(self, progress: Any) -> None:
        if progress.notice:
            self.world.trace.event(self.process.name, progress.notice)
            if "compiling it again" in progress.notice:
                self.world.checks.counts["dropped"] += 1
