"""Runs simulations by hand.

python -m tests.sim.run one SEED          one run; a failure prints the end of its trace and the seed
python -m tests.sim.run many N [FIRST]    N seeds; the failing ones are printed
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.embedded.server import start
from tests.sim.checkers import Broken
from tests.sim.world import World


@contextmanager
def server_url() -> Iterator[str]:
    """A server of our own."""
    with tempfile.TemporaryDirectory(prefix="sim") as folder:
        server = start(Path(folder))
        try:
            yield server.url
        finally:
            server.stop()


def one(url: str, seed: int) -> bool:
    """One run, with what it came to. False when a promise was broken, or anything else went wrong."""
    world, began = World.of_seed(url, seed), time.process_time()
    try:
        world.run()
    except Exception as error:
        say(world.trace.tail(error.about if isinstance(error, Broken) else ""))
        if not isinstance(error, Broken):
            traceback.print_exc(file=sys.stdout)
        say(f"seed {seed} failed at {world.scheduler.now_ms / 1000:.3f} s: {error!r}")
        say(f"bring it back with: make sim SEED={seed}")
        return False
    say(f"seed {seed}: {world.summary()}; {time.process_time() - began:.1f} s of our own; trace {world.trace.digest()}")
    return True


def say(text: str) -> None:
    """At once, also into a file."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(what: str, *rest: str) -> int:
    """Returns the exit code."""
    logging.disable(logging.CRITICAL)
    with server_url() as url:
        if what == "one":
            return 0 if one(url, int(rest[0])) else 1
        first = int(rest[1]) if len(rest) > 1 else 1
        failed = [seed for seed in range(first, first + int(rest[0])) if not one(url, seed)]
        say(f"{len(failed)} of {rest[0]} seeds failed" + (f": {' '.join(map(str, failed))}" if failed else ""))
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
