"""Serves purge requests: marker, raise, answers. Ten that wait cost one purge (like a group commit)."""

from __future__ import annotations

from dataclasses import dataclass

from farm.coordinator.space import CHUNK, Space
from farm.failpoint import reach
from farm.index.purgelog import write_report


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """A purge that was served."""

    generation: int
    requests: int


def serve(space: Space) -> PurgeReport | None:
    """Serve all requests that wait now; at most one purge.

    The marker is written before the index is raised: whoever finds the index empty opens the namespace at the
    largest marker, so a purge that was promised is never undone. A leader that dies in between leaves a number
    unused, or requests that the next one answers with the same generation. A namespace that the server lost in
    between is not opened here, but by whoever finds it so.
    """
    index = space.index
    waiting, answerable = index.purge_queue()
    if not waiting:
        return None
    generation = index.generation()
    if not answerable:
        generation = max(generation, space.store.largest_generation(index.namespace)) + 1
        reach("purge.before_marker")
        space.store.mark_generation(index.namespace, generation)
        reach("purge.after_marker")
    answered = 0
    while True:
        raised = index.raise_to(generation, CHUNK)
        reach("purge.after_raise")
        if not raised.generation:
            return None
        answered += raised.answered
        if not raised.left or not raised.answered:
            write_report(index, raised.generation)
            return PurgeReport(raised.generation, answered)
