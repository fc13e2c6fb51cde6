"""Many processes of training jobs, for tests: forked before they use the farm, released by one barrier.

python crowd.py COUNT MANIFEST FOLDER      each prints what it got into FOLDER/answer-N.json
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import farm
import farm.celery  # what every client needs is loaded once


def main(count: str, manifest: str, folder: str) -> int:
    """Fork, say "ready" when all have joined their jobs, release all at once, wait for all."""
    requests = farm.load(manifest)
    ready, barrier = os.pipe(), os.pipe()
    children = []
    for number in range(int(count)):
        child = os.fork()
        if child == 0:
            os.close(barrier[1])
            os._exit(_be_one(number, requests, Path(folder), ready[1], barrier[0]))
        children.append(child)
    for _ in children:
        os.read(ready[0], 1)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    os.close(barrier[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(map(abs, codes))


def _be_one(number: int, requests: list[farm.Request], folder: Path, ready: int, barrier: int) -> int:
    try:
        with farm.connect().job(op_compiler_cache_dir=folder / f"rank{number % 4}") as job:
            os.write(ready, b".")
            os.read(barrier, 1)  # end of file, for all at the same moment
            results = job.compile(requests)
            digests = {
                result.name: {
                    name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in result.files.items()
                }
                for result in results
            }
        answer = {"digests": digests, "outcomes": [result.outcome for result in results]}
        (folder / f"answer-{number}.json").write_text(json.dumps(answer))
    except BaseException as error:
        sys.stderr.write(f"client {number}: {error!r}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
