"""The CUDA examples compute what they say: run on the CPU, thread by thread, as no GPU is needed to build them.

That NVRTC compiles them is for the toolchain's own tests to show.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.request.manifest import load as load_manifest
from tests.integration.reference_cuda_ops import REFERENCE
from tests.integration.test_examples import DTYPES, load, store

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "cuda"
CPU = Path(__file__).parents[1] / "support" / "cuda_on_cpu"
OPS = yaml.safe_load((FOLDER / "ops.yaml").read_text())["ops"]
#: Attention rounds its weights to 16 bits before it adds them up.
ROOM = {"Attention": 3}
GUARD = bytes(range(64))


def recipe(op: dict[str, Any]) -> tuple[str, str]:
    """What decides the code on a CPU: operators that differ only in the target share it."""
    return op["source"]["path"], repr(sorted(op["options"]["defines"].items()))


#: One operator of each recipe.
DISTINCT = list({recipe(op): op for op in OPS}.values())


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every operator of the manifest as a library for this machine; warnings are errors."""
    folder = tmp_path_factory.mktemp("cuda")
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    # Statics stand for shared memory, of which each library has its own, whatever it is called.
    command += ["-fno-strict-aliasing", "-fno-gnu-unique", f"-I{CPU}", f"-I{FOLDER / 'include'}"]
    device = folder / "device.o"
    subprocess.run([*command, "-c", CPU / "device.cpp", "-o", device], check=True)

    def build(op: dict[str, Any]) -> Path:
        out = folder / f"{op['name']}.so"
        defines = [f"-D{name}={value}" for name, value in op["options"]["defines"].items()]
        source = ["-include", CPU / "device.h", "-x", "c++", FOLDER / op["source"]["path"], "-x", "none", device]
        done = subprocess.run(
            [*command, *defines, "-shared", *source, "-o", out], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{op['name']}: {done.stderr}"
        return out

    with ThreadPoolExecutor(2) as pool:
        return dict(zip((op["name"] for op in DISTINCT), pool.map(build, DISTINCT), strict=True))


def test_the_manifest_is_varied() -> None:
    assert len({op["name"] for op in OPS}) == len(OPS) >= 44
    assert {op["soc"] for op in OPS} == {"sm_80", "sm_90"}
    assert {op["options"]["defines"]["DTYPE"] for op in OPS} == {"float32", "float16", "bfloat16"}
    assert {op["type"] for op in OPS} == set(REFERENCE)
    assert {FOLDER / op["source"]["path"] for op in OPS} == set((FOLDER / "src").iterdir())


def test_the_farm_reads_the_manifest() -> None:
    requests = load_manifest(FOLDER / "ops.yaml")
    assert [(request.name, request.soc) for request in requests] == [(op["name"], op["soc"]) for op in OPS]
    assert {request.toolchain for request in requests} == {"cuda"}


def sample(rng: random.Random, op: dict[str, Any], position: int) -> bytes:
    tensor = op["inputs"][position]
    count, dtype = math.prod(tensor["shape"]), tensor["dtype"]
    if dtype == "int32":  # indices: into the table's rows, or the columns of logits; one lies outside
        limit = op["inputs"][0]["shape"][0 if op["type"] == "Gather" else 1]
        return store([-100, *(rng.randrange(limit) for _ in range(count - 1))], dtype)
    if dtype == "int8":
        return store([rng.randrange(-127, 128) for _ in range(count)], dtype)
    return store([rng.uniform(-2, 2) for _ in range(count)], dtype)


def run(op: dict[str, Any], library: Path, inputs: list[bytes], *, backwards: bool) -> list[bytes]:
    """Run an operator as its own ``launch`` says, over outputs that begin as NaN and end in guards."""
    kernels = ctypes.CDLL(str(library))
    sizes = [math.prod(t["shape"]) * struct.calcsize(DTYPES[t["dtype"]][0]) for t in op["outputs"]]
    outputs = [ctypes.create_string_buffer(b"\xff" * size + GUARD) for size in sizes]
    given = [*(ctypes.create_string_buffer(data, len(data)) for data in inputs), *outputs]
    pointers = (ctypes.c_void_p * 6)(*(ctypes.addressof(buffer) for buffer in given))
    launch = (ctypes.c_int * 3).in_dll(kernels, "launch")
    kernels.run_grid(getattr(kernels, op["entry"]), launch, pointers, ctypes.c_bool(backwards))
    assert [buffer.raw[size:-1] for buffer, size in zip(outputs, sizes, strict=True)] == [GUARD] * len(outputs)
    return [buffer.raw[:size] for buffer, size in zip(outputs, sizes, strict=True)]


def expected(op: dict[str, Any], inputs: list[bytes]) -> Sequence[list[float]]:
    values = [load(data, t["dtype"]) for data, t in zip(inputs, op["inputs"], strict=True)]
    result = REFERENCE[op["type"]]([t["shape"] for t in op["inputs"]], *values, **op.get("attrs", {}))
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("op", DISTINCT, ids=[op["name"] for op in DISTINCT])
def test_operator_computes_what_it_says(op: dict[str, Any], libraries: dict[str, Path]) -> None:
    inputs = [sample(random.Random(op["name"]), op, i) for i in range(len(op["inputs"]))]
    results = run(op, libraries[op["name"]], inputs, backwards=False)
    for data, wanted, tensor in zip(results, expected(op, inputs), op["outputs"], strict=True):
        tolerance = DTYPES[tensor["dtype"]][1] * ROOM.get(op["type"], 1)
        # A quantized value may fall to either side of a tie.
        allowed = tolerance * max(1.0, *map(abs, wanted)) if tensor["dtype"] != "int8" else 1
        pairs = zip(load(data, tensor["dtype"]), wanted, strict=True)
        assert [(a, b) for a, b in pairs if not abs(a - b) <= allowed] == []
    assert run(op, libraries[op["name"]], inputs, backwards=True) == results, "a barrier is missing"
