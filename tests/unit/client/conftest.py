from pathlib import Path

import pytest

from farm.client import notices
from farm.client.folder import KernelFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where ``kernel_cache`` belongs; it is not there yet."""
    (tmp_path / "base").mkdir()
    return tmp_path / "base" / "kernel_cache"


@pytest.fixture
def folder(root: Path) -> KernelFolder:
    return KernelFolder(root, "sm_90")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process that has told nothing yet."""
    monkeypatch.setattr(notices, "_told", set())
