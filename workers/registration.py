"""Says every few seconds that this worker lives and what it offers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from redis.exceptions import RedisError

from farm.index.registry import Offer, Registry, Worker
from farm.policy.cores import CoreCounts
from farm.request.options import to_wire
from workers.core_counts import served
from workers.toolchains import Toolchain

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
TTL_SECONDS = 15.0


def offer_of(toolchain: Toolchain, cores: Mapping[str, CoreCounts] = MappingProxyType({})) -> Offer:
    """A toolchain as the registry has it, with the core counts of the processors that it compiles for."""
    return Offer(
        toolchain=toolchain.name,
        fingerprint=toolchain.fingerprint,
        version=toolchain.version,
        socs=toolchain.socs,
        core_counts=served(cores, toolchain.socs),
        schema=to_wire(toolchain.schema),
    )


class Registration:
    """This worker's row in the registry, renewed by a thread until it is closed."""

    def __init__(self, registry: Registry, worker: Worker, offers: list[Offer]) -> None:
        self._registry = registry
        self._worker = worker
        self._offers = offers
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-registration", daemon=True)

    def start(self) -> None:
        """Register now, and keep doing so."""
        self._thread.start()

    def close(self) -> None:
        """Leave the registry; a row that can not be removed lapses by itself."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        try:
            self._registry.leave(self._worker.id)
        except (RedisError, OSError) as error:
            logger.warning("can not leave the registry: %s; the row lapses in %g s", error, TTL_SECONDS)

    def _run(self) -> None:
        lost = False
        while True:
            try:
                worker = replace(self._worker, clock_ms=round(time.time() * 1000))
                self._registry.register(worker, self._offers, round(TTL_SECONDS * 1000))
            except (RedisError, OSError) as error:
                if not lost:
                    logger.warning("can not register: %s; still trying", error)
                lost = True
            else:
                lost = False
            if self._closed.wait(EVERY_SECONDS):
                return
