"""Which versions a process runs: workers publish theirs, so that one can see who was not upgraded."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """The versions of opfarm and of Python in this process."""
    try:
        own = version("opfarm")
    except PackageNotFoundError:  # run from a folder that was never installed
        own = "unknown"
    return {"opfarm": own, "python": platform.python_version()}
