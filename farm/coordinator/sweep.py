"""The only place that deletes bundles: what the index has condemned, when its grace is over."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from farm.coordinator.space import CALLS_A_TICK, CHUNK, STORE_SECONDS_A_TICK, Space
from farm.failpoint import reach

_DELETE_THREADS = 8


def sweep(space: Space) -> int:
    """Delete condemned objects, in bounded chunks. Returns how many.

    Marked first, so that nobody takes them back, then deleted, then forgotten: a leader that dies or is paused
    in between is finished by the next, and paths are never used again, so deleting twice is as once.
    """
    swept = 0
    grace_ms = round(space.settings.sweep_grace_seconds * 1000)
    until = time.monotonic() + STORE_SECONDS_A_TICK
    while time.monotonic() < until:
        paths = space.index.mark_deleting(grace_ms, CHUNK)
        if not paths:
            break
        reach("sweep.after_mark")
        with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="farm-sweep") as pool:
            list(pool.map(space.store.delete, paths))
        reach("sweep.after_delete")
        space.index.swept(paths)
        swept += len(paths)
    return swept


def drain(space: Space) -> int:
    """Condemn what a purge has left behind and nobody uses, in bounded chunks. Returns how many entries."""
    drained = 0
    for _ in range(CALLS_A_TICK):
        done = space.index.drain(CHUNK)
        if not done:
            break
        reach("drain.after_chunk")
        drained += done
    return drained
