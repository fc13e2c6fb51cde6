"""A job's options, applied to its operators: which are private, what reaches their compilers, for how many cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from farm.errors import InputError
from farm.index.registry import Offer
from farm.policy.cores import JIT_COMPILE, CoreCounts, check, has_effect
from farm.policy.modes import FORCE, Decision
from farm.request.job_options import JobOptions
from farm.request.model import Request


@dataclass(frozen=True, slots=True)
class Shaping:
    """What one member's options make of a job's operators.

    Raises:
        InputError: jit_compile is none of its values; the submitter mends it.
    """

    decision: Decision
    aicore_num: CoreCounts | None = None
    jit_compile: str = "auto"

    def __post_init__(self) -> None:
        if self.jit_compile not in JIT_COMPILE:
            raise InputError(f"jit_compile {self.jit_compile!r} is not known", fix=f"use {', '.join(JIT_COMPILE)}")

    @property
    def purges(self) -> bool:
        """Whether entries made before this job must not serve it."""
        return self.decision.effective_mode == FORCE

    def reason(self, requests: Iterable[Request]) -> str:
        """Why the mode in effect is what it is; names the entries of op_debug_list that select no operator."""
        requests = list(requests)
        why = self.decision.reason or f"op_compiler_cache_mode is {self.decision.effective_mode}"
        unmatched = self.unmatched(requests)
        return why if not unmatched else f"{why}; {unmatched}"

    def unmatched(self, requests: Iterable[Request]) -> str:
        """What to tell of entries of op_debug_list that select no operator; empty when all do."""
        requests = list(requests)
        names, types = {request.name for request in requests}, {request.type for request in requests}
        entries = self.decision.unmatched(names, types)
        return f"op_debug_list: no operator is selected by {', '.join(entries)}" if entries else ""

    def shape(self, request: Request, offer: Offer, run: str) -> Request:
        """The operator as this job has it compiled, its name and type as the submitter gave them.

        Raises:
            InputError: aicore_num is more than the processor has, or without meaning there; the submitter mends it.
        """
        private = self.decision.private(request.name, request.type)
        debug = self.decision.debug
        options = JobOptions(
            private=run if private else "",
            op_debug_level=debug.level,
            op_debug_config=self.decision.debug_for(request.name, request.type),
            aicore_num=self._cores(request, offer),
        )
        return replace(request, job_options=options)

    def _cores(self, request: Request, offer: Offer) -> tuple[int, int] | None:
        counts = self.aicore_num
        if counts is None:
            return None
        found = offer.core_counts.get(request.soc)
        check(counts, CoreCounts(*found) if found else None, request.soc)
        return (counts.cube, counts.vector) if has_effect(_is_static(request), self.jit_compile) else None


def _is_static(request: Request) -> bool:
    return all(size >= 0 for tensor in (*request.inputs, *request.outputs) for size in tensor.shape)
