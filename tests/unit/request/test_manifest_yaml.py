"""YAML in particular: values that mean the same as in JSON, and no bombs, tags or dates."""

from __future__ import annotations

import time
from typing import Any

import pytest

from farm.errors import InputError
from farm.request.manifest import parse
from farm.request.yaml_document import read_yaml

HEAD = """\
version: 1
soc: sm_90
toolchain: cuda
ops:
  - name: add
    type: Add
    source: {text: "int add;"}
"""


def value_of(text: str) -> Any:
    document = read_yaml(f"v: {text}\n", "ops.yaml")
    assert isinstance(document, dict)
    return document["v"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("0x1F", 31),
        ("1.0", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-0.0", -0.0),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("1.5e+3", 1500.0),
        ("01.5", 1.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("y", "y"),
        ("nope", "nope"),
        ("sm_90", "sm_90"),
        ("-O2", "-O2"),
        ("--use_fast_math", "--use_fast_math"),
        ("1.2.3", "1.2.3"),
        ("3d", "3d"),
        ("float16", "float16"),
        ("'yes'", "yes"),
        ('"2024-01-01"', "2024-01-01"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ('"a\\tb"', "a\tb"),
        ("[1, a, {b: c}]", [1, "a", {"b": "c"}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_a_scalar_means_what_it_means_in_json(text: str, value: Any) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)
    assert str(found) == str(value)


@pytest.mark.parametrize("text", ["yes", "No", "ON", "off", "010", "0o17", "0b11", "1_000", "12:30", "1:2:3.5", "0x_f"])
def test_what_yaml_readers_disagree_about_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"ops.yaml line 1: field v: .*\(quote it"):
        value_of(text)


@pytest.mark.parametrize("text", ["2024-01-01", "2024-1-1", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5 +01:00"])
def test_a_date_is_refused(refused: Any, text: str) -> None:
    line = refused(HEAD + f"    attrs:\n      built: {text}\n", "ops.yaml")
    assert line.startswith(
        f"ops.yaml line 9: operator 'add': field attrs.built: '{text}' is a date to some YAML readers"
    )
    assert line.endswith("(quote it to make it text)")


@pytest.mark.parametrize(
    "tagged",
    [
        "!!python/object/apply:os.system ['touch pwned']",
        "!!python/name:os.system",
        "!!python/object:os.system {}",
        "!!python/object/new:os.system [x]",
        "!!timestamp 2024-01-01",
        "!!binary aGk=",
        "!!float 1",
        "!!set {a}",
        "!!omap [a: 1]",
        "!own x",
        "!own {a: 1}",
        "!<tag:yaml.org,2002:python/object/apply:os.system> [x]",
    ],
)
def test_tags_are_refused(refused: Any, tagged: str) -> None:
    line = refused(HEAD + f"    attrs:\n      a: {tagged}\n", "ops.yaml")
    assert line.startswith("ops.yaml line 9: operator 'add': field attrs.a: the tag '")
    assert "is not allowed" in line


def test_a_billion_laughs_are_refused_quickly(refused: Any) -> None:
    lines = ["    attrs:", "      l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"      l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 9)}]" for at in range(1, 30)]
    begun = time.process_time()
    line = refused(HEAD + "\n".join(lines) + "\n", "ops.yaml")
    assert time.process_time() - begun < 1
    assert "operator 'add': field attrs.l" in line
    assert "aliases repeat too much" in line


def test_a_large_text_repeated_too_often_is_refused() -> None:
    text = f"a: &a {'x' * 2**20}\nb: [{', '.join(['*a'] * 1000)}]\n"
    with pytest.raises(InputError, match="aliases repeat too much"):
        read_yaml(text, "ops.yaml")


def test_merged_bombs_are_refused() -> None:
    lines = ["m0: &m0 {" + ", ".join(f"k{at}: 1" for at in range(1000)) + "}"]
    lines += [f"m{at}: &m{at} {{<<: [{', '.join([f'*m{at - 1}'] * 20)}]}}" for at in range(1, 12)]
    with pytest.raises(InputError, match="aliases repeat too much"):
        read_yaml("\n".join(lines), "ops.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &x [*x]", "line 1: field a[0]: *x refers to nothing that ends above it"),
        ("a: *x", "line 1: field a: *x refers to nothing"),
        ("a: 1\nb: 2\na: 3\n", "line 3: field a: is given twice"),
        ("a: {b: 1, 'b': 2}", "line 1: field a.b: is given twice"),
        ("1: x", "line 1: the name 1 must be text (quote it)"),
        ("a: {true: x}", "line 1: field a: the name True must be text (quote it)"),
        ("? [a]\n: b", "line 1: a list or mapping can not be a name"),
        ("? {a: b}\n: c", "a list or mapping can not be a name"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins (give one document a file)"),
        ("a: [1, 2\n", "line 2 column 1: not YAML"),
        ("a: b: c", "line 1 column 5: not YAML: mapping values are not allowed"),
        ("a:\n\t- b", "line 2 column 1: not YAML"),
        ("a: \x00", "not YAML"),
        ("a: \x07", "not YAML"),
        ("%YAML 3.0\n---\na: 1\n", "not YAML"),
        ("a: @x", "not YAML"),
        ("a: {<<: 1}", "field a: << merges mappings only"),
        ("a: {<<: [1]}", "field a: << merges mappings only"),
        ("ops:\n- {name: x, attrs: {a: on}}", "line 2: operator 'x': field attrs.a: on is true or false to some"),
        ("ops:\n- {attrs: {a: on}, name: x}", "line 2: operator #1: field attrs.a: on is"),
    ],
)
def test_yaml_that_a_manifest_does_not_use(text: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        read_yaml(text, "ops.yaml")
    assert f"ops.yaml {told}" in str(refused.value) or told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_sharing_with_anchors_and_merges() -> None:
    text = """
version: 1
soc: sm_90
toolchain: cuda
ops:
  - &add
    name: add
    type: Add
    inputs: [&t {shape: [32, -1], dtype: float16}, *t]
    source: {text: "int add;"}
    attrs: {axis: 1}
  - <<: *add
    name: sub
    attrs: {axis: 2}
"""
    add, sub = parse(read_yaml(text, "ops.yaml"), where="ops.yaml", folder=None)
    assert add.inputs == sub.inputs
    assert add.inputs[0] == add.inputs[1]
    assert (sub.name, sub.type, sub.attrs, add.attrs) == ("sub", "Add", {"axis": 2}, {"axis": 1})


def test_the_first_of_several_merged_mappings_wins() -> None:
    assert value_of("{<<: [{a: 1}, {a: 2, b: 3}], c: 4}") == {"a": 1, "b": 3, "c": 4}
    assert value_of("{a: 0, <<: {a: 1, b: 2}}") == {"a": 0, "b": 2}
    assert value_of("['<<', <<]") == ["<<", "<<"]
    assert value_of("{'<<': 1}") == {"<<": 1}


def test_the_pure_python_parser_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = HEAD + "    attrs: {a: [1, 1e-5, x, 'yes', ~], b: &b {c: !!str 1}, d: *b}\n"
    expected = read_yaml(text, "ops.yaml")
    monkeypatch.setattr("farm.request.yaml_document._LOADER", yaml.SafeLoader)
    assert read_yaml(text, "ops.yaml") == expected
