"""Runs one compile from request to files: scratch folder, command, keeper, judgement.

The one place that knows them all; nothing in it knows of Redis, Celery or the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from farm.errors import InputError, NodeDiskFull
from farm.index.outcomes import Failure
from farm.request.model import Request
from farm.store.bundle import BundleFile
from farm.store.disk import FULL, disk_full
from workers import verdict
from workers.keeping import Ending, Keeping, Limits
from workers.outputs import BadOutputs, collect
from workers.scratch import Scratch, ScratchArea
from workers.toolchains.protocol import Command, Toolchain
from workers.verdict import OwnTrouble

StopReason = Literal["lost", "unwanted", "shutdown"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compiler left, checked; ``log_tail`` is what it said although it succeeded."""

    files: tuple[BundleFile, ...]
    log_tail: str
    compile_ms: int


class Stop:
    """A request to end one compile, from any thread, before or while it runs; the first reason holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self.reason: StopReason | None = None

    def request(self, reason: StopReason) -> None:
        """Ask for the end; safe to repeat."""
        with self._lock:
            self.reason = self.reason or reason
            cancel = self._cancel
        if cancel is not None:
            cancel()

    def bind(self, cancel: Callable[[], None]) -> None:
        """Name what ends the compile; called at once when the end was asked for before."""
        with self._lock:
            self._cancel = cancel
            stopped = self.reason is not None
        if stopped:
            cancel()


def compile(
    request: Request, toolchain: Toolchain, area: ScratchArea, limits: Limits, stop: Stop
) -> Compiled | Failure:
    """Compile one request in a fresh folder that is gone afterwards; never raises for what a compiler does.

    Safe to repeat: the same request and toolchain give the same files. Nothing is published here.
    """
    try:
        with area.fresh() as root:
            scratch = Scratch.lay_out(root, request.source)
            command = toolchain.command(request, scratch)
            return command if isinstance(command, Failure) else _run(command, scratch, limits, stop)
    except InputError as error:
        return Failure("rejected", str(error))
    except OSError as error:
        if error.errno in FULL:
            return OwnTrouble("transient", str(disk_full(area.folder, error.errno, NodeDiskFull)))
        return OwnTrouble("transient", f"the worker could not run the compile (scratch {area.folder}): {error}")


def _run(command: Command, scratch: Scratch, limits: Limits, stop: Stop) -> Compiled | Failure:
    own = command.timeout_seconds
    if own is not None and own < limits.timeout_seconds:
        limits = replace(limits, timeout_seconds=own, timeout_origin="the toolchain's timeout_seconds")
    keeping = Keeping(command.argv, env=command.env, cwd=command.cwd, limits=limits)
    stop.bind(keeping.cancel)
    ending = keeping.wait()
    log = verdict.clean(ending.log, scratch.root, scratch.source.parent)
    if ending.outcome == "exited" and ending.code == 0:
        return _accept(command, scratch, ending, log)
    return verdict.judge(ending, log, limits, disk=scratch.root)


def _accept(command: Command, scratch: Scratch, ending: Ending, log: str) -> Compiled | Failure:
    try:
        files = collect(scratch.out, command.outputs)
    except BadOutputs as error:
        if full := verdict.space_trouble(log, scratch.root):
            return OwnTrouble("transient", full, verdict.tail(log))
        return Failure("rejected", f"the compiler exited 0 but {error}", verdict.tail(log))
    if objection := command.review():
        own = objection.kind == "transient"  # the toolchain is not what it was: so it will be for the next one
        return OwnTrouble(objection.kind, objection.message, objection.log_tail) if own else objection
    return Compiled(files, verdict.tail(log), round(ending.seconds * 1000))
