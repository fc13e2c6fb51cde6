"""Garbage, bombs and tricks: each is refused at once, in one line."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from farm.errors import InputError
from farm.request import document
from farm.request.manifest import MAX_MANIFEST_BYTES, load

SUFFIXES = ["ops.json", "ops.yaml", "ops.msgpack", "ops"]


@pytest.fixture(autouse=True)
def quickly() -> Iterator[None]:
    """No input may keep a submitter waiting; what other processes take of the machine is not its fault."""
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("name", SUFFIXES)
def test_empty_files(refused: Any, name: str) -> None:
    for content in ("", " \n\t\n", "\n" * 1000):
        assert refused(content, name).startswith(f"{name}: is empty")


@pytest.mark.parametrize("content", ["---\n", "# only a comment\n", "~", "null"])
def test_yaml_that_says_nothing(refused: Any, content: str) -> None:
    assert refused(content, "ops.yaml").startswith("ops.yaml: must be a mapping, given None")


@pytest.mark.parametrize("name", SUFFIXES)
def test_ten_megabytes_of_garbage(refused: Any, name: str) -> None:
    garbage = random.Random(3).randbytes(10 * 2**20)
    assert refused(garbage, name).startswith(f"{name}: ")
    text = garbage.hex().encode()[: 10 * 2**20]
    assert refused(text, name).startswith(name)
    ascii_ = bytes(32 + byte % 95 for byte in garbage[: 2**20]) * 10
    assert refused(ascii_, name).startswith(name)


@pytest.mark.parametrize("name", SUFFIXES)
def test_all_short_beginnings(refused: Any, name: str) -> None:
    for first in range(0, 256, 3 if name == "ops" else 16):
        assert refused(bytes([first]) * 3, name).startswith(name)


@pytest.mark.parametrize("name", SUFFIXES)
@pytest.mark.parametrize("one", ["[", "{", '{"a":', "- ", "? ", "[{", "!!x [", "&a [", "a: ", "'", "*a"])
def test_deep_nesting(refused: Any, name: str, one: str) -> None:
    assert refused(one * 100_000, name).startswith(name)


def test_deep_but_closed_nesting(refused: Any, manifest: dict[str, Any]) -> None:
    for depth in (100, 900, 50_000):
        deep = "[" * depth + "]" * depth
        text = json.dumps(manifest).replace('"axis": -1', f'"axis": {deep}')
        for name in ("ops.json", "ops.yaml"):
            assert "nest" in refused(text, name)
    packed = msgpack.packb(manifest)
    at = packed.index(b"axis") + 4
    assert packed[at] == 0xFF
    assert "field attrs.axis" in refused(packed[:at] + b"\x91" * 100 + packed[at:], "ops.msgpack")
    assert "not msgpack: StackError" in refused(packed[:at] + b"\x91" * 9000 + packed[at:], "ops.msgpack")


def test_forged_lengths_reserve_no_memory(refused: Any) -> None:
    for head in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"):
        assert "not msgpack" in refused(head * 500, "ops.msgpack")
        assert "not msgpack" in refused(b"\x81\xa1a" + head + b"\0" * 2**20, "ops.msgpack")
    assert "not msgpack" in refused(b"\xdd\x00\x0f\x00\x00" * 200_000, "ops.msgpack")


def test_too_large(write: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_MANIFEST_BYTES == 64 * 2**20
    path = write("{}")
    with path.open("r+b") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    with pytest.raises(InputError, match="more than 67108864 bytes"):
        load(path)


@pytest.mark.parametrize("name", ["ops.json", "ops.yaml"])
@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "gb18030"])
def test_other_encodings(refused: Any, manifest: dict[str, Any], name: str, encoding: str) -> None:
    text = json.dumps({**manifest, "soc": "é"}, ensure_ascii=False)
    assert f"{name}: is not UTF-8 text (byte 0x" in refused(text.encode(encoding), name)


def test_lone_surrogates(refused: Any, manifest: dict[str, Any], op: dict[str, Any]) -> None:
    assert "ops.json: holds text that is not valid Unicode" in refused(json.dumps({**manifest, "\ud800": 1}))
    for changed in (
        {"attrs": {"a": "\ud800"}},
        {"attrs": {"\ud800": 1}},
        {"type": "\ud800"},
        {"source": {"text": "\ud800"}},
    ):
        assert "not valid Unicode" in refused(json.dumps({**manifest, "ops": [op | changed]}))


# ------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"version": 1,}', "ops.json line 1 column 15: not JSON: Expecting property name"),
        ('{"version": 1', "ops.json line 1 column 14: not JSON"),
        ("{'version': 1}", "not JSON"),
        ('{"a": NaN}', "NaN is not a number that can be in a key"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": ' + "9" * 5000 + "}", "ops.json: not JSON for a manifest"),
        ('{"version": 1} {}', "Extra data"),
        ('{"a": "\x01"}', "control character"),
    ],
)
def test_wrong_json(refused: Any, text: str, told: str) -> None:
    assert told in refused(text)


def test_a_number_too_large_for_a_float(refused: Any, manifest: dict[str, Any]) -> None:
    for name in ("ops.json", "ops.yaml"):
        text = json.dumps(manifest).replace('"axis": -1', '"axis": 1e999')
        assert "operator 'add': field attrs.axis: inf is not a number" in refused(text, name)


def test_repeated_names_in_json(refused: Any, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest)
    assert refused(text.replace('"soc"', '"version": 1, "soc"')).startswith("ops.json: field version: is given twice")
    twice = text.replace('"axis": -1', '"axis": -1, "axis": 2')
    assert refused(twice).startswith("ops.json: operator 'add': field attrs.axis: is given twice")
    twice = text.replace('"dtype"', '"shape": [1], "dtype"')
    assert "operator 'add': field inputs[0].shape: is given twice" in refused(twice) or "outputs[0]" in refused(twice)
    twice = text.replace('"name": "add"', '"name": "add", "name": "b"')
    assert refused(twice).startswith("ops.json: operator #1: field name: is given twice")


def test_repeated_names_in_msgpack(refused: Any) -> None:
    assert refused(b"\x82\xa1a\x01\xa1a\x02", "ops.msgpack").startswith("ops.msgpack: field a: is given twice")


# ------------------------------------------------------------------------------------------- msgpack


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x81\x01\x02", "not msgpack"),
        (b"\x81\xa1a", "not msgpack"),
        (b"\x80\x80", "not msgpack: ExtraData"),
        (b"\x81\xa1\xff\x01", "not msgpack: UnicodeDecodeError"),
        (msgpack.packb({"version": b"1"}), "field version: is b'1'"),
        (msgpack.packb({b"version": 1}), "field version: is missing"),
        (msgpack.packb([1]), "must be a mapping"),
    ],
)
def test_wrong_msgpack(refused: Any, data: bytes, told: str) -> None:
    assert told in refused(data, "ops.msgpack")


def test_msgpack_types_that_are_no_values(refused: Any, manifest: dict[str, Any], op: dict[str, Any]) -> None:
    for value in (b"bytes", msgpack.Timestamp(1), msgpack.ExtType(5, b"x"), 2**64 - 1):
        op["attrs"] = {"a": value}
        assert "operator 'add': field attrs.a" in refused(msgpack.packb(manifest), "ops.msgpack")


# ------------------------------------------------------------------------------------------------- speed


def test_ten_thousand_operators(write: Any, manifest: dict[str, Any], op: dict[str, Any]) -> None:
    manifest["ops"] = [{**op, "name": f"op{at}"} for at in range(10_000)]
    assert len(load(write())) == 10_000


def test_the_readers_cover_every_suffix() -> None:
    assert set(document.SUFFIXES.values()) == set(document._READERS)
