"""A network that a test can cut: processes in a namespace of their own, joined to ours by one cable."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Cable:
    """A pair of virtual interfaces; ours has an address on which the far side reaches us."""

    def __init__(self, space: str) -> None:
        number = os.getpid() % 16384  # so that two test runs on one machine do not meet
        self.space = space
        self.here, self.there = f"10.{64 + number // 256}.{number % 256}.1", f"10.{64 + number // 256}.{number % 256}.2"
        self._near, self._far = f"of{os.getpid()}a", f"of{os.getpid()}b"

    def lay(self) -> None:
        """Join the two sides."""
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.space)
        _ip("addr", "add", f"{self.here}/24", "dev", self._near)
        _ip("link", "set", self._near, "up")
        _ip("-n", self.space, "addr", "add", f"{self.there}/24", "dev", self._far)
        _ip("-n", self.space, "link", "set", self._far, "up")
        _ip("-n", self.space, "link", "set", "lo", "up")

    def cut(self) -> None:
        """From now on packets get lost without a word, as behind a switch that died."""
        _ip("link", "set", self._near, "down")

    def mend(self) -> None:
        """Let packets through again; connections that are still open on both sides go on."""
        _ip("link", "set", self._near, "up")

    def far(self, command: list[str]) -> list[str]:
        """The command line that runs a command on the far side."""
        return ["ip", "netns", "exec", self.space, *command]


@contextmanager
def cable() -> Iterator[Cable]:
    """A namespace and a cable to it; the test is skipped where making them is not allowed."""
    made = Cable(f"opfarm-test-{os.getpid()}")
    try:
        _ip("netns", "add", made.space)
        made.lay()
    except (OSError, subprocess.CalledProcessError):
        subprocess.run(["ip", "netns", "del", made.space], check=False, capture_output=True)
        pytest.skip("needs ip(8) and the right to make network namespaces")
    try:
        yield made
    finally:
        _ip("netns", "del", made.space)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
