"""Bundles, archives and packed requests as a hostile farm could have made them: opened, unpacked, imported."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import strategies as st

from farm.client.folder import KernelFolder
from farm.client.proof import prove_foreign
from farm.errors import FarmError
from farm.namespace import Namespace
from farm.request.key import key as key_of
from farm.request.wire import pack as pack_request
from farm.store import bundle as bundles
from farm.store.bundle import MAGIC, Bundle, BundleFile, identify
from farm.store.errors import BadBundle
from tests.fuzz.bounds import MIB, fuzz, listing, outcome
from tests.fuzz.mutations import ODD_NUMBERS, damaged, documents, texts, values
from tests.unit.request.sample import FINGERPRINT, sample

REQUEST = sample()
KEY = key_of(REQUEST, FINGERPRINT)
SPACE = Namespace("default", REQUEST.soc)
WIRE = pack_request(REQUEST, lambda blob: True)
FILES = (
    BundleFile("kernel.o", 0o444, bytes(range(256))),
    BundleFile("ir/第一/stage.txt", 0o444, b"text"),
    BundleFile("run", 0o555, b""),
)
BUNDLE = bundles.pack(
    Bundle(KEY, FILES, WIRE, {"worker": "w", "fingerprint": FINGERPRINT, "compile_ms": 12, "at": [1, 2]})
)
CONTENT: dict[str, Any] = msgpack.unpackb(zstandard.decompress(BUNDLE[bundles.HEAD_BYTES :]))
BOMBS = [b"\x90", b"\x80", b"\xa0", b"\xcb\0\0\0\0\0\0\0\0"]
TRICKS = [*BOMBS, b"\x91" * 1000, b"\xdc\x27\x10", b"\xdd\0\x0f\0\0" * 50, b"\x81\xa1a", b"\xc4\0", b"\xd6\xff\0\0\0\0"]

names = texts.filter(str.isprintable)
octets = st.binary(max_size=12) | st.sampled_from([b"", KEY, WIRE, b"\0" * 32])
packable = st.recursive(
    names | octets | st.sampled_from([number for number in ODD_NUMBERS if number not in (2**64, 10**30)]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names | octets, below, max_size=3),
    max_leaves=6,
)  # fmt: skip


def sealed(content: bytes) -> bytes:
    """A bundle with a right head around any content."""
    frame = zstandard.ZstdCompressor(write_content_size=True).compress(content)
    return MAGIC + hashlib.sha256(frame).digest() + frame


def packed(value: Any) -> bytes:
    try:
        data: bytes = msgpack.packb(value)
    except (ValueError, OverflowError):  # lone surrogates, numbers beyond 64 bits
        return b"\x90"
    return data


@pytest.fixture(scope="module")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something in it, below which everything is to be unpacked into one folder."""
    root = tmp_path_factory.mktemp("sentinel")
    (root / "kernel.o").write_text("stays")
    (root / "kernels").mkdir()
    return root


def unpacked_or_refused(sentinel: Path, data: bytes) -> None:
    opened = outcome(lambda: identify(data, key=KEY))
    if isinstance(opened, FarmError):
        assert isinstance(opened, BadBundle)
        return
    bundle, sha256 = opened
    folder = KernelFolder(sentinel / "kernels" / "kernel_cache", "sm_90")
    paths = outcome(lambda: folder.unpack(bundle, sha256))
    assert isinstance(paths, dict), paths
    entry = folder.path / KEY.hex()
    assert {name: path.read_bytes() for name, path in paths.items()} == {file.name: file.data for file in bundle.files}
    assert all(path.is_relative_to(entry) and path.resolve() == path.absolute() for path in paths.values())
    assert set(listing(sentinel)) == {
        "kernel.o", *(os.path.relpath(path, sentinel) for path in [*paths.values(), entry / ".opfarm.json"]),
    }  # fmt: skip


@fuzz(30, damaged([BUNDLE], TRICKS))
def test_damaged_bundles(sentinel: Path, data: bytes) -> None:
    unpacked_or_refused(sentinel, data)


@fuzz(45, documents([CONTENT], packable | values))
def test_bundles_with_any_content(sentinel: Path, content: Any) -> None:
    unpacked_or_refused(sentinel, sealed(packed(content)))


@fuzz(
    40, st.lists(texts | st.sampled_from(["a", "a/b", "a/b/c", "../kernel.o", "x/../../y", "jobs/x.json"]), max_size=4)
)
def test_names_of_files(sentinel: Path, names: list[str]) -> None:
    files = [{"name": name, "mode": 0o444, "sha256": hashlib.sha256(b"x").digest(), "data": b"x"} for name in names]
    unpacked_or_refused(sentinel, sealed(packed(CONTENT | {"files": files})))


@pytest.mark.parametrize(
    ("where", "bomb"),
    [("files", b"\x90"), ("provenance", b"\x80"), ("more", b"\x90"), ("request", b"\x90"), ("request", b"\x80")],
)
def test_a_frame_of_some_hundred_bytes_does_not_become_gigabytes(bomb: bytes, where: str) -> None:
    row = packed({"more": None} | CONTENT | {where: None})
    at = row.index(packed(where)) + len(packed(where))
    items = bomb * 5000
    rows = b"\xdc\x03\xe8" + (b"\xdc\x13\x88" + items) * 1000
    if where == "request":
        rows = b"\xc6" + len(rows).to_bytes(4, "big") + rows
    content = row[:at] + rows + row[at + 1 :]
    assert len(sealed(content)) < 20_000
    prove = lambda: prove_foreign(sealed(content), KEY, SPACE)  # noqa: E731
    assert isinstance(outcome(prove, memory_bytes=3 * len(content) + 100 * MIB), FarmError)
