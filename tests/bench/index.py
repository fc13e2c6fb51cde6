"""The index at work: what a warm resolve costs beside plain reads, commands a call, and bytes an entry.

    python -m tests.bench.index

Exit 1 when a bound is broken. Times are ratios of medians of alternating runs on one server: the machine's own
speed cancels out.
"""

from __future__ import annotations

import random
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from farm.index.claims import RetryRules
from farm.index.jobs import Want
from farm.index.outcomes import Failure, Hit, Taken
from farm.index.record import Record
from tests.bench._filled import Filled, key, own_server, say

KEYS_A_JOB = 2000
RUNS = 31
LARGE, TIMED, SMALL = 1_000_000, 100_000, 1000

WARM_RATIO_MAX = 1.5
ENTRY_BYTES_MAX = 300


def warm_ratio(filled: Filled) -> float:
    """The time of a fresh job's resolve of idle keys, in that of as many plain HGETs in one pipeline."""
    wanted = [key(n) for n in random.Random(1).sample(range(filled.entries), KEYS_A_JOB)]
    plain, warm = [], []
    for run in range(RUNS):
        plain.append(_seconds(lambda: _plain(filled, wanted)))
        warm.append(_seconds(lambda run=run: _warm(filled, f"job {run}", wanted)))
        filled.end(filled.member(f"job {run}"))
    plain_ms, warm_ms = (statistics.median(times) * 1000 for times in (plain, warm))
    say(f"warm resolve of {KEYS_A_JOB} keys at {filled.entries:,} entries: {warm_ms:.1f} ms;")
    say(f"  plain HGETs in one pipeline: {plain_ms:.1f} ms; ratio {warm_ms / plain_ms:.2f}")
    return warm_ms / plain_ms


def _plain(filled: Filled, wanted: Sequence[bytes]) -> None:
    name = f"{filled.index.prefix}e:1"
    with filled.server.pipeline(transaction=False) as pipe:
        for k in wanted:
            pipe.hget(name, k)
        assert all(pipe.execute())


def _warm(filled: Filled, job: str, wanted: Sequence[bytes]) -> None:
    """Joined, all keys answered, and the interest in each written."""
    answers = filled.index.acquire(filled.member(job), wanted)
    assert isinstance(answers, list)
    assert all(isinstance(answer, Hit) for answer in answers)


def _seconds(operation: Callable[[], None]) -> float:
    before = time.perf_counter()
    operation()
    return time.perf_counter() - before


def commands(filled: Filled) -> dict[str, dict[str, int]]:
    """For each operation: how often it ran each command, on the same work in a cache of any size."""
    index, rules = filled.index, RetryRules()
    present = [key(n) for n in range(250)]
    absent = [key(-1 - n) for n in range(50)]
    counted: dict[str, dict[str, int]] = {}

    def count(name: str, operation: Callable[[], Any]) -> Any:
        filled.server.config_resetstat()
        answer = operation()
        stats = filled.server.info("commandstats")
        calls = {row.removeprefix("cmdstat_"): stats[row]["calls"] for row in stats}
        counted[name] = {c: n for c, n in sorted(calls.items()) if c not in ("config|resetstat", "info")}
        return answer

    who = count("join", lambda: filled.member("counted"))
    count("acquire 250 idle", lambda: index.acquire(who, present))
    count("acquire 250 held", lambda: index.acquire(who, present))
    count("acquire 50 absent", lambda: index.acquire(who, absent))
    count("claim 50", lambda: index.claim(who, [Want(k, b"request", "q") for k in absent], "n"))
    other = filled.member("other")
    count("acquire 50 in flight", lambda: index.acquire(other, absent))
    count("wake", lambda: index.wake("q", 4, interval_ms=0))
    taken = [count("take", lambda: index.take("q", "w", secrets.token_hex(8), 20_000)) for _ in range(3)]
    assert all(isinstance(each, Taken) for each in taken)
    good, bad, worse = (each.claim for each in taken)
    count("renew", lambda: index.renew([good], 20_000))
    record = Record(good.token, 1000, b"x" * 32, "name", "Type", "host", 1)
    count("publish", lambda: index.publish(good, record))
    count("fail rejected", lambda: index.fail(bad, Failure("rejected", "no"), rules, remember=False))
    count("fail transient", lambda: index.fail(worse, Failure("transient", "no"), rules))
    count("tell", index.tell)
    count("drop", lambda: index.drop(1, good.key, good.token))
    count("heartbeat", lambda: index.heartbeat(who))
    count("reclaim", lambda: index.reclaim(rules))
    count("end_lapsed", index.end_lapsed)
    filled.end(who)
    filled.end(other)
    last = filled.member("last")
    index.acquire(last, present)
    count("leave, the last", lambda: index.leave(last))
    count("bury 250", index.bury)
    return counted


def compare(few: dict[str, dict[str, int]], many: dict[str, dict[str, int]]) -> list[str]:
    """Print both; the operations whose commands grow with the cache."""
    say(f"commands a call, at {SMALL:,} and at {LARGE:,} entries:")
    for name, calls in few.items():
        say(f"  {name:22} {sum(calls.values()):5} {sum(many[name].values()):5}")
    return [f"commands of {name}: {few[name]} became {many[name]}" for name in few if few[name] != many[name]]


def run(filled: Filled) -> list[str]:
    """Print the figures; the bounds that are broken."""
    broken = []
    empty_bytes = filled.used_bytes()
    filled.fill(SMALL)
    commands(filled)  # so that the server knows the scripts
    few = commands(filled)
    filled.fill(TIMED)
    if warm_ratio(filled) > WARM_RATIO_MAX:
        broken.append(f"warm resolve at {TIMED:,} entries: at most {WARM_RATIO_MAX} x the plain reads")
    filled.fill(LARGE)
    entry_bytes = (filled.used_bytes() - empty_bytes) / LARGE
    say(f"index at {LARGE:,} entries: {entry_bytes:.0f} bytes an entry")
    if entry_bytes > ENTRY_BYTES_MAX:
        broken.append(f"bytes an entry: at most {ENTRY_BYTES_MAX}")
    broken += compare(few, commands(filled))
    warm_ratio(filled)
    return broken


def main() -> int:
    with own_server() as server:
        broken = run(Filled(server))
    for what in broken:
        say(f"BOUND BROKEN: {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
