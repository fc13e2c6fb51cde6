"""Keeps the claims that this worker runs, in one thread, and stops the compiles whose claim is gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from redis.exceptions import RedisError

from farm.index.record import ClaimRef
from workers.runner import Stop

logger = logging.getLogger(__name__)


class Renews(Protocol):
    """The part of an index that is needed here."""

    def renew(self, claims: list[ClaimRef], lease_ms: int) -> list[Literal["kept", "lost", "unwanted"]]:
        """Extend running claims, and say what became of them."""


class Leases:
    """The running claims; a thread of its own renews them all, whatever the compiles are doing."""

    def __init__(self, lease_seconds: float, every_seconds: float) -> None:
        self._lease_ms = round(lease_seconds * 1000)
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._held: dict[ClaimRef, tuple[Renews, Stop]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-leases", daemon=True)

    @property
    def lease_ms(self) -> int:
        """How long a claim is the worker's without another renewal."""
        return self._lease_ms

    def start(self) -> None:
        """Start renewing."""
        self._thread.start()

    def close(self) -> None:
        """Stop renewing; claims still held lapse."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    @contextmanager
    def hold(self, index: Renews, claim: ClaimRef) -> Iterator[Stop]:
        """Keep a claim for the time of the block; the Stop given is asked to stop when it is gone."""
        stop = Stop()
        with self._lock:
            self._held[claim] = (index, stop)
        try:
            yield stop
        finally:
            with self._lock:
                del self._held[claim]

    def stop_all(self) -> None:
        """Ask every running compile to stop, because the worker does."""
        with self._lock:
            stops = [stop for _, stop in self._held.values()]
        for stop in stops:
            stop.request("shutdown")

    def renew(self) -> None:
        """Renew everything that is held, once; safe to repeat.

        Raises:
            RedisError: the index did not answer; a claim that nobody took over can still be renewed later.
        """
        with self._lock:
            held = list(self._held.items())
        groups: dict[int, list[tuple[ClaimRef, Renews, Stop]]] = {}
        for claim, (index, stop) in held:
            groups.setdefault(id(index), []).append((claim, index, stop))
        for group in groups.values():
            index = group[0][1]
            answers = index.renew([claim for claim, _, _ in group], self._lease_ms)
            for (claim, _, stop), answer in zip(group, answers, strict=True):
                # What was published meanwhile is no claim any more, and what was told to stop has been told.
                if answer != "kept" and claim in self._held and not stop.reason:
                    logger.warning("stopping the compile of %s: its claim is %s", claim.key.hex()[:12], answer)
                    stop.request(answer)

    def _run(self) -> None:
        lost = False
        while not self._closed.wait(self._every_seconds):
            try:
                self.renew()
            except (RedisError, OSError) as error:
                if not lost:
                    logger.warning("can not renew claims: %s; compiles go on, still trying", error)
                lost = True
            else:
                lost = False
