"""The environment that every command line of a request or a profile gets, whatever the worker's own is."""

from __future__ import annotations

import os

from workers.scratch import Scratch


def own_environment(scratch: Scratch) -> dict[str, str]:
    """PATH as the worker has it; for the rest the same on every worker, but for the scratch folder."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch.tmp),
        "TMPDIR": str(scratch.tmp),
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0",
    }
