"""What a waiting client does for the farm: tells, reclaims lost claims, wakes queues, notices missing workers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from farm.client.claiming import Claiming
from farm.client.link import Link
from farm.client.part import Part
from farm.client.toolchains import offered
from farm.index.claims import RetryRules
from farm.index.leader import Leadership
from farm.index.outcomes import Failure
from farm.index.registry import Offer, Registry
from farm.settings import Settings

TEND_EVERY_SECONDS = 2.0
_WORKERS_EVERY_SECONDS = 5.0


class Waits(Protocol):
    """A key that somebody waits for: an operator of a submission, or one of a job that is watched."""

    part: Part
    offer: Offer

    def fail(self, failure: Failure, remembered: bool = False) -> None:
        """It will not come."""


class Tending:
    """The chores of one submission while no coordinator leads, every two seconds; each is one short call."""

    def __init__(self, settings: Settings, registry: Registry, link: Link, claiming: Claiming) -> None:
        self._settings = settings
        self._registry = registry
        self._link = link
        self._claiming = claiming
        self._rules = RetryRules.of(settings)
        self._next = time.monotonic() + TEND_EVERY_SECONDS
        self._next_workers = 0.0
        self._reconnects = link.reconnects
        self._reclaim_from = 0.0
        self._unserved_since: dict[str, float] = {}
        #: Of the live workers, by queue.
        self._slots: dict[str, int] = {}
        self._leadership = Leadership(registry.server)
        #: A coordinator does these chores; without one, whoever waits does them for itself.
        self._is_led = False

    def due(self) -> bool:
        """Whether it is time for the chores."""
        return time.monotonic() >= self._next

    def tend(self, waiting: Iterable[Waits], say: Callable[[str], None]) -> None:
        """Do the chores for what is waiting; asks without a worker for too long fail as ``no_worker``."""
        now = time.monotonic()
        self._next = now + TEND_EVERY_SECONDS
        if now >= self._next_workers:
            self._slots = self._link.call(self._registry.slots)
            self._is_led = self._link.call(self._leadership.current) is not None
            self._next_workers = now + _WORKERS_EVERY_SECONDS
        queues: dict[Part, set[str]] = {}
        asks = list(waiting)
        for ask in asks:
            queues.setdefault(ask.part, set()).add(ask.offer.queue)
        for part, names in queues.items():
            self._tend_part(part, sorted(names))
        self._check_workers(asks, now, say)

    def _tend_part(self, part: Part, queues: list[str]) -> None:
        for queue in queues:
            self._claiming.check_broker(queue)
        if self._is_led:
            return
        self._link.call(part.index.tell)
        owed: Counter[str] = Counter()
        if self._may_reclaim():
            owed.update(self._link.call(lambda: part.index.reclaim(self._rules)))
        for queue in queues:
            slots = self._slots.get(queue, 0)
            if slots and not owed[queue] and self._claiming.is_drained(queue):
                owed[queue] += self._link.call(partial(part.index.wake, queue, slots))
        self._claiming.send(part, +owed)

    def _may_reclaim(self) -> bool:
        """After an outage, leases are over that nobody could renew: their holders get one lease to say so."""
        if self._link.reconnects != self._reconnects:
            self._reconnects = self._link.reconnects
            self._reclaim_from = time.monotonic() + self._settings.claim_lease_seconds
        return time.monotonic() >= self._reclaim_from

    def _check_workers(self, asks: list[Waits], now: float, say: Callable[[str], None]) -> None:
        bound = self._settings.no_worker_seconds
        for ask in asks:
            queue = ask.offer.queue
            if queue in self._slots:
                self._unserved_since.pop(queue, None)
                continue
            if queue not in self._unserved_since:
                self._unserved_since[queue] = now
                say(
                    f"no worker offers toolchain {ask.offer.toolchain} {ask.offer.version}; waiting {bound:g} s for one"
                )
            if now - self._unserved_since[queue] >= bound:
                ask.fail(Failure("no_worker", self._nobody(ask)))

    def _nobody(self, ask: Waits) -> str:
        live = [offer for offer in self._link.call(self._registry.offers) if offer.queue in self._slots]
        return (
            f"no worker offered toolchain {ask.offer.toolchain} {ask.offer.version} "
            f"(fingerprint {ask.offer.fingerprint[:12]}) for {self._settings.no_worker_seconds:g} s; "
            f"live workers offer: {offered(live)}"
        )
