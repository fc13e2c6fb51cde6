"""A job, as one of its members sees it: what it compiled stays pinned until the member leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Event, Thread
from types import TracebackType
from typing import Self

from farm.client.ask import Ask
from farm.client.claiming import Claiming
from farm.client.compilation import Compilation
from farm.client.connection import Connection
from farm.client.fetch import Delivery
from farm.client.identity import member_id
from farm.client.link import Link
from farm.client.part import Part
from farm.client.results import Progress, Result
from farm.client.shaping import Shaping
from farm.client.tending import Tending
from farm.client.toolchains import Toolchains, prepare
from farm.errors import CompileFailed, FarmError, InputError, JobEnded
from farm.index.index import Index
from farm.index.jobs import PRIORITIES, Member
from farm.namespace import Namespace
from farm.request.model import Request

_SILENT: Callable[[Progress], None] = lambda progress: None  # noqa: E731


class Job:
    """One member of a job; a context manager: its part of the pins is held until it closes.

    All processes that give the same job id are members of one job, see the same answers, and share its
    compiles. A process becomes a member with its first compile for a processor type. The job ends
    when its last member has left, or is silent for ``FARM_JOB_LEASE_SECONDS``.
    """

    def __init__(
        self, connection: Connection, job_id: str, *, mode: str, cache: str, priority: str,
        owner: dict[str, str], shaping: Shaping, delivery: Callable[[Callable[[str], None]], Delivery],
        member: str | None = None,
    ) -> None:  # fmt: skip
        self.id = job_id
        self.mode = mode
        self.shaping = shaping
        self.cache = cache
        self._connection = connection
        self._priority = priority
        self._owner = owner
        self._deliver = delivery
        #: The member that this is, in whichever process; None: one of our own.
        self._as_member = member
        self._progress = _SILENT
        self._begin()

    def _begin(self) -> None:
        """Become a member of our own: at the start, and again in a forked child."""
        settings = self._connection.settings
        self._pid = os.getpid()
        self._member = self._as_member or member_id()
        self._parts: dict[Namespace, Part] = {}
        self._link = Link(self._connection.addresses.index_url, settings.reconnect_seconds, self._say)
        self._delivery = self._deliver(self._say)
        self._closing = Event()
        #: Somebody has ended it, as the heart has heard.
        self._ended: JobEnded | None = None
        self._heart: Thread | None = None

    @property
    def incarnation(self) -> int | None:
        """Which life of the job id this is; None until something was compiled."""
        return max((part.who.incarnation for part in self._parts.values()), default=None)

    def compile(
        self, requests: Iterable[Request], progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None, check: bool = False, wait: bool = True,
    ) -> list[Result]:  # fmt: skip
        """Get a kernel for each request, in order; each is compiled at most once in the whole farm.

        Args:
            progress: called with every change, in this thread.
            timeout: seconds; what is not answered by then is ``pending``.
            check: raise when an operator failed, instead of returning its result.
            wait: False: have compiled what is absent, but return at once; what is not there yet is ``pending``.

        Raises:
            InputError: a request does not fit its toolchain: the submitter mends it.
            FarmUnavailable: index or store are gone for longer than the settings allow.
            JobEnded: somebody had ended the job before anything was asked for; later, operators fail as cancelled.
            CompileFailed: with ``check``, an operator failed.
        """
        if os.getpid() != self._pid:
            self._begin()
        if self._closing.is_set():
            closed = InputError(f"job {self.id} is closed: this member has left it", fix="make a new one: Farm.job()")
            raise self._ended or closed
        self._progress = progress or _SILENT
        requests = list(requests)
        asks = self._asks(requests, timeout) if requests else []
        settings = self._connection.settings
        claiming = Claiming(self._connection.addresses, self._say, settings.reconnect_seconds)
        tending = Tending(settings, self._connection.registry, self._link, claiming)
        results = Compilation(asks, self._link, claiming, tending, self._delivery, self._progress).run(timeout, wait)
        self._record(results)
        failed = [result for result in results if result.error]
        if check and failed:
            first = failed[0].error
            raise CompileFailed(f"{len(failed)} operators failed; {failed[0].name}: {first and first.failure.message}")
        return results

    def _asks(self, requests: Sequence[Request], timeout: float | None) -> list[Ask]:
        """The distinct keys that these requests ask for; all are checked before any namespace is joined."""
        toolchains = Toolchains(self._connection.registry, self._link.call)
        bound = self._connection.settings.no_worker_seconds
        toolchains.load(requests, bound if timeout is None else min(bound, timeout), self._say)
        for request in {(request.toolchain, request.soc): request for request in requests}.values():
            self.shaping.shape(request, toolchains.preferred(request), self.id)
        if unmatched := self.shaping.unmatched(requests):
            self._say(unmatched)
        asks: dict[tuple[Namespace, bytes], Ask] = {}
        for position, request in enumerate(requests):
            part = self._part(Namespace(self.cache, request.soc))
            offer = toolchains.choose(part, request)
            resolved, key = prepare(self.shaping.shape(request, offer, part.who.run), offer)
            ask = asks.setdefault((part.namespace, key), Ask(part, key, resolved, offer))
            ask.positions.append(position)
            ask.names.append(request.name)
        return list(asks.values())

    def _part(self, namespace: Namespace) -> Part:
        part = self._parts.get(namespace)
        if part is None:
            self._parts[namespace] = part = self._stand(namespace)
            part.join(self.shaping.purges, self._connection.settings.force_timeout_seconds)
            self._start_heart()
        return part

    def _stand(self, namespace: Namespace) -> Part:
        who = Member(
            self.id, self._member, self.mode, PRIORITIES[self._priority],
            json.dumps(self._owner).encode(), round(self._connection.settings.job_lease_seconds * 1000),
        )  # fmt: skip
        return Part(Index(self._connection.server, namespace), self._connection.store, self._link, who)

    def go_on(self, namespace: Namespace, incarnation: int) -> None:
        """Be the member that this one was in another process, of this incarnation; to be called before compile.

        Raises:
            JobEnded: somebody has ended it.
        """
        part = self._stand(namespace)
        part.who = replace(part.who, incarnation=incarnation)
        part.announce()
        self._parts[namespace] = part
        self._start_heart()

    def incarnations(self) -> dict[Namespace, int]:
        """Which life of the job id this is, in each namespace that it has joined."""
        return {namespace: part.who.incarnation for namespace, part in self._parts.items()}

    def _record(self, results: list[Result]) -> None:
        for namespace, part in self._parts.items():
            mapping = {result.name: result.files for result in results if result.files and result.soc == namespace.soc}
            if mapping:
                self._delivery.record(namespace, self.id, part.who.incarnation, mapping)

    def _start_heart(self) -> None:
        if self._heart is None:
            self._heart = Thread(target=self._beat, name="farm-heartbeat", daemon=True)
            self._heart.start()

    def _beat(self) -> None:
        while not self._closing.wait(self._connection.settings.heartbeat_seconds):
            for part in list(self._parts.values()):
                try:
                    part.heartbeat()
                except JobEnded as ended:
                    self._say(ended.message)
                    self._ended = ended
                    self._closing.set()
                except FarmError:  # the caller's own calls report it; the next beat tries again
                    continue

    def hold(self, seconds: float) -> None:
        """Stay a member for that long, or until somebody ends the job: the pins are kept."""
        self._closing.wait(seconds)

    def detach(self) -> None:
        """Stop without leaving: the job lives on for one lease, and longer while somebody waits for it."""
        self._closing.set()
        self._parts.clear()

    def close(self, cancel: bool = False) -> None:
        """Leave the job: this member's part of the pins is given up. Safe to repeat.

        ``cancel`` also stops running compiles that nobody else wants; otherwise they finish and are cached.
        A farm that does not answer is left alone: the membership lapses by itself.
        """
        self._closing.set()
        self._link.closed.set()
        self._link.reconnect_seconds = 0
        if os.getpid() == self._pid:
            for part in self._parts.values():
                try:
                    part.leave(cancel)
                except FarmError as error:
                    self._say(f"could not leave job {self.id} ({error}); its membership lapses by itself")
            self._delivery.close()
        self._parts.clear()

    def _say(self, notice: str) -> None:
        self._progress(Progress(0, {}, (), None, notice))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None and issubclass(kind, KeyboardInterrupt))
