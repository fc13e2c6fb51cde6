"""Options against a toolchain's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farm.errors import FarmRefused, InputError
from farm.request.options import OptionSpec, from_wire, resolve, to_wire

SCHEMA = {
    "opt": OptionSpec("int", 2, doc="optimisation level"),
    "std": OptionSpec("str", None, ("c++17", "c++20")),
    "debug": OptionSpec("bool", False),
    "flags": OptionSpec("strings", ()),
    "outputs": OptionSpec("strings", ("so",), choices=("so", "o")),
    "defines": OptionSpec("map", {}),
}
DEFAULTS: dict[str, Any] = {"opt": 2, "std": None, "debug": False, "flags": (), "outputs": ("so",), "defines": {}}


def test_defaults_are_filled_in() -> None:
    assert resolve({}, SCHEMA, "here") == DEFAULTS


def test_given_values_win() -> None:
    given: dict[str, Any] = {
        "opt": 0,
        "std": "c++20",
        "flags": ["-g"],
        "outputs": ["o", "so"],
        "defines": {"A": None, "B": 1.5},
    }
    assert resolve(given, SCHEMA, "here") == DEFAULTS | given | {"flags": ("-g",), "outputs": ("o", "so")}


def test_null_is_leaving_out_only_where_that_is_a_choice() -> None:
    assert resolve({"std": None}, SCHEMA, "here") == DEFAULTS
    with pytest.raises(InputError, match=r"options\.opt: must be a whole number, given None"):
        resolve({"opt": None}, SCHEMA, "here")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"flgas": []}, "field options.flgas: is not an option of this toolchain (did you mean flags?)"),
        ({"zzz": 1}, "valid: debug, defines, flags, opt, outputs, std"),
        ({"opt": True}, "field options.opt: must be a whole number, given True"),
        ({"opt": 1.0}, "must be a whole number"),
        ({"opt": "1"}, "must be a whole number"),
        ({"debug": 1}, "must be true or false"),
        ({"flags": "-g"}, "must be a list of texts, given '-g'"),
        ({"flags": ["-g", 1]}, "must be a list of texts"),
        ({"std": 17}, "must be text"),
        ({"std": "c++71"}, "field options.std: 'c++71' is not valid; valid: c++17, c++20 (did you mean c++17?)"),
        ({"outputs": ["so", "a"]}, "'a' is not valid; valid: so, o"),
        ({"defines": ["A"]}, "must be a mapping"),
        ({"defines": {"A": [1]}}, "must be a mapping of names to texts, numbers"),
        ({"opt": 2**63}, "64 bit"),
        ({"opt": float("nan")}, "finite"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve(options, SCHEMA, "ops.yaml: operator 'add'")
    assert str(refused.value).startswith("ops.yaml: operator 'add': field options")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_toolchain_without_options_says_so() -> None:
    with pytest.raises(InputError, match="takes no options"):
        resolve({"x": 1}, {}, "here")


def test_the_schema_survives_the_registry() -> None:
    assert from_wire(json.loads(json.dumps(to_wire(SCHEMA)))) == SCHEMA


@pytest.mark.parametrize(
    "packed", [None, [], {"a": 1}, {"a": {"kind": "str"}}, {"a": {"kind": "?", "default": 1, "choices": [], "doc": ""}}]
)
def test_a_schema_of_another_version_is_refused(packed: object) -> None:
    with pytest.raises(FarmRefused, match="same version"):
        from_wire(packed)
