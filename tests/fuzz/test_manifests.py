"""Manifests in every format, damaged in every way, with files of every kind beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
import yaml
from hypothesis import strategies as st

from farm.errors import FarmError, InputError
from farm.request.key import key
from farm.request.manifest import load, parse
from tests.fuzz.bounds import fuzz, listing, outcome
from tests.fuzz.mutations import ODD_TEXTS, damaged, documents, lines, texts

OP: dict[str, Any] = {
    "name": "add",
    "type": "Add",
    "soc": "sm_90",
    "toolchain": "cuda",
    "inputs": [{"shape": [32, -1], "dtype": "float16", "format": "ND"}],
    "outputs": [{"shape": [32, 128], "dtype": "float16"}],
    "attrs": {"axis": -1, "eps": 1.5, "list": [1, "x", None]},
    "source": {"text": '#include "a.h"\nint add;', "files": {"a.h": "int a;"}},
    "entry": "add_kernel",
    "depends": [],
    "options": {"defines": {"BLOCK": 256}, "flags": ["-O2", "-Iinc"]},
}
FROM_FILES = OP | {
    "name": "files", "toolchain": "host@abcd", "source": {"path": "k/add.cpp", "include_dirs": ["inc"]},
    "depends": ["inc", "k/add.cpp"],
}  # fmt: skip
COMMAND = OP | {
    "name": "raw", "toolchain": "command", "options": {"argv": ["true", "{source}"], "outputs": ["*.o"],
    "env": {"X": "1"}},
}  # fmt: skip
MANIFEST: dict[str, Any] = {"version": 1, "soc": "any", "toolchain": "cuda", "ops": [OP, FROM_FILES, COMMAND]}

JSON = json.dumps(MANIFEST).encode()
YAML = yaml.safe_dump(MANIFEST, sort_keys=False).encode()
YAML_TRICKS = (
    b"version: 1\nbase: &b {type: Add, source: {text: x}}\nops:\n- {<<: *b, name: a}\n- <<: [*b]\n  name: 'b'\n"
)
YAML_WORDS = [
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!int ",
    b"? ",
    b": ",
    b"- ",
    b"[",
    b"{",
    b"|\n",
    b">-\n",
    b"---\n",
    b"...\n",
    b"%YAML 9.9\n",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where manifests lie; what is beside the folder must stay as it is."""
    beside = tmp_path_factory.mktemp("manifests")
    (beside / "sentinel").write_text("stays")
    here = beside / "here"
    for name, text in {"k/add.cpp": '#include "b.h"\n', "k/b.h": "int b;", "inc/c.h": "int c;"}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    return here


def is_request_or_refusal(found: object) -> None:
    """What is taken can be keyed; what is not is the submitter's to mend."""
    if isinstance(found, FarmError):
        assert isinstance(found, InputError)
        return
    assert isinstance(found, list)
    for request in found:
        assert len(key(request, "f0" * 32)) == 32


def loaded(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.write_bytes(data)
    before = listing(folder.parent)
    is_request_or_refusal(outcome(lambda: load(path)))
    assert listing(folder.parent) == before


@fuzz(30, damaged([JSON], [b"[" * 500, b"{", b"NaN", b"\\ud800", b"1e999", b'"version": 1,', b"9" * 4400]))
def test_json(folder: Path, data: bytes) -> None:
    loaded(folder, "ops.json", data)


@fuzz(40, damaged([YAML, YAML_TRICKS], YAML_WORDS))
def test_yaml(folder: Path, data: bytes) -> None:
    loaded(folder, "ops.yaml", data)


@fuzz(
    30,
    damaged(
        [msgpack.packb(MANIFEST)], [b"\xdd\xff\xff\xff\xff", b"\xdf\0\x0f\0\0", b"\xc1", b"\x91" * 600, b"\xd6\xff"]
    ),
)
def test_msgpack(folder: Path, data: bytes) -> None:
    loaded(folder, "ops.msgpack", data)


@fuzz(15, damaged([JSON, YAML, msgpack.packb(MANIFEST)]))
def test_a_format_that_is_not_named(folder: Path, data: bytes) -> None:
    loaded(folder, "ops", data)


@fuzz(55, documents([MANIFEST]), st.none() | texts, st.none() | texts)
def test_documents(folder: Path, document: Any, soc: str | None, toolchain: str | None) -> None:
    for where in (folder, None):
        found = outcome(lambda at=where: parse(document, where="doc", folder=at, soc=soc, toolchain=toolchain))
        is_request_or_refusal(found)


@fuzz(25, documents([MANIFEST]))
def test_documents_as_text(folder: Path, document: Any) -> None:
    try:
        text = json.dumps(document)
    except ValueError:  # deeper than json writes
        return
    loaded(folder, "ops.json", text.encode())


_INCLUDE_WORDS = st.sampled_from([
    '#include "', "#include <", '"', ">", "\n", "\\\n", "\\\r\n", "/*", "*/", "//", "k/add.cpp", "b.h", "../inc/c.h",
    "..", ".",
    "/etc/passwd", "__has_include(", ")", "%:", "#embed ", "#define X ", "#include X", " ", "\t", "\v", "'", "\\",
    *ODD_TEXTS,
])  # fmt: skip


@fuzz(40, lines(_INCLUDE_WORDS), lines(_INCLUDE_WORDS), st.sampled_from(["host", "cuda", "triton"]))
def test_sources_that_include(folder: Path, main: str, beside: str, toolchain: str) -> None:
    (folder / "k" / "fuzz.cpp").write_bytes(
        main.encode(errors="surrogateescape") if main.isprintable() else main.encode(errors="replace")
    )
    op = OP | {"toolchain": toolchain, "source": {"path": "k/fuzz.cpp", "files": {"b.h": beside}}}
    document = {"version": 1, "ops": [op]}
    is_request_or_refusal(outcome(lambda: parse(document, where="doc", folder=folder)))


def below(name: str) -> bool:
    """A folder beside the manifest: what is above is read whole, as it was asked for, and that takes its time."""
    return not name.startswith("/") and ".." not in name


@fuzz(20, texts, texts.filter(below), texts.filter(below))
def test_names_of_files(folder: Path, path: str, include_dir: str, depends: str) -> None:
    for source, more in (
        ({"path": path}, {}),
        ({"path": "k/add.cpp", "include_dirs": [include_dir]}, {}),
        ({"path": "k/add.cpp"}, {"depends": [depends]}),
        ({"path": "k/add.cpp"}, {"toolchain": "command", "options": {"argv": [path], "outputs": ["*"]}}),
    ):
        document = {"version": 1, "ops": [OP | {"source": source} | more]}
        is_request_or_refusal(outcome(lambda doc=document: parse(doc, where="doc", folder=folder)))
