"""The request as bytes: nothing is lost, nothing is believed."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest

from farm.errors import InputError
from farm.request.key import key
from farm.request.model import Blob, Request
from farm.request.wire import pack, unpack
from tests.unit.request.sample import FINGERPRINT, sample, source


def everything(blob: Blob) -> bool:
    return True


def nothing(blob: Blob) -> bool:
    return False


def data_of(request: Request) -> set[bytes | None]:
    return {blob.data for blob in request.source.blobs()}


def test_there_and_back() -> None:
    for request in (sample(), sample(entry=None), sample(toolchain="command", executable=b"\5" * 32)):
        back = unpack(pack(request, everything))
        assert back == request
        assert data_of(back) == data_of(request)
        assert key(back, FINGERPRINT) == key(request, FINGERPRINT)


def test_inline_chooses_what_travels() -> None:
    big = Blob.of(b"x" * 1000)
    packed = pack(sample(source=source(main=big)), lambda blob: blob.size_bytes < 100)
    back = unpack(packed)
    assert len(packed) < 1000
    assert back.source.main == big
    assert back.source.main.data is None
    assert back.source.files["half.h"].data == b"// half"
    assert data_of(unpack(pack(sample(), nothing))) == {None}


def test_a_blob_without_data_stays_without() -> None:
    back = unpack(pack(unpack(pack(sample(), nothing)), everything))
    assert back == sample()
    assert back.source.main.data is None


def test_equal_requests_are_equal_bytes() -> None:
    other = sample(attrs=dict(reversed(list(sample().attrs.items()))))
    assert pack(sample(), everything) == pack(other, everything)


def forged(**changed: Any) -> bytes:
    version, fields = msgpack.unpackb(pack(sample(), everything), raw=False)
    fields["source"] |= changed.pop("source", {})
    dropped = changed.pop("dropped", None)
    fields.pop(dropped, None)
    packed: bytes = msgpack.packb([changed.pop("version", version), {**fields, **changed}])
    return packed


def test_the_forger_can_also_copy() -> None:
    assert unpack(forged()) == sample()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a packed request"),
        (b"\xc1", "not a packed request"),
        (b"\x93\x01", "not a packed request"),
        (msgpack.packb(7), "not a packed request"),
        (msgpack.packb([1, None]), "not a packed request"),
        (msgpack.packb([1, {}]), "not a packed request"),
        (b"\x91" * 2000, "not a packed request"),
        (b"\xdd\xff\xff\xff\xff", "not a packed request"),
        (pack(sample(), everything)[:-5], "not a packed request"),
        (pack(sample(), everything) + b"\0", "not a packed request"),
        (forged(version=2), "wire version 2 is not 1"),
        (forged(extra=1), "fields are not exactly"),
        (forged(dropped="entry"), "fields are not exactly"),
        (forged(name=""), "field name"),
        (forged(name=7), "field name"),
        (forged(soc="../x"), "field soc"),
        (forged(inputs=[[[-2], "f", "ND"]]), "field shape[0]"),
        (forged(inputs=[[["1"], "f", "ND"]]), "field shape[0]"),
        (forged(inputs=[[[True], "f", "ND"]]), "field shape[0]"),
        (forged(inputs=[7]), "not a packed request"),
        (forged(attrs=[1]), "field attrs"),
        (forged(attrs={"a": b"bytes"}), "field attrs.a"),
        (forged(attrs={"a": msgpack.Timestamp(1)}), "field attrs.a"),
        (forged(depends={"a": b"short"}), "field depends.a"),
        (forged(executable=b"\1" * 32), "field executable"),
        (forged(source={"files": {"/etc/x": [b"\1" * 32, 1, None]}}), "absolute"),
        (forged(source={"files": {"a/../../x": [b"\1" * 32, 1, None]}}), "not a plain relative name"),
        (forged(source={"include_dirs": [{"../x": [b"\1" * 32, 1, None]}]}), "lies outside"),
        (forged(source={"main": [b"\1" * 32, 1, b"x"]}), "sha256"),
        (forged(source={"main": [b"\1" * 32, 2, b"x"]}), "field data"),
        (forged(source={"main": [b"\1" * 32, -1, None]}), "field size_bytes"),
        (forged(source={"main": [b"\1" * 32, 2**40, None]}), "field main"),
    ],
)
def test_a_damaged_or_forged_request_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(InputError, match=r"\Arequest: ") as refused:
        unpack(data)
    assert told in refused.value.message
    assert "\n" not in str(refused.value)


def test_a_name_given_twice_is_refused() -> None:
    packed = msgpack.packb({"name": 1})[1:] * 2
    with pytest.raises(InputError, match="given twice"):
        unpack(b"\x92\x01\x82" + packed)


def test_random_damage_is_refused_or_harmless() -> None:
    chance = random.Random(11)
    good = pack(sample(), everything)
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            unpack(bytes(bad))
        except InputError as refused:
            assert "\n" not in str(refused)


@pytest.mark.parametrize("files", [(), "x", 1, None, b""])
def test_files_without_names_are_refused(files: Any) -> None:
    version, fields = msgpack.unpackb(pack(sample(), lambda blob: True))
    for name, value in (("files", files), ("include_dirs", [files])):
        forged = msgpack.packb([version, fields | {"source": fields["source"] | {name: value}}])
        with pytest.raises(InputError, match="request: not a packed request"):
            unpack(forged)
