from pathlib import Path

import pytest

from farm.client.folder import KernelFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where ``kernel_cache`` belongs; it is not there yet."""
    (tmp_path / "base").mkdir()
    return tmp_path / "base" / "kernel_cache"


@pytest.fixture
def folder(root: Path) -> KernelFolder:
    return KernelFolder(root, "sm_90")
