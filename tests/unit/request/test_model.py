"""What a request refuses to be."""

from __future__ import annotations

import copy
import enum
import pickle
from dataclasses import FrozenInstanceError
from datetime import date
from typing import Any

import pytest

from farm.errors import InputError
from farm.request.model import MAX_INCLUDE_FILES, MAX_SOURCE_BYTES, Blob, Source, Tensor
from farm.request.values import FieldError
from tests.unit.request.sample import sample, source


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\x1bb"}, "name"),
        ({"name": "a\u2028b"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name": None}, "name"),
        ({"type": ""}, "type"),
        ({"type": 7}, "type"),
        ({"soc": ""}, "soc"),
        ({"soc": "a/b"}, "soc"),
        ({"soc": ".."}, "soc"),
        ({"soc": "-x"}, "soc"),
        ({"soc": "x" * 65}, "soc"),
        ({"soc": "sm_90\n"}, "soc"),
        ({"toolchain": "a b"}, "toolchain"),
        ({"entry": ""}, "entry"),
        ({"entry": 7}, "entry"),
        ({"inputs": (7,)}, "inputs"),
        ({"outputs": "x"}, "outputs"),
        ({"attrs": [1]}, "attrs"),
        ({"attrs": {"": 1}}, "attrs"),
        ({"attrs": {1: 1}}, "attrs.1"),
        ({"attrs": {"a": float("nan")}}, "attrs.a"),
        ({"attrs": {"a": [0, float("-inf")]}}, "attrs.a[1]"),
        ({"attrs": {"a": 2**63}}, "attrs.a"),
        ({"attrs": {"a": -(2**63) - 1}}, "attrs.a"),
        ({"attrs": {"a": 10**6000}}, "attrs.a"),
        ({"attrs": {"a": date(2024, 1, 1)}}, "attrs.a"),
        ({"attrs": {"a": b"x"}}, "attrs.a"),
        ({"attrs": {"a": {1, 2}}}, "attrs.a"),
        ({"attrs": {"a": "\udfff"}}, "attrs.a"),
        ({"attrs": {"caf\u00e9": 1, "cafe\u0301": 2}}, "attrs.caf\u00e9"),
        ({"options": {"a": {"b": object()}}}, "options.a.b"),
        ({"depends": {"a": "x"}}, "depends.a"),
        ({"executable": b"\1" * 32}, "executable"),
        ({"source": b"x"}, "source"),
    ],
)
def test_a_wrong_field_is_named_in_one_line(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        sample(**changed)
    assert str(refused.value).startswith(f"field {field}: ")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_deep_nesting_is_refused_without_a_recursion_error() -> None:
    with pytest.raises(InputError, match="nested more than 32 levels"):
        sample(attrs={"a": DEEP})


@pytest.mark.parametrize(
    "size", [-2, True, False, 1.0, "1", None, 2**63, 10**6000], ids=lambda size: type(size).__name__
)
def test_a_wrong_dimension_is_refused(size: Any) -> None:
    with pytest.raises(InputError, match=r"field shape\[1\]: .* is not a dimension \(valid: 0 or more, or -1"):
        Tensor((1, size), "f")


@pytest.mark.parametrize("word", ["", "a-b", "a b", "f\n", "x" * 65, None, 7])
def test_a_wrong_dtype_or_format_is_refused(word: Any) -> None:
    with pytest.raises(InputError, match="field dtype"):
        Tensor((), word)
    with pytest.raises(InputError, match="field format"):
        Tensor((), "f", word)


def test_what_is_allowed() -> None:
    assert Tensor((), "float16").shape == ()
    assert Tensor((0, -1, 2**63 - 1), "float8_e4m3", "FRACTAL_NZ").format == "FRACTAL_NZ"
    assert sample(name="x" * 256, type="算子", attrs={"a": -(2**63), "b": 2**63 - 1}).type == "算子"


def test_special_numbers_and_texts_become_plain_ones() -> None:
    value = sample(attrs={"a": Level.HIGH, "b": Name("x"), "c": True}).attrs
    assert value == {"a": 3, "b": "x", "c": True}
    assert [type(one) for one in value.values()] == [int, str, bool]


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "a//b", "./a", "a/.", "a/../b", "..", "../..", "a/", "a\nb", "../" * 9 + "a", "x" * 256],
)
def test_a_wrong_file_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="field files"):
        source(files={name: Blob.of(b"")})


def test_file_names_may_climb_eight_folders_but_include_folders_none() -> None:
    assert source(files={"../" * 8 + "a.h": Blob.of(b"")})
    with pytest.raises(InputError, match=r"field include_dirs\[0\]: .*below the folder"):
        source(include_dirs=({"../a.h": Blob.of(b"")},))


def test_files_that_can_not_exist_together_are_refused() -> None:
    with pytest.raises(InputError, match="both a file and the folder"):
        source(files={"a": Blob.of(b""), "a/b/c": Blob.of(b"")})
    with pytest.raises(InputError, match="twice, in two Unicode spellings"):
        source(files={"caf\u00e9": Blob.of(b""), "cafe\u0301": Blob.of(b"")})


def test_sizes_are_bounded() -> None:
    big = Blob(b"\1" * 32, MAX_SOURCE_BYTES + 1)
    with pytest.raises(InputError, match="field main"):
        source(main=big)
    with pytest.raises(InputError, match="too many headers"):
        source(files={f"{at}.h": big for at in range(4)})
    with pytest.raises(InputError, match="too many headers"):
        source(files={f"{at}.h": Blob.of(b"") for at in range(MAX_INCLUDE_FILES + 1)})
    with pytest.raises(InputError, match="field suffix"):
        source(suffix="cpp")


def test_mappings_are_copied() -> None:
    attrs = {"a": [1]}
    request = sample(attrs=attrs)
    attrs["a"].append(2)
    assert request.attrs == {"a": (1,)}
    with pytest.raises(FrozenInstanceError):
        request.name = "other"  # type: ignore[misc]


def test_a_blob_is_its_content() -> None:
    blob = Blob.of(b"abc")
    assert blob == Blob(blob.sha256, 3)
    assert hash(blob) == hash(Blob(blob.sha256, 3))
    assert "abc" not in repr(blob)
    with pytest.raises(InputError, match="field data"):
        Blob(blob.sha256, 4, b"abc")


def test_requests_and_errors_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(sample())) == copy.deepcopy(sample()) == sample()
    error = FieldError("is wrong", "mend it", "attrs.a")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "field attrs.a: is wrong (mend it)"


def test_blobs_are_listed_main_first() -> None:
    main, header = Blob.of(b"m"), Blob.of(b"h")
    assert list(Source(".c", main, {"h.h": header}, ({"i.h": main},)).blobs()) == [main, header, main]
