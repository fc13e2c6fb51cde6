"""A purge of a million entries: what the raise costs, and how long others wait while the old generation drains.

    python -m tests.bench.drain

Exit 1 when a bound is broken. The raise must cost the same commands at any size. While the coordinator's drain runs
to its end, without the pauses of its tick, four other processes resolve keys of another namespace on the same server;
95 of 100 of their calls must take less than 3 times what they take beside an unrelated load that is equally heavy,
in the best of three.

What is equally heavy: one more client that never pauses, whose every call costs the server as much time as a call
of the drain (measured here, on this server). Its calls are plain writes to a key that nobody else uses, of 200 fields
each, many in one pipeline that is packed once, so that the client loses no time. So in both cases the server is
about as busy (the figures are printed; what differs speaks against the drain) and as many stand in line: what is
judged is what the drain adds by being scripts, which nothing interrupts.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from farm.coordinator.space import CHUNK
from farm.index.outcomes import Hit
from farm.namespace import Namespace
from tests.bench._filled import Filled, commands_of, cpu_seconds, key, own_server, say

SMALL, LARGE = 1000, 1_000_000
CLIENTS, KEYS_A_CALL, THINK_SECONDS = 4, 250, 0.01
LOAD_SECONDS = 12.0
FIELDS_A_WRITE = 200
TRIES = 3
WAIT_RATIO_MAX = 3.0

OTHERS = Namespace("default", "others")
_FORK = multiprocessing.get_context("fork")


def raise_commands(filled: Filled) -> dict[str, int]:
    """Which commands a raise runs, with one purge asked for."""
    filled.index.ask_purge(f"at {filled.entries}")
    filled.index.purge_queue()
    return commands_of(filled.server, lambda: filled.index.raise_to(filled.index.generation() + 1))


def _resolve(path: str, name: str, stop: Any, waits: Any) -> None:
    """A client of its own: the same warm keys again and again."""
    others = Filled(redis.Redis(unix_socket_path=path), OTHERS)
    who, wanted, took = others.member(name), [key(n) for n in range(KEYS_A_CALL)], []
    while not stop.is_set():
        before = time.perf_counter()
        answers = others.index.acquire(who, wanted)
        took.append(time.perf_counter() - before)
        assert isinstance(answers, list)
        assert all(isinstance(answer, Hit) for answer in answers)
        time.sleep(THINK_SECONDS)
    waits.put(took)


class Crowd:
    """What the other processes wait, and how busy the server is meanwhile."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.p95_ms = 0.0
        self.busy = 0.0
        self.calls = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        stop, waits = _FORK.Event(), _FORK.Queue()
        path = self.server.connection_pool.connection_kwargs["path"]
        clients = [
            _FORK.Process(target=_resolve, args=(path, f"client {n} of {os.getpid()}", stop, waits), daemon=True)
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(1)  # all of them have begun
        before, cpu = time.monotonic(), cpu_seconds(self.server)
        yield
        self.busy = (cpu_seconds(self.server) - cpu) / (time.monotonic() - before)
        stop.set()
        took = [one for _ in clients for one in waits.get(timeout=60)]
        for client in clients:
            client.join(60)
        self.calls, self.p95_ms = len(took), statistics.quantiles(took, n=20)[-1] * 1000


def cost_seconds(server: Any, call: Callable[[], Any], calls: int) -> float:
    """The server's processor time for one call."""
    before = cpu_seconds(server)
    for _ in range(calls):
        call()
    return (cpu_seconds(server) - before) / calls


class Writes:
    """The unrelated load."""

    def __init__(self, server: Any, commands: int) -> None:
        self._connection = server.connection_pool.get_connection()
        self._commands = commands
        fields = [part for n in range(FIELDS_A_WRITE) for part in (key(n), b"x" * 100)]
        self._packed = self._connection.pack_commands(
            [("HSET", f"unrelated {n % 40}", *fields) for n in range(commands)]
        )

    def call(self) -> None:
        self._connection.send_packed_command(self._packed)
        for _ in range(self._commands):
            self._connection.read_response()


def wait_ratio(filled: Filled) -> float:
    """The 95th percentile of the others' waits while everything drains, in that beside the unrelated load."""
    server, index = filled.server, filled.index
    index.raise_to(index.generation() + 1)
    drain_cost = cost_seconds(server, lambda: index.drain(CHUNK), 50)
    write_cost = cost_seconds(server, Writes(server, 50).call, 100) / 50
    commands = max(1, round(drain_cost / write_cost))
    writes = Writes(server, commands)
    load, drained = Crowd(server), Crowd(server)
    with load.at_work():
        end = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < end:
            writes.call()
    entries, before = 0, time.monotonic()
    with drained.at_work():
        while done := index.drain(CHUNK):
            entries += done
    seconds = time.monotonic() - before
    assert entries > LARGE * 0.9, f"{entries} were drained"
    say(f"drain of {entries:,} entries: {seconds:.0f} s, {drain_cost * 1000:.1f} ms of the server a call of {CHUNK}")
    for what, crowd in ((f"{commands} writes a call", load), ("drain", drained)):
        say(f"  beside {what:20} p95 {crowd.p95_ms:6.1f} ms of {crowd.calls} calls; server {crowd.busy:4.0%} busy")
    say(f"  ratio {drained.p95_ms / load.p95_ms:.2f}")
    return drained.p95_ms / load.p95_ms


def filled_anew(server: redis.Redis, entries: int) -> Filled:
    """A namespace of that size, and the other one."""
    server.flushall()
    others = Filled(server, OTHERS)
    others.fill(SMALL)
    filled = Filled(server)
    filled.fill(entries)
    return filled


def run(server: redis.Redis) -> list[str]:
    """Print the figures; the bounds that are broken."""
    broken = []
    raise_commands(filled_anew(server, 10))  # so that the server knows the scripts
    few, many = (raise_commands(filled_anew(server, entries)) for entries in (SMALL, LARGE))
    say(f"commands of a raise: {sum(few.values())} at {SMALL:,} entries, {sum(many.values())} at {LARGE:,}")
    if few != many:
        broken.append(f"commands of a raise: {few} became {many}")
    ratios: list[float] = []
    while len(ratios) < TRIES and min(ratios, default=WAIT_RATIO_MAX) >= WAIT_RATIO_MAX:
        ratios.append(wait_ratio(filled_anew(server, LARGE)))
    if min(ratios) >= WAIT_RATIO_MAX:
        broken.append(f"waits while a generation drains: below {WAIT_RATIO_MAX} x those beside an equal load")
    return broken


def main() -> int:
    """Exit code."""
    with own_server() as server:
        broken = run(server)
    for what in broken:
        say(f"BOUND BROKEN: {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
