"""Manifests: what they mean, and how a wrong one is told."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest
import yaml

from farm.errors import InputError
from farm.request.manifest import load, parse
from farm.request.model import Tensor

# --------------------------------------------------------------------------------------------- good ones


def test_every_field_arrives(write: Any) -> None:
    (request,) = load(write())
    assert (request.name, request.type, request.soc, request.toolchain) == ("add", "Add", "sm_90", "cuda")
    assert request.inputs == request.outputs == (Tensor((32, 128), "float16", "ND"),)
    assert request.attrs == {"axis": -1}
    assert request.entry == "add_kernel"
    assert request.options == {"defines": {"BLOCK": 256}}
    assert request.source.main.data == b"int add;"
    assert request.source.suffix == ""
    assert (request.depends, request.executable) == ({}, None)


def test_three_formats_say_the_same(write: Any, manifest: dict[str, Any]) -> None:
    manifest["ops"][0]["attrs"] = {"eps": 1e-5, "whole": 1.0, "none": None, "yes": "yes", "l": [1, [True]], "e": {}}
    expected = load(write())
    block = yaml.safe_dump(manifest)
    assert load(write(block, "ops.yaml")) == expected
    assert load(write(block, "ops.yml")) == expected
    assert load(write(msgpack.packb(manifest), "ops.msgpack")) == expected
    assert load(write(json.dumps(manifest), "json-is.yaml")) == expected


def test_the_format_is_told_by_content_when_the_suffix_says_nothing(write: Any, manifest: dict[str, Any]) -> None:
    expected = load(write())
    for content in (json.dumps(manifest), yaml.safe_dump(manifest), yaml.dump(manifest, default_flow_style=True)):
        assert load(write(content, "ops")) == expected
        assert load(write("\ufeff" + content, "ops.txt")) == expected
    assert load(write(msgpack.packb(manifest), "ops.bin")) == expected


@pytest.mark.parametrize("name", ["ops.json", "ops.yaml"])
def test_a_byte_order_mark_is_ignored(write: Any, manifest: dict[str, Any], name: str) -> None:
    assert len(load(write("\ufeff" + json.dumps(manifest), name))) == 1


@pytest.mark.parametrize("pack", [json.dumps, yaml.safe_dump, msgpack.packb])
def test_standard_input(
    write: Any, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pack: Any
) -> None:
    write("int x;", "k/x.cu")
    manifest["ops"][0]["source"] = {"path": "k/x.cu"}
    packed = pack(manifest)
    stdin = io.TextIOWrapper(io.BytesIO(packed if isinstance(packed, bytes) else packed.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.chdir(tmp_path)
    (request,) = load("-")
    assert request.source.main.data == b"int x;"


def test_an_operators_own_soc_wins_then_the_callers_then_the_manifests(manifest: dict[str, Any]) -> None:
    own = {**manifest["ops"][0], "name": "own", "soc": "own", "toolchain": "own"}
    manifest["ops"].append(own)

    def socs(**given: str) -> list[tuple[str, str]]:
        found = parse(manifest, where="doc", folder=None, **given)
        return [(one.soc, one.toolchain) for one in found]

    assert socs() == [("sm_90", "cuda"), ("own", "own")]
    assert socs(soc="given", toolchain="host") == [("given", "host"), ("own", "own")]
    del manifest["soc"], manifest["toolchain"]
    assert socs(soc="given", toolchain="host") == [("given", "host"), ("own", "own")]


def test_dynamic_and_empty_shapes(manifest: dict[str, Any], op: dict[str, Any]) -> None:
    op["inputs"] = [{"shape": [-1, 0], "dtype": "f"}, {"shape": [], "dtype": "f"}]
    op["outputs"] = []
    (request,) = parse(manifest, where="doc", folder=None)
    assert [one.shape for one in request.inputs] == [(-1, 0), ()]


def test_tuples_of_python_callers_are_lists(manifest: dict[str, Any], op: dict[str, Any]) -> None:
    op["inputs"] = ({"shape": (1, 2), "dtype": "f"},)
    manifest["ops"] = (op,)
    assert parse(manifest, where="doc", folder=None)[0].inputs == (Tensor((1, 2), "f"),)


# ------------------------------------------------------------------------------------------ wrong fields

ADD = "ops.json: operator 'add': field "


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"inptus": []}, "inptus: is not a known field (did you mean inputs?)"),
        ({"zzz": 1}, "zzz: is not a known field (valid: name, type,"),
        (
            {"inputs": [{"shape": [1], "dtype": "f", "shap": 1}]},
            "inputs[0].shap: is not a known field (did you mean shape?)",
        ),
        ({"source": {"text": "x", "pth": "y"}}, "source.pth: is not a known field (did you mean path?)"),
        ({"inputs": [{"dtype": "f"}]}, "inputs[0].shape: is missing"),
        (
            {"inputs": [{"shape": [1, -2], "dtype": "f"}]},
            "inputs[0].shape[1]: -2 is not a dimension (valid: 0 or more, or -1",
        ),
        ({"inputs": [{"shape": ["1"], "dtype": "f"}]}, "inputs[0].shape[0]: must be a whole number, given '1'"),
        ({"inputs": [{"shape": [True], "dtype": "f"}]}, "inputs[0].shape[0]: must be a whole number, given True"),
        ({"inputs": [{"shape": [1.0], "dtype": "f"}]}, "inputs[0].shape[0]: must be a whole number, given 1.0"),
        ({"inputs": [{"shape": [None], "dtype": "f"}]}, "inputs[0].shape[0]: must be a whole number, given None"),
        ({"inputs": [{"shape": 32, "dtype": "f"}]}, "inputs[0].shape: must be a list, given 32"),
        ({"inputs": [{"shape": "32", "dtype": "f"}]}, "inputs[0].shape: must be a list, given '32'"),
        ({"inputs": [{"shape": [10**30], "dtype": "f"}]}, "inputs[0].shape[0]: "),
        ({"inputs": [{"shape": [1], "dtype": "float-16"}]}, "inputs[0].dtype: 'float-16' is not valid"),
        ({"inputs": [{"shape": [1], "dtype": 16}]}, "inputs[0].dtype: must be text, given 16"),
        ({"outputs": [{"shape": [1], "dtype": "f", "format": ""}]}, "outputs[0].format: '' is not valid"),
        ({"inputs": {}}, "inputs: must be a list, given {}"),
        ({"inputs": [[1]]}, "inputs[0]: must be a mapping, given [1]"),
        ({"inputs": None}, "inputs: must be a list, given None"),
        ({"attrs": [1]}, "attrs: must be a mapping, given [1]"),
        ({"attrs": {"a": 10**20}}, "attrs.a: is outside the 64 bit integers"),
        ({"attrs": {"a": "\0"}}, "attrs.a: must not contain a NUL"),
        ({"attrs": {"a\nb": 2**63}}, "attrs.'a\\nb': holds a control character"),
        ({"type": ""}, "type: is empty"),
        ({"type": 5}, "type: must be text, given 5"),
        ({"soc": "a b"}, "soc: 'a b' is not valid; valid: 1 to 64 letters"),
        ({"toolchain": ""}, "toolchain: '' is not valid"),
        ({"entry": ""}, "entry: is empty"),
        ({"source": "x.cu"}, "source: must be a mapping, given 'x.cu' (with path, text, files, include_dirs)"),
        ({"source": {}}, "source: must have exactly one of path and text"),
        ({"source": {"path": "a", "text": "b"}}, "source: must have exactly one of path and text"),
        ({"source": {"text": "b", "files": {"/etc/x": ""}}}, "source.files: '/etc/x' is absolute"),
        ({"source": {"text": "b", "files": {"a.h": 1}}}, "source.files.a.h: must be text, given 1"),
        ({"depends": "bank"}, "depends: must be a list, given 'bank'"),
        ({"options": 5}, "options: must be a mapping, given 5"),
        ({"options": {"a": {"b": [2**64]}}}, "options.a.b[0]: is outside the 64 bit"),
    ],
)
def test_a_wrong_field_is_named(refused: Any, op: dict[str, Any], changed: dict[str, Any], told: str) -> None:
    op.update(changed)
    line = refused()
    assert line.startswith(ADD)
    assert told in line


def test_an_operator_without_a_usable_name_is_named_by_position(refused: Any, op: dict[str, Any]) -> None:
    for name in (None, 7, "", " "):
        op["name"] = name
        assert refused().startswith("ops.json: operator #1: field name: ")
    del op["name"]
    assert refused() == "ops.json: operator #1: field name: is missing"


def test_a_name_with_a_line_feed_stays_on_one_line(refused: Any, op: dict[str, Any]) -> None:
    op["name"] = "a\nb" * 1000
    assert "field name: has 3000 characters" in refused()


def test_several_wrong_fields_are_counted(refused: Any, op: dict[str, Any]) -> None:
    op.update(type=1, entry=2, attrs=3)
    assert refused() == ADD + "type: must be text, given 1 (and 2 more)"


def test_duplicate_names(refused: Any, manifest: dict[str, Any], op: dict[str, Any]) -> None:
    op["name"] = "caf\u00e9"
    manifest["ops"] += [{**op, "name": "b"}, {**op, "name": "cafe\u0301"}]
    assert refused().startswith("ops.json: operator #3: field name: 'caf\u00e9' is #1's already")


@pytest.mark.parametrize("name", ["soc", "toolchain"])
def test_no_default_for_what_an_operator_needs(refused: Any, manifest: dict[str, Any], name: str) -> None:
    del manifest[name]
    assert refused() == f"{ADD}{name}: is missing (give it to the operator, to the manifest, or as --{name})"


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None, []])
def test_a_wrong_version_is_told_before_anything_else(refused: Any, manifest: dict[str, Any], version: Any) -> None:
    manifest.update(version=version, unknown=1)
    assert refused() == f"ops.json: field version: is {version!r} (valid: 1)"
    del manifest["version"]
    assert refused() == "ops.json: field version: is missing (valid: 1)"


def test_unknown_and_wrong_fields_of_the_manifest_itself(refused: Any, manifest: dict[str, Any]) -> None:
    assert refused({**manifest, "tolchain": 1}).startswith(
        "ops.json: field tolchain: is not a known field (did you mean toolchain?)"
    )
    assert refused({**manifest, "soc": 5}) == "ops.json: field soc: must be text, given 5"
    assert refused({**manifest, "ops": {}}) == "ops.json: field ops: must be a list, given {}"
    assert refused({**manifest, "ops": ["x"]}).startswith(
        "ops.json: operator #1: must be a mapping, given 'x' (with name, type, "
    )
    assert refused({"version": 1}) == "ops.json: field ops: is missing"
    assert refused({"version": 1, "ops": []}) == "ops.json: field ops: is empty (give at least one operator)"


@pytest.mark.parametrize("document", [None, [], [1], "x", 7, True])
def test_what_is_not_a_mapping_is_no_manifest(refused: Any, refused_document: Any, document: Any) -> None:
    assert refused_document(document).startswith("doc: must be a mapping, given ")
    if document is not None:
        assert refused(json.dumps(document)).startswith("ops.json: must be a mapping, given ")


def test_names_that_are_not_text_are_refused(
    refused_document: Any, manifest: dict[Any, Any], op: dict[Any, Any]
) -> None:
    op["attrs"] = {1: 2}
    assert refused_document(manifest) == "doc: operator 'add': field attrs.1: must be text, given 1"
    op["attrs"] = {}
    assert refused_document({**manifest, 5: 1}).startswith("doc: field 5: ")


def test_a_manifest_that_can_not_be_read(tmp_path: Path, write: Any) -> None:
    def told(path: Path) -> str:
        with pytest.raises(InputError) as refused:
            load(path)
        return str(refused.value)

    assert "does not exist (name a manifest file, or - for standard input)" in told(tmp_path / "no.json")
    assert "is a folder" in told(tmp_path)
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert "loop of symbolic links" in told(loop)
    assert "not a regular file" in told(Path("/dev/zero"))
    assert "does not exist" in told(write() / "below")
