"""One process of a training job, for tests: says "ready", waits for a line, compiles, prints what it got.

python rank.py MANIFEST FOLDER JOB_ID|- [hold]     "hold": prints, then keeps its pins until stdin closes
"""

from __future__ import annotations

import hashlib
import json
import sys

import farm


def main(manifest: str, folder: str, job_id: str, *hold: str) -> None:
    """Be one member."""
    requests = farm.load(manifest)
    with farm.connect().job(None if job_id == "-" else job_id, op_compiler_cache_dir=folder) as job:
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        results = job.compile(requests)
        digests = {
            result.name: {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in result.files.items()}
            for result in results
        }
        outcomes = [result.outcome for result in results]
        print(json.dumps({"digests": digests, "outcomes": outcomes, "run": job.incarnation}), flush=True)  # noqa: T201
        if hold:
            sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
