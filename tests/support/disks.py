"""Small filesystems, so that a test can fill one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A tmpfs mounted at a new folder; the test is skipped where mounting is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
