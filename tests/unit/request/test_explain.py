"""What ``explain`` tells a kernel developer."""

from __future__ import annotations

from typing import Any

import pytest

from farm.request.key import Difference, explain, parts
from farm.request.model import Blob, Tensor
from tests.unit.request.sample import FINGERPRINT, sample, source


def told(fingerprint: str = FINGERPRINT, **changed: Any) -> list[Difference]:
    return explain(parts(sample(), FINGERPRINT), parts(sample(**changed), fingerprint))


def test_the_same_key_has_no_difference() -> None:
    assert told(name="another name") == []


@pytest.mark.parametrize(
    ("changed", "part", "here", "there"),
    [
        ({"type": "Sub"}, "type", '"Add"', '"Sub"'),
        ({"soc": "sm_80"}, "soc", '"sm_90"', '"sm_80"'),
        ({"entry": None}, "entry", '"add_kernel"', "null"),
        ({"attrs": dict(sample().attrs) | {"axis": 1}}, "attr axis", "-1", "1"),
        ({"attrs": dict(sample().attrs) | {"axis": -1.0}}, "attr axis", "-1", "-1.0"),
        ({"attrs": dict(sample().attrs) | {"axis": "-1"}}, "attr axis", "-1", '"-1"'),
        ({"attrs": dict(sample().attrs) | {"more": True}}, "attr more", "absent", "true"),
        ({"attrs": {"axis": -1, "nested": {"eps": 2.5, "list": [1, "x", None]}}}, "attr nested.eps", "1.5", "2.5"),
        ({"options": dict(sample().options) | {"flags": ["-O3"]}}, "option flags", '["-O2"]', '["-O3"]'),
        ({"options": dict(sample().options) | {"defines": {"BLOCK": 1}}}, "option defines.BLOCK", "256", "1"),
        ({"outputs": (Tensor((32, 1), "float16"),)}, "output 0 shape", "[32, 128]", "[32, 1]"),
        ({"outputs": (Tensor((32, 128), "f8"),)}, "output 0 dtype", "float16", "f8"),
        ({"source": source(suffix="")}, "source suffix", ".cu", "none"),
    ],
)
def test_one_change_is_one_line(changed: dict[str, Any], part: str, here: str, there: str) -> None:
    assert told(**changed) == [Difference(part, here, there)]


def test_files_are_told_by_name() -> None:
    blob = Blob.of(b"new")
    content = f"content {blob.sha256.hex()[:16]}"

    def changed(**files: Any) -> tuple[str, str]:
        (difference,) = told(source=source(**files))
        return difference.part, difference.there

    assert changed(files=dict(source().files) | {"half.h": blob}) == ("header half.h", content)
    assert changed(files=dict(source().files) | {"new.h": blob}) == ("header new.h", content)
    assert changed(main=blob) == ("source", content)
    first, second = source().include_dirs
    assert changed(include_dirs=(first, dict(second) | {"a.h": blob})) == ("header a.h in include_dirs[1]", content)
    (difference,) = told(depends={"bank": blob.sha256})
    assert (difference.part, difference.there) == ("depends bank", content)


def test_a_missing_tensor_is_told_with_the_count() -> None:
    found = told(inputs=sample().inputs[:1])
    assert found[0] == Difference("number of inputs", "2", "1")
    assert Difference("input 1 dtype", "float16", "absent") in found


def test_another_compiler_is_told() -> None:
    assert [one.part for one in told("00" * 32)] == ["compiler fingerprint"]


def test_an_executable_is_told() -> None:
    def of(executable: bytes) -> dict[str, bytes]:
        return parts(sample(toolchain="command", executable=executable), FINGERPRINT)

    assert [one.part for one in explain(of(b"\1" * 32), of(b"\2" * 32))] == ["executable argv[0]"]


def test_parts_of_another_schema_are_told_as_absent() -> None:
    old = parts(sample(), FINGERPRINT)
    del old["entry"]
    assert explain(old, parts(sample(), FINGERPRINT)) == [Difference("entry", "absent", '"add_kernel"')]
