"""Chooses the toolchain of each operator and makes its key: one fingerprint a job, from what workers offer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from farm.client.part import Part
from farm.errors import FarmError, FarmUnavailable, InputError
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
        #: In the order in which new jobs prefer them.
        self._offers: list[Offer] = []
        self._named: dict[tuple[str, str], Request] = {}
        self._chosen: dict[tuple[str, str], Offer] = {}

    def load(self, requests: Iterable[Request], wait_seconds: float, say: Callable[[str], None]) -> None:
        """Read the registry; an empty one is waited for, visibly. A fingerprint that one request names is all of
        theirs, as a job uses one.

        Raises:
            FarmUnavailable: no worker has come in that time, so no key can be made: the operator starts one.
        """
        for request in requests:
            if request.fingerprint:
                self._named.setdefault((request.soc, request.toolchain), request)
        deadline = time.monotonic() + wait_seconds
        told = False
        self._reload()
        while not self._offers and time.monotonic() < deadline:
            if not told:
                say("no worker has registered yet; waiting for one")
                told = True
            time.sleep(_FIRST_WORKER_PAUSE_SECONDS)
            self._reload()
        if not self._offers:
            raise FarmUnavailable(
                f"no worker has ever registered with this farm (waited {wait_seconds:g} s)",
                fix="start one: celery -A farm worker, with this farm's FARM_INDEX_URL and FARM_STORE_URL",
            )

    def _reload(self) -> None:
        self._offers = self._read(self._registry.preferred)

    def choose(self, part: Part, request: Request) -> Offer:
        """The offer that the whole job uses for the operator's toolchain, in its namespace.

        Raises:
            InputError: no toolchain of that name, soc or fingerprint: names what workers offer; or the job has
                another fingerprint than the operator names: the submitter mends it.
        """
        slot = (str(part.namespace), request.toolchain)
        if slot not in self._chosen:
            naming = self._named.get((request.soc, request.toolchain), request)
            fitting = self._fitting(naming)
            fingerprint = part.choose(request.toolchain, fitting[0].fingerprint)
            self._chosen[slot] = self._of_fingerprint(request.toolchain, fingerprint)
            _check_named(part, naming, self._chosen[slot])
        _check_named(part, request, self._chosen[slot])
        return self._chosen[slot]

    def preferred(self, request: Request) -> Offer:
        """The offer that a new job would use for the operator.

        Raises:
            InputError: as ``choose``.
        """
        return self._fitting(self._named.get((request.soc, request.toolchain), request))[0]

    def _fitting(self, request: Request) -> list[Offer]:
        candidates = [offer for offer in self._offers if offer.toolchain == request.toolchain]
        serving = [offer for offer in candidates if offer.serves(request.soc)]
        if not serving:
            raise self._unknown(request, candidates)
        if not request.fingerprint:
            return serving
        return [named_offer(serving, request.fingerprint, f"operator {request.name}: ")]

    def _of_fingerprint(self, toolchain: str, fingerprint: str) -> Offer:
        """The job's offer; another member may have chosen one that registered after we had read."""
        for again in (False, True):
            if again:
                self._reload()
            for offer in self._offers:
                if (offer.toolchain, offer.fingerprint) == (toolchain, fingerprint):
                    return offer
        raise FarmError(
            f"the job uses toolchain {toolchain}@{fingerprint[:12]}, which the registry does not know",
            fix="start a worker that offers it, or give another job id",
        )

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


def _check_named(part: Part, request: Request, offer: Offer) -> None:
    if not offer.fingerprint.startswith(request.fingerprint):
        raise InputError(
            f"operator {request.name}: toolchain {request.toolchain}@{request.fingerprint}: job {part.who.job} uses "
            f"{offer.toolchain}@{offer.fingerprint[:12]} ({offer.version}), and a job uses one",
            fix="name the same fingerprint in all operators and members of a job, or give another job id",
        )


def named_offer(offers: Sequence[Offer], digits: str, where: str = "") -> Offer:
    """The one of a toolchain's offers whose fingerprint begins with these digits.

    Raises:
        InputError: none does, or several do; names those there are.
    """
    found = [offer for offer in offers if offer.fingerprint.startswith(digits)]
    if len(found) == 1:
        return found[0]
    name = f"{offers[0].toolchain}@{digits}"
    there = ", ".join(f"{offer.fingerprint[:12]} ({offer.version})" for offer in found or offers)
    if found:
        raise InputError(f"{where}{len(found)} fingerprints begin as {name}: {there}", fix="give more digits")
    raise InputError(f"{where}no fingerprint begins as {name}", fix=f"there are: {there}")


def prepare(request: Request, offer: Offer) -> tuple[Request, bytes]:
    """The request with the toolchain's own defaults filled in, and its key.

    Raises:
        InputError: an option is unknown to the toolchain, or has a wrong type.
    """
    schema = from_wire(offer.schema)
    options = resolve(request.options, schema, f"operator {request.name}")
    resolved = replace(request, options=options, fingerprint="")
    return resolved, key_of(resolved, offer.fingerprint)


def offered(offers: Iterable[Offer]) -> str:
    """What workers offer, in words for an error."""
    return ", ".join(sorted({f"{offer.toolchain} {offer.version}" for offer in offers})) or "nothing"
