"""Many processes that have everything compiled anew, again and again, for tests; forked before they use the farm.

python forcing.py COUNT ROUNDS MANIFEST FOLDER      each prints what it got into FOLDER/force-N.json
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import farm
import farm.celery  # what every client needs is loaded once


def main(count: str, rounds: str, manifest: str, folder: str) -> int:
    """Fork all, wait for all."""
    requests = farm.load(manifest)
    children = []
    for number in range(int(count)):
        child = os.fork()
        if child == 0:
            os._exit(_be_one(number, int(rounds), requests, Path(folder)))
        children.append(child)
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children)


def _be_one(number: int, rounds: int, requests: list[farm.Request], folder: Path) -> int:
    seen = []
    try:
        for _ in range(rounds):
            asked_ms = time.time_ns() // 1_000_000
            with farm.connect().job(mode="force", op_compiler_cache_dir=folder / f"rank{number}") as job:
                results = job.compile(requests, check=True)
                held = [holding for part in job._parts.values() for holding in part.held.values()]
                floors = {part.who.floor for part in job._parts.values()}
                seen.append(
                    {
                        "asked_ms": asked_ms, "floor": max(floors), "outcomes": [one.outcome for one in results],
                        "tokens": [one.record.token for one in held],
                        "generations": [one.generation for one in held],
                    }
                )  # fmt: skip
        (folder / f"force-{number}.json").write_text(json.dumps(seen))
    except BaseException as error:
        sys.stderr.write(f"force {number}: {error!r}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
