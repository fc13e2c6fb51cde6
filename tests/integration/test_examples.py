"""The example operators compile with a plain g++ and compute what they say; no farm takes part."""

from __future__ import annotations

import ctypes
import math
import random
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.request.manifest import load as load_manifest
from tests.integration.reference_ops import REFERENCE

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "cpp"
OPS = yaml.safe_load((FOLDER / "ops.yaml").read_text())["ops"]
#: struct code, and the relative error allowed: half a unit in the last place for the 16-bit types.
DTYPES = {
    "float32": ("f", 2e-5),
    "float64": ("d", 1e-12),
    "float16": ("e", 2**-11 + 2e-5),
    "bfloat16": ("H", 2**-8 + 2e-5),
    "int32": ("i", 0),
    "int8": ("b", 0),
}


def store(values: list[float], dtype: str) -> bytes:
    if dtype == "bfloat16":  # truncated: inputs need no rounding, only to be representable
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}{DTYPES[dtype][0]}", *values)


def load(data: bytes, dtype: str) -> list[float]:
    if dtype == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    code = DTYPES[dtype][0]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def sample(rng: random.Random, op: dict[str, Any], position: int) -> bytes:
    tensor = op["inputs"][position]
    count, dtype = math.prod(tensor["shape"]), tensor["dtype"]
    if op["type"] == "Gather" and position == 1:
        return store([rng.randrange(op["inputs"][0]["shape"][0]) for _ in range(count)], dtype)
    if dtype.startswith("int"):
        return store([rng.randrange(-100, 101) for _ in range(count)], dtype)
    return store([rng.uniform(-2, 2) for _ in range(count)], dtype)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every operator of the manifest, compiled; warnings are errors."""
    folder = tmp_path_factory.mktemp("examples")

    def build(op: dict[str, Any]) -> Path:
        out, options, source = folder / f"{op['name']}.so", op["options"], op["source"]
        command = [
            "g++",
            "-std=c++17",
            "-O2",
            *options.get("flags", []),
            "-shared",
            "-fPIC",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]
        command += [f"-D{name}={value}" for name, value in options["defines"].items()]
        command += [f"-I{FOLDER / include}" for include in source["include_dirs"]]
        done = subprocess.run(
            [*command, FOLDER / source["path"], "-o", out], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{op['name']}: {done.stderr}"
        return out

    with ThreadPoolExecutor() as pool:
        return dict(zip((op["name"] for op in OPS), pool.map(build, OPS), strict=True))


def test_the_manifest_is_varied() -> None:
    assert len({op["name"] for op in OPS}) == len(OPS) >= 36
    assert {t["dtype"] for op in OPS for t in op["inputs"] + op["outputs"]} == set(DTYPES)
    assert {op["type"] for op in OPS} == set(REFERENCE)


@pytest.mark.parametrize("op", OPS, ids=[op["name"] for op in OPS])
def test_operator_computes_what_it_says(op: dict[str, Any], libraries: dict[str, Path]) -> None:
    inputs = [sample(random.Random(op["name"]), op, i) for i in range(len(op["inputs"]))]
    (result,) = op["outputs"]
    code, tolerance = DTYPES[result["dtype"]]
    out = ctypes.create_string_buffer(math.prod(result["shape"]) * struct.calcsize(code))
    getattr(ctypes.CDLL(str(libraries[op["name"]])), op["entry"])(*inputs, out)

    values = [load(data, t["dtype"]) for data, t in zip(inputs, op["inputs"], strict=True)]
    expected = REFERENCE[op["type"]]([t["shape"] for t in op["inputs"]], *values, **op.get("attrs", {}))
    if result["dtype"] == "int8":
        expected = [min(max(v, -128), 127) for v in expected]
    scale = max(1.0, *(abs(v) for v in expected))
    pairs = zip(load(out.raw, result["dtype"]), expected, strict=True)
    assert [(a, b) for a, b in pairs if not abs(a - b) <= tolerance * scale] == []


@pytest.mark.parametrize(("toolchain", "folder", "soc"), [("host", "cpp", "x86_64"), ("command", "command", None)])
def test_the_farm_reads_the_manifest(toolchain: str, folder: str, soc: str | None) -> None:
    manifest = FOLDER.parent / folder / "ops.yaml"
    requests = load_manifest(manifest, soc=soc)
    assert [request.name for request in requests] == [op["name"] for op in yaml.safe_load(manifest.read_text())["ops"]]
    assert {(request.toolchain, request.soc) for request in requests} == {(toolchain, soc or "any-name")}
