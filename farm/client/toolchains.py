"""Chooses the toolchain of each operator and makes its key: one fingerprint a job, from what workers offer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from farm.client.part import Part
from farm.errors import InputError
from farm.index.registry import Offer, Registry
from farm.request.key import key as key_of
from farm.request.model import Request
from farm.request.options import from_wire, resolve

#: A farm without any toolchain has just been started: its workers are given this long to register.
_FIRST_WORKER_PAUSE_SECONDS = 0.2


class Toolchains:
    """The offers of the farm's workers, as one job sees them."""

    def __init__(self, registry: Registry, read: Callable[[Callable[[], list[Offer]]], list[Offer]]) -> None:
        self._registry = registry
        self._read = read
        self._offers: list[Offer] = []
        self._live_queues: set[str] = set()
        self._chosen: dict[tuple[str, str], Offer] = {}

    def load(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """Read the registry; an empty one is waited for, visibly."""
        deadline = time.monotonic() + wait_seconds
        while True:
            self._offers = self._read(self._registry.offers)
            if self._offers or time.monotonic() >= deadline:
                break
            if not self._live_queues:
                say("no worker has registered yet; waiting for one")
                self._live_queues.add("")
            time.sleep(_FIRST_WORKER_PAUSE_SECONDS)
        self._live_queues = {queue for worker in self._registry.workers() for queue in worker.queues}

    def choose(self, part: Part, request: Request) -> Offer:
        """The offer that the whole job uses for the operator's toolchain, in its namespace.

        Raises:
            InputError: no toolchain of that name, or none for that soc: names what workers offer.
        """
        slot = (str(part.namespace), request.toolchain)
        if slot not in self._chosen:
            candidates = [offer for offer in self._offers if offer.toolchain == request.toolchain]
            fitting = [offer for offer in candidates if offer.serves(request.soc)]
            if not fitting:
                raise self._unknown(request, candidates)
            live = [offer for offer in fitting if offer.queue in self._live_queues]
            fingerprint = part.choose(request.toolchain, (live or fitting)[0].fingerprint)
            self._chosen[slot] = next(offer for offer in candidates if offer.fingerprint == fingerprint)
        return self._chosen[slot]

    def _unknown(self, request: Request, candidates: list[Offer]) -> InputError:
        if candidates:
            socs = sorted({soc for offer in candidates for soc in offer.socs})
            return InputError(
                f"operator {request.name}: toolchain {request.toolchain} does not compile for soc {request.soc}",
                fix=f"it compiles for: {', '.join(socs)}",
            )
        known = sorted({offer.toolchain for offer in self._offers})
        return InputError(
            f"operator {request.name}: unknown toolchain {request.toolchain!r}",
            fix=f"workers offer: {', '.join(known) or 'none, no worker has ever registered'}",
        )


def prepare(request: Request, offer: Offer) -> tuple[Request, bytes]:
    """The request with the toolchain's own defaults filled in, and its key.

    Raises:
        InputError: an option is unknown to the toolchain, or has a wrong type.
    """
    schema = from_wire(offer.schema)
    options = resolve(request.options, schema, f"operator {request.name}")
    resolved = replace(request, options=options)
    return resolved, key_of(resolved, offer.fingerprint)


def offered(offers: Iterable[Offer]) -> str:
    """What workers offer, in words for an error."""
    return ", ".join(sorted({f"{offer.toolchain} {offer.version}" for offer in offers})) or "nothing"
