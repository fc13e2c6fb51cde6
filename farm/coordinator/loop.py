"""The coordinator's tick: one leader among any number, its jobs in order, each with bounded work."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress

from redis.exceptions import RedisError

from farm.client.connection import Connection
from farm.coordinator import age, purges, reap, sweep
from farm.coordinator.chores import Chores
from farm.coordinator.limits import CacheLimits
from farm.coordinator.messages import Messages
from farm.coordinator.outage import Outage
from farm.coordinator.plans import PlanCare
from farm.coordinator.sources import SourceCare
from farm.coordinator.space import Space, hold
from farm.coordinator.watch import Watch
from farm.errors import FarmUnavailable
from farm.index import names
from farm.index.index import Index
from farm.index.inforce import write_min_idle
from farm.index.leader import Leadership
from farm.index.plans import Plans
from farm.index.sources import SourceEpochs
from farm.namespace import Namespace
from farm.policy.limits import Limits

logger = logging.getLogger(__name__)


class Coordinator:
    """One coordinator process, leading or standing by."""

    def __init__(self, connection: Connection, messages: Messages, environ: Mapping[str, str]) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._connection = connection
        self._messages = messages
        self._server = connection.server
        self._settings = connection.settings
        self._leadership = Leadership(connection.server)
        self._watch = Watch(connection.server, names.WATCH, f"{names.WATCH}:{self.name}")
        self._spaces: dict[Namespace, Space] = {}
        sources = SourceCare(
            SourceEpochs(connection.server), connection.store, self._all_indexes, self._settings.sweep_grace_seconds
        )
        self._chores = Chores(connection.server, connection.store, self._space, sources)
        self._leads = False
        self._outage = Outage()
        self._limits = CacheLimits(connection.server, connection.store, environ, self._outage)
        self._plans = PlanCare(
            Plans(connection.server), lambda namespace: self._space(namespace).index, messages,
            round(self._settings.heartbeat_seconds * 1000),
        )  # fmt: skip
        #: Where the limit is exceeded although all was aged that may be.
        self._over: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Tick until told to stop; a server that is away is waited for."""
        while not stop.is_set():
            try:
                with self._server.pubsub(ignore_subscribe_messages=True) as calls:
                    calls.subscribe(names.WAKE_CHANNEL)
                    self._tick_while_connected(stop, calls)
            except (RedisError, FarmUnavailable) as error:
                logger.warning("the farm does not answer (%s); trying again", error)
                stop.wait(self._settings.tick_seconds)
        if self._leads:
            with suppress(RedisError):  # a standby waits for the lease to end
                self._leadership.step_down(self.name)

    def _tick_while_connected(self, stop: threading.Event, calls: object) -> None:
        while not stop.is_set():
            self.tick()
            # Woken at once by a purge request or a limit that was crossed.
            calls.get_message(timeout=self._settings.tick_seconds)  # type: ignore[attr-defined]

    def tick(self) -> bool:
        """One round of all jobs. Returns whether this coordinator leads."""
        leader = self._leadership.lead(self.name, round(self._settings.leader_lease_seconds * 1000))
        if leader.name != self.name:
            self._leads = False
            return False
        now_ms = leader.deadline_ms - round(self._settings.leader_lease_seconds * 1000)
        if not self._leads:
            self._leads = True
            logger.info("leading, term %d", leader.term)
        write_min_idle(self._server, round(self._settings.min_idle_seconds * 1000))
        self._hold_after_gap(now_ms)
        spaces = self._all_spaces()
        for space in spaces:
            self._serve(space)
        self._plans.serve(now_ms)
        self._age(spaces)
        for space in spaces:
            with self._outage.noticed(f"sweep {space.index.namespace}"):
                sweep.sweep(space)
        with self._outage.noticed("list the store"):
            self._chores.step(held=any(self._is_held(space, now_ms) for space in spaces))
        self._watch.seen()
        return True

    def _serve(self, space: Space) -> None:
        where = space.index.namespace
        with self._outage.noticed(f"purge {where}"):
            if report := purges.serve(space):
                logger.info("purged %s: generation %d answers %d requests", where, report.generation, report.requests)
        reaped = reap.reap(space)
        if reaped.claims or reaped.jobs:
            logger.info("reaped %s: %d claims queued again, %d jobs ended", where, reaped.claims, reaped.jobs)
        if drained := sweep.drain(space):
            logger.info("drained %s: %d entries of earlier generations", where, drained)

    def _age(self, spaces: list[Space]) -> None:
        self._limits.read({space.index.namespace.cache for space in spaces})
        for space in spaces:
            limits = self._limits_of(space)
            space.index.set_limits(limits.limit_bytes, limits.keep_ratio, limits.origin, limits.ageing)
            report = age.age(space, limits)
            if report.entries:
                logger.info("aged %s: %d entries, %d bytes", space.index.namespace, report.entries, report.stored_bytes)
            self._show_overshoot(str(space.index.namespace), report.overshoot_bytes)
        report = age.age_all([(space, self._limits_of(space)) for space in spaces])
        if report.entries:
            logger.info("aged by the farm's limit: %d entries, %d bytes", report.entries, report.stored_bytes)
        self._show_overshoot("the farm", report.overshoot_bytes)

    def _show_overshoot(self, where: str, stored_bytes: int) -> None:
        """Once each time that a limit begins to be exceeded by what is in use or was used of late."""
        if stored_bytes and where not in self._over:
            logger.warning(
                "%s: %d bytes above the limit; all else is in use or was used within %g s, so it stays",
                where, stored_bytes, self._settings.min_idle_seconds,
            )  # fmt: skip
            self._over.add(where)
        elif not stored_bytes:
            self._over.discard(where)

    def _limits_of(self, space: Space) -> Limits:
        return self._limits.of(space.index.namespace.cache)

    def _hold_after_gap(self, now_ms: int) -> None:
        """Hold everything that lives when nobody could renew for a while, and rebuild when data may be lost."""
        gap = self._watch.look(now_ms)
        if gap is None:
            return
        spaces = self._all_spaces()
        may_be_lost = not gap.startswith("no tick")
        if may_be_lost:
            self._chores.want_rebuild()
        if gap == "first tick" and not any(space.index.is_in_use() for space in spaces):
            return
        for space in spaces:
            hold(space)
            if may_be_lost:  # a purge, too: the store knows it
                space.index.open(self._connection.store.largest_generation(space.index.namespace))
        logger.info("holding %d namespaces: %s", len(spaces), gap)

    def _is_held(self, space: Space, now_ms: int) -> bool:
        return space.index.held_until_ms() > now_ms

    def _all_spaces(self) -> list[Space]:
        found = sorted(Namespace.parse(name.decode()) for name in self._server.smembers(names.NAMESPACES))
        return [space for namespace in found if (space := self._space(namespace)).index.generation()]

    def _all_indexes(self) -> list[Index]:
        return [space.index for space in self._all_spaces()]

    def _space(self, namespace: Namespace) -> Space:
        if namespace not in self._spaces:
            index = Index(self._server, namespace)
            self._spaces[namespace] = Space(
                index, self._connection.store, self._connection.registry, self._settings,
                lambda queue, count: self._messages.send(namespace, queue, count), self._messages.is_drained,
            )  # fmt: skip
        return self._spaces[namespace]
