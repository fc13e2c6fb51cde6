"""The key, in pairs: what must change it, and what must not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import farm
from farm.request.job_options import JobOptions
from farm.request.key import PARTS, key, parts
from farm.request.model import Blob, Request, Tensor
from farm.request.options import OptionSpec, resolve
from tests.unit.request.sample import FINGERPRINT, sample, source


def key_of(request: Request, fingerprint: str = FINGERPRINT) -> bytes:
    return key(request, fingerprint)


def command(argv: list[str], executable: bytes = b"\2" * 32) -> Request:
    return sample(toolchain="command", options={"argv": argv}, executable=executable)


# ------------------------------------------------------------------------------------ must change the key

CHANGES: dict[str, dict[str, Any]] = {
    "type": {"type": "Sub"},
    "case of the type": {"type": "add"},
    "soc": {"soc": "sm_80"},
    "toolchain": {"toolchain": "host"},
    "shape": {"inputs": (Tensor((32, 0), "float16"), Tensor((32, 128), "float16", "NZ"))},
    "order of inputs": {"inputs": (Tensor((32, 128), "float16", "NZ"), Tensor((32, -1), "float16"))},
    "one input less": {"inputs": (Tensor((32, -1), "float16"),)},
    "dtype": {"outputs": (Tensor((32, 128), "bfloat16"),)},
    "format": {"outputs": (Tensor((32, 128), "float16", "NZ"),)},
    "an attr's value": {"attrs": {"axis": 1, "nested": {"eps": 1.5, "list": [1, "x", None]}}},
    "an attr gone": {"attrs": {"axis": -1}},
    "a nested attr": {"attrs": {"axis": -1, "nested": {"eps": 1.25, "list": [1, "x", None]}}},
    "order inside a list": {"attrs": {"axis": -1, "nested": {"eps": 1.5, "list": ["x", 1, None]}}},
    "source": {"source": source(main=Blob.of(b"int sub;\n"))},
    "suffix": {"source": source(suffix=".c")},
    "content of a header": {"source": source(files={"half.h": Blob.of(b"// HALF")})},
    "name of a header": {"source": source(files={"Half.h": Blob.of(b"// half")})},
    "content in an include folder": {"source": source(include_dirs=({"a.h": Blob.of(b"// A")},))},
    "order of include folders": {"source": source(include_dirs=source().include_dirs[::-1])},
    "entry": {"entry": "sub_kernel"},
    "no entry": {"entry": None},
    "content of a dependency": {"depends": {"bank": b"\3" * 32}},
    "another dependency": {"depends": {"bank": b"\1" * 32, "other": b"\1" * 32}},
    "an option": {"options": {"flags": ["-O3"], "defines": {"BLOCK": 256}}},
    "a debug level": {"job_options": JobOptions(private="job@1", op_debug_level=1)},
    "another debug level": {"job_options": JobOptions(private="job@1", op_debug_level=2)},
    "debug values": {"job_options": JobOptions(private="job@1", op_debug_config=("ccec_g",))},
    "private": {"job_options": JobOptions(private="job@1")},
    "private to a later run": {"job_options": JobOptions(private="job@2")},
    "cores": {"job_options": JobOptions(aicore_num=(24, 48))},
    "cores the other way round": {"job_options": JobOptions(aicore_num=(48, 24))},
    "a define": {"options": {"flags": ["-O2"], "defines": {"BLOCK": 128}}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_the_key(change: dict[str, Any]) -> None:
    assert key_of(sample(**change)) != key_of(sample())


def test_every_single_change_has_a_key_of_its_own() -> None:
    keys = {key_of(sample(**change)) for change in CHANGES.values()}
    assert len(keys) == len(CHANGES)


def test_the_fingerprint_changes_the_key() -> None:
    assert key_of(sample(), "f1" * 32) != key_of(sample())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (True, 1),
        (False, 0),
        (None, "None"),
        (None, False),
        (None, ""),
        (1.5, -1.5),
        (-0.0, 0.0),
        (1, "1"),
        ("a-b", "a_b"),
        ("Conv", "conv"),
        ("a", ["a"]),
        ([], {}),
        ([[1], 2], [1, [2]]),
        ({"a": {"b": 1}}, {"a": {}, "b": 1}),
        (2**62, 2.0**62),
        ("x ", "x"),
    ],
)
def test_two_values_that_look_alike_are_two_keys(one: Any, other: Any) -> None:
    assert key_of(sample(attrs={"v": one})) != key_of(sample(attrs={"v": other}))
    assert key_of(sample(options={"v": one})) != key_of(sample(options={"v": other}))


def test_a_field_boundary_can_not_be_moved() -> None:
    assert key_of(sample(attrs={"ab": "c"})) != key_of(sample(attrs={"a": "bc"}))
    assert key_of(sample(type="AB", soc="C")) != key_of(sample(type="A", soc="BC"))


def test_content_moved_between_files_is_another_key() -> None:
    here, there = Blob.of(b"1"), Blob.of(b"2")
    assert key_of(sample(source=source(files={"a.h": here, "b.h": there}))) != key_of(
        sample(source=source(files={"a.h": there, "b.h": here}))
    )
    assert key_of(sample(source=source(files={"a.h": here}, include_dirs=()))) != key_of(
        sample(source=source(files={}, include_dirs=({"a.h": here},)))
    )


def test_another_executable_behind_the_same_name_is_another_key() -> None:
    assert key_of(command(["/bin/cc", "-c"])) != key_of(command(["/bin/cc", "-c"], b"\4" * 32))
    assert key_of(command(["/bin/cc", "-c"])) != key_of(command(["/bin/cc2", "-c"]))
    assert key_of(command(["/bin/cc", "/a/x"])) != key_of(command(["/bin/cc", "/b/x"]))


# -------------------------------------------------------------------------------- must not change the key


def test_the_name_of_the_operator_does_not_matter() -> None:
    assert key_of(sample(name="something else")) == key_of(sample())


def test_the_order_of_mappings_does_not_matter() -> None:
    names = [f"attr{at}" for at in range(20)]
    shuffled = random.Random(7).sample(names, len(names))
    blobs = {f"{name}.h": Blob.of(name.encode()) for name in names}

    def of(order: list[str]) -> Request:
        attrs = {name: {inner: inner for inner in order} for name in order}
        files = {f"{name}.h": blobs[f"{name}.h"] for name in order}
        return sample(
            attrs=attrs,
            options=attrs,
            depends={name: name.encode().ljust(32) for name in order},
            source=source(files=files, include_dirs=(files,)),
        )

    assert key_of(of(names)) == key_of(of(shuffled))


def test_list_and_tuple_are_one() -> None:
    assert key_of(sample(attrs={"v": [1, [2, 3]]})) == key_of(sample(attrs={"v": (1, (2, 3))}))
    assert key_of(sample(inputs=[Tensor(cast(Any, [2, 3]), "f")])) == key_of(sample(inputs=(Tensor((2, 3), "f"),)))


NFC, NFD = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    "of",
    [
        lambda text: sample(attrs={text: 1}),
        lambda text: sample(attrs={"v": [{"w": text}]}),
        lambda text: sample(options={text: text}),
        lambda text: sample(type=text),
        lambda text: sample(entry=text),
        lambda text: sample(depends={text: b"\1" * 32}),
        lambda text: sample(source=source(files={f"{text}.h": Blob.of(b"")})),
        lambda text: sample(source=source(include_dirs=({f"{text}.h": Blob.of(b"")},))),
    ],
)
def test_two_spellings_of_an_accent_are_one_key(of: Any) -> None:
    assert of(NFC) == of(NFD)
    assert key_of(of(NFC)) == key_of(of(NFD))


def test_content_is_never_normalised() -> None:
    assert key_of(sample(source=source(main=Blob.of(NFC.encode())))) != key_of(
        sample(source=source(main=Blob.of(NFD.encode())))
    )


def test_a_default_and_its_explicit_value_are_one_key() -> None:
    schema = {"opt": OptionSpec("int", 3), "flags": OptionSpec("strings", ()), "std": OptionSpec("str", None)}

    def of(options: dict[str, Any]) -> bytes:
        return key_of(sample(options=resolve(options, schema, "test")))

    assert of({}) == of({"opt": 3}) == of({"flags": []}) == of({"std": None, "flags": (), "opt": 3})
    assert of({}) != of({"opt": 2})


def test_whether_data_travels_does_not_matter() -> None:
    main = source().main
    assert key_of(sample(source=source(main=Blob(main.sha256, main.size_bytes)))) == key_of(sample())


def test_the_folder_of_the_executable_does_not_matter() -> None:
    keys = {key_of(command([path, "-c"])) for path in ("/usr/bin/cc", "/opt/here/cc", "cc")}
    assert len(keys) == 1


def test_a_copy_has_the_same_key() -> None:
    assert key_of(replace(sample())) == key_of(sample())


# -------------------------------------------------------------------------------------- same everywhere

_IN_A_FRESH_INTERPRETER = """
import random, sys, types
farm = sys.modules["farm"] = types.ModuleType("farm")  # its own __init__ brings the whole client along
farm.__path__ = [sys.argv[2]]
from tests.unit.request.sample import FINGERPRINT, sample, source
from farm.request.key import key
names = [f"n{at}" for at in range(30)]
random.Random(int(sys.argv[1])).shuffle(names)
blobs = {name: source().main for name in {*names}}
request = sample(attrs={n: [n, {m: 1.0 for m in names}] for n in names}, source=source(files=blobs))
print(key(request, FINGERPRINT).hex())
"""


def test_twenty_fresh_interpreters_agree() -> None:
    root = str(Path(farm.__file__).parent.parent)
    keys: set[bytes] = set()
    for at in range(0, 20, 4):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _IN_A_FRESH_INTERPRETER, str(seed), f"{root}/farm"],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": str(seed * 991)},
            )
            for seed in range(at, at + 4)
        ]
        for process in running:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            keys.add(out.strip())
    assert len(keys) == 1


def test_the_key_of_the_sample_never_changes() -> None:
    """Raise KEY_SCHEMA_VERSION when this must change: every entry of every farm is lost with it."""
    assert key_of(sample()).hex() == "63bfb337573d6b651a7df50c1dd039fda340aff707f548f971a6264632d11cc1"


def test_parts_are_the_table_in_order() -> None:
    assert list(parts(sample(), FINGERPRINT)) == [name for name, _ in PARTS]
    assert len(key_of(sample())) == 32
