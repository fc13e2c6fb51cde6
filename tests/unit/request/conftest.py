"""Manifests on disk, and the one way to look at a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.errors import InputError
from farm.request.key import key
from farm.request.manifest import load, parse
from farm.request.model import Request
from tests.unit.request.sample import FINGERPRINT

Refused = Callable[..., str]
Write = Callable[..., Path]


@pytest.fixture
def op() -> dict[str, Any]:
    """An operator as a manifest has it."""
    return {
        "name": "add",
        "type": "Add",
        "inputs": [{"shape": [32, 128], "dtype": "float16"}],
        "outputs": [{"shape": [32, 128], "dtype": "float16", "format": "ND"}],
        "attrs": {"axis": -1},
        "source": {"text": "int add;"},
        "entry": "add_kernel",
        "options": {"defines": {"BLOCK": 256}},
    }


@pytest.fixture
def manifest(op: dict[str, Any]) -> dict[str, Any]:
    """A manifest of one operator, which is the same object as ``op``."""
    return {"version": 1, "soc": "sm_90", "toolchain": "cuda", "ops": [op]}


@pytest.fixture
def write(tmp_path: Path, manifest: dict[str, Any]) -> Write:
    """Write bytes, text or a document (default: ``manifest``) into the test's folder."""

    def write_(content: Any = None, name: str = "ops.json") -> Path:
        content = manifest if content is None else content
        text = content if isinstance(content, bytes | str) else json.dumps(content)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_


def refusal(call: Callable[[], list[Request]]) -> str:
    """The one line with which an input is refused."""
    with pytest.raises(InputError) as refused:
        call()
    line = str(refused.value)
    assert "\n" not in line
    assert len(line) < 600
    return line


@pytest.fixture
def refused(write: Write) -> Refused:
    """Write a manifest, load it, return the line that refuses it, the file's folder cut away."""

    def refused_(content: Any = None, name: str = "ops.json") -> str:
        path = write(content, name)
        return refusal(lambda: load(path)).replace(f"{path.parent}/", "")

    return refused_


@pytest.fixture
def refused_document() -> Refused:
    """The line that refuses a document without a folder, as Celery clients send it."""

    def refused_(document: Any) -> str:
        return refusal(lambda: parse(document, where="doc", folder=None))

    return refused_


class Project:
    """A manifest of one operator with files around it."""

    def __init__(self, folder: Path, manifest: dict[str, Any], write: Any) -> None:
        self.folder = folder
        self.manifest = manifest
        self.op = manifest["ops"][0]
        self._write = write
        self.op["source"] = {"path": "k/add.cu"}

    def put(self, **files: str | bytes) -> None:
        for name, content in files.items():
            self.file(name, content)

    def file(self, name: str, content: str | bytes = "") -> Path:
        path: Path = self._write(content, name)
        return path

    def load(self) -> Request:
        (request,) = load(self._write(self.manifest))
        return request

    def key(self) -> bytes:
        return key(self.load(), FINGERPRINT)

    def files(self) -> dict[str, bytes | None]:
        return {name: blob.data for name, blob in self.load().source.files.items()}


@pytest.fixture
def project(tmp_path: Path, manifest: dict[str, Any], write: Any) -> Project:
    made = Project(tmp_path, manifest, write)
    made.file("k/add.cu", '#include "half.h"\nint add;\n')
    made.file("k/half.h", "// half\n")
    return made
