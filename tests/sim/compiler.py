"""The compile itself, modelled: how long it takes and what it makes follow from the request alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from functools import cache

from farm.index.outcomes import Failure
from farm.request.model import Blob, Request, Source
from farm.request.options import OptionSpec
from farm.store.bundle import BundleFile
from tests.sim.scheduler import Scheduler
from tests.sim.threads import Event
from workers.keeping import Limits
from workers.runner import Compiled, Stop
from workers.scratch import ScratchArea
from workers.toolchains.protocol import Command, Toolchain

KERNEL = "kernel.o"


class SimToolchain:
    """A compiler that is never run: see ``Modelled``."""

    def __init__(self, name: str, version: str) -> None:
        self.name, self.version = name, version
        self.fingerprint = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
        self.socs: tuple[str, ...] = ()
        self.schema: Mapping[str, OptionSpec] = {}

    def command(self, request: Request, scratch: object) -> Command:
        raise AssertionError("nothing is run here")


@cache
def operator(number: int, soc: str, toolchain: str, fate: str, source_bytes: int) -> Request:
    """One operator; those of one number are the same."""
    text = f"kernel {number}".ljust(source_bytes, "x").encode()
    return Request(
        name=f"op{number}", type=f"Type{number % 7}", soc=soc, toolchain=toolchain,
        attrs={"number": number, "fate": fate}, source=Source(".cpp", Blob.of(text)),
    )  # fmt: skip


class Modelled:
    """In place of workers.runner."""

    def __init__(
        self, scheduler: Scheduler, chance: random.Random, crash_rate: float, kernel_bytes: int, usual_ms: float
    ) -> None:
        self._scheduler = scheduler
        self._chance = chance
        self.crash_rate = crash_rate
        self._kernel_bytes = kernel_bytes
        self._usual_ms = usual_ms

    def compile(
        self, request: Request, toolchain: Toolchain, area: ScratchArea, limits: Limits, stop: Stop
    ) -> Compiled | Failure:
        duration_ms, cancelled = self._duration_ms(request), Event(self._scheduler)
        crashes = self._chance.random() < self.crash_rate
        stop.bind(cancelled.set)
        if cancelled.wait(duration_ms * (self._chance.random() if crashes else 1) / 1000):
            return Failure("cancelled", "the compile was stopped")
        if crashes:
            return Failure("transient", "the compiler was ended by signal 9 (SIGKILL)")
        if request.attrs["fate"] == "rejected":
            return Failure("rejected", f"error: bad operator {request.attrs['number']}")
        return Compiled((self.kernel(request),), "", duration_ms)

    def kernel(self, request: Request) -> BundleFile:
        """What a correct compile of the request makes."""
        digest = hashlib.sha256(request.source.main.sha256 + repr(sorted(request.attrs.items())).encode()).digest()
        sized = self._kernel_bytes // 2 + int.from_bytes(digest[:2]) % max(1, self._kernel_bytes)
        return BundleFile(KERNEL, 0o444, random.Random(digest).randbytes(sized))

    def _duration_ms(self, request: Request) -> int:
        """Most take about as long, few take ten times that."""
        dice = random.Random(request.source.main.sha256)
        return round(self._usual_ms * dice.lognormvariate(0, 1))
