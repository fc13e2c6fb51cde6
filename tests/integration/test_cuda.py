"""Toolchain ``cuda`` with the real NVRTC: no GPU, no driver."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.index.outcomes import Failure
from farm.request import manifest
from farm.request.job_options import JobOptions
from farm.request.model import Request, Source
from farm.request.options import resolve
from farm.settings import Settings
from tests.support.kit import running
from tests.support.nvrtc import EM_CUDA, direct_of, headers, needs_nvrtc, read_cubin
from tests.unit.workers.requests import request, source
from workers.keeping import Limits
from workers.runner import Compiled, Stop, compile
from workers.scratch import ScratchArea
from workers.toolchains import cuda, nvrtc
from workers.toolchains.cuda import CudaToolchain
from workers.toolchains.pinned import Pinned
from workers.verdict import OwnTrouble

pytestmark = needs_nvrtc

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "cuda" / "ops.yaml"
LIMITS = Limits(timeout_seconds=100)

ADD = """
extern "C" __global__ void add(const float4* a, const float4* b, float4* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT / 4) out[i] = {a[i].x + b[i].x, a[i].y + b[i].y, a[i].z + b[i].z, a[i].w + b[i].w};
}
"""
SUM = """
#include <sub/warp.cuh>
extern "C" __global__ void sum(const float* x, float* out) {
    __shared__ float part[LANES];
    float v = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x % LANES == 0) part[threadIdx.x / LANES] = v;
    __syncthreads();
    if (threadIdx.x < LANES) v = warp_sum(threadIdx.x < blockDim.x / LANES ? part[threadIdx.x] : 0.f);
    if (threadIdx.x == 0) atomicAdd(out, v);
}
"""
WARP = """
#pragma once
#include "../limits.h"
__device__ __noinline__ float warp_sum(float v) {
    for (int lane = LANES / 2; lane > 0; lane /= 2) v += __shfl_down_sync(0xffffffff, v, lane);
    return v;
}
"""
HALF = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void both(__half2* a, __nv_bfloat16* b) {
    a[threadIdx.x] = __hmul2(a[threadIdx.x], __float2half2_rn(SCALE));
    b[threadIdx.x] = __float2bfloat16(__bfloat162float(b[threadIdx.x]) * SCALE);
}
"""
TEMPLATE = """
#include <cuda_fp16.h>
namespace ops { template <class T, int N> __global__ void scale(T* x, T by) {
    #pragma unroll
    for (int i = 0; i < N; ++i) x[threadIdx.x * N + i] = x[threadIdx.x * N + i] * by;
} }
"""
FAST = 'extern "C" __global__ void f(float* x) { *x = expf(*x) / sinf(*x) * 3.f + 1.f; }'
SUM_SOURCE = source(SUM, {}, {"other.h": ""}, {"sub/warp.cuh": WARP, "limits.h": "#define LANES 32"}, suffix=".cu")


def ask(given: Source | str, soc: str = "sm_80", entry: str | None = None, **options: Any) -> Request:
    given = source(given, suffix=".cu") if isinstance(given, str) else given
    return request(schema=cuda.SCHEMA, toolchain="cuda", soc=soc, source=given, entry=entry, options=options)


OWN = {
    "vector loads": ask(ADD, entry="add", defines={"COUNT": 4096}),
    "headers": ask(SUM_SOURCE, "sm_90", "sum"),
    "half": ask(HALF, "sm_90", "both", defines={"SCALE": 0.5}),
    "template": ask(TEMPLATE, "sm_86", "ops::scale<float, 4>", names=["ops::scale<__half, 2>"], std="c++20"),
    "fast math": ask(FAST, "sm_75", "f", flags=["-use_fast_math", "-maxrregcount=32"]),
}


def examples() -> dict[str, Request]:
    found = manifest.load(EXAMPLES) if EXAMPLES.exists() else []
    return {op.name: replace(op, options=resolve(op.options, cuda.SCHEMA, op.name)) for op in found}


@pytest.fixture(scope="module")
def toolchain() -> CudaToolchain:
    found = cuda.find(Settings.read({}))
    assert not isinstance(found, str), found
    return found


@pytest.fixture
def area(tmp_path: Path) -> Iterator[ScratchArea]:
    area = ScratchArea.open(tmp_path / "a scratch folder")
    yield area
    area.close()


def made(toolchain: CudaToolchain, area: ScratchArea, asked: Request) -> dict[str, bytes]:
    result = compile(asked, toolchain, area, LIMITS, Stop())
    assert isinstance(result, Compiled), result
    assert {file.mode for file in result.files} == {0o444}
    return {file.name: file.data for file in result.files}


def refused(toolchain: CudaToolchain, area: ScratchArea, asked: Request) -> Failure:
    result = compile(asked, toolchain, area, LIMITS, Stop())
    assert isinstance(result, Failure), result
    assert str(area.folder) not in result.message + result.log_tail
    return result


@pytest.mark.parametrize("asked", [pytest.param(op, id=name) for name, op in (OWN | examples()).items()])
def test_the_bytes_are_those_of_nvrtc_called_directly(
    asked: Request, toolchain: CudaToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    files = made(toolchain, area, asked)
    wanted = direct_of(asked, tmp_path / "direct")
    assert sorted(files) == ["kernel.cubin", "kernel.json", "kernel.ptx"]
    assert files["kernel.cubin"] == wanted.cubin
    assert files["kernel.ptx"] == wanted.ptx
    described = json.loads(files["kernel.json"])
    assert described == {"entry": wanted.lowered[str(asked.entry)], "names": wanted.lowered, "soc": asked.soc}
    cubin = read_cubin(files["kernel.cubin"])
    assert cubin.machine == EM_CUDA
    assert f"sm_{cubin.soc_number}" == asked.soc.rstrip("af")
    assert set(wanted.lowered.values()) <= cubin.kernels


def test_socs_are_nvrtcs_own_list_and_its_variants(toolchain: CudaToolchain, area: ScratchArea) -> None:
    numbers = sorted({int(re.sub(r"\D", "", soc)) for soc in toolchain.socs})
    assert numbers[0] == 75 and {80, 90, 100} <= set(numbers)
    assert {"sm_90a", "sm_100a"} <= set(toolchain.socs) and "sm_80a" not in toolchain.socs
    for soc in (toolchain.socs[0], "sm_90a", toolchain.socs[-1]):
        cubin = read_cubin(made(toolchain, area, ask(ADD, soc, defines={"COUNT": 4}))["kernel.cubin"])
        assert cubin.soc_number == int(re.sub(r"\D", "", soc))


def test_what_it_registers(toolchain: CudaToolchain) -> None:
    assert (toolchain.name, len(toolchain.fingerprint)) == ("cuda", 64)
    assert re.fullmatch(r"\d+\.\d+", toolchain.version)


DEBUGGED = source(
    """
#include "beside.h"
#include <sub/warp.cuh>
#include <cuda_fp16.h>
namespace { __device__ int calls; }
extern "C" __global__ void k(float* x, const char** names) {
    assert(x[0] > 0);
    names[++calls] = __FILE__;
    x[1] = warp_sum(x[1]) + beside(names) + __half2float(__float2half(x[2]));
}
""",
    {"beside.h": "__device__ __noinline__ float beside(const char** n) { n[0] = __FILE__; return __LINE__; }"},
    {"sub/warp.cuh": WARP, "limits.h": "#define LANES 32"},
    suffix=".cu",
)


@pytest.mark.parametrize("flags", [[], ["-lineinfo"], ["-G"], ["-rdc=true"]], ids=" ".join)
def test_the_same_request_gives_the_same_bytes(flags: list[str], toolchain: CudaToolchain, tmp_path: Path) -> None:
    results = []
    for folder in ("x", "another, longer folder"):
        area = ScratchArea.open(tmp_path / folder)
        results.append(made(toolchain, area, ask(DEBUGGED, flags=flags)))
        area.close()
    assert results[0] == results[1]
    for data in results[0].values():
        assert str(tmp_path).encode() not in data and str(headers()).encode() not in data
    lines = b"/proc/self/cwd/source.cu" in results[0]["kernel.ptx"]
    assert lines == (flags in (["-lineinfo"], ["-G"]))


def test_the_fingerprint_follows_library_and_headers_and_not_their_place(tmp_path: Path) -> None:
    place = nvrtc.locate()
    assert not isinstance(place, str), place
    folder = tmp_path / "lib"
    folder.mkdir()
    for path in place.library.parent.glob("libnvrtc*"):
        (folder / path.name).symlink_to(path)
    shutil.copytree(place.include_dir, tmp_path / "include")  # its files have other times
    moved = replace(place, library=folder / place.library.name, include_dir=tmp_path / "include")

    def fingerprint(place: nvrtc.Place) -> str:
        found = nvrtc.inspect(place, "recipe")
        assert not isinstance(found, str), found
        return found.fingerprint

    same = {fingerprint(place), fingerprint(moved)}
    assert len(same) == 1
    others = [fingerprint(replace(moved, wheel="13.6.1")), fingerprint(replace(moved, headers="13.6.1"))]
    with (tmp_path / "include" / "cuda_fp16.hpp").open("a") as header:
        header.write("\n")
    others.append(fingerprint(moved))
    builtins = next(folder.glob("libnvrtc-builtins*"))
    data = builtins.read_bytes()
    builtins.unlink()
    builtins.write_bytes(data + b"\0")
    others.append(fingerprint(moved))
    assert len(same | set(others)) == 5


def test_a_library_that_changes_while_the_worker_runs(
    toolchain: CudaToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    header = tmp_path / "h.h"
    header.write_text("1")
    stale = CudaToolchain(replace(toolchain._compiler, pinned=Pinned([header])))
    header.write_text("2")
    failure = refused(stale, area, ask(FAST))
    assert failure == OwnTrouble("transient", f"{header} has changed since the worker started: restart the worker")


def test_headers_beside_above_and_in_include_folders(toolchain: CudaToolchain, area: ScratchArea) -> None:
    text = '#include "a.h"\n#include "../b.h"\n#include <c.h>\n__device__ int f = A + B + C;'
    files = {
        "a.h": "#define A 1",
        "../b.h": '#define B 20\n#include "deep/x/d.h"',
        "../deep/x/d.h": '#include "../../e.h"',
    }
    include_dirs = ({"c.h": "#define C 300"}, {"c.h": "#error the first folder wins"})
    given = source(text, files | {"../e.h": "#define E"}, *include_dirs, suffix=".cu")
    assert b" f = 321;" in made(toolchain, area, ask(given))["kernel.ptx"]


def test_headers_of_the_request_come_before_cudas(toolchain: CudaToolchain, area: ScratchArea) -> None:
    given = source("#include <cuda_fp16.h>\n__device__ int f = MINE;", {}, {"cuda_fp16.h": "#define MINE 7"})
    assert b" f = 7;" in made(toolchain, area, ask(given))["kernel.ptx"]


def test_a_compile_error_is_the_compilers_own_first(toolchain: CudaToolchain, area: ScratchArea) -> None:
    text = """
__device__ int unused() { int x; return 1; }
__device__ int f() {
    return undeclared;  // out of memory: No space left on device
}
__device__ int g() { return other; }
"""
    failure = refused(toolchain, area, ask(text))
    assert failure.kind == "rejected"
    assert failure.message.startswith('source.cu(4): error: identifier "undeclared" is undefined')
    assert "2 errors detected" in failure.log_tail
    failure = refused(
        toolchain, area, ask(source("#include <h.h>", {}, {"h.h": "\n#error out of memory"}, suffix=".cu"))
    )
    assert failure.kind == "rejected"
    assert failure.message.startswith("../inc0/h.h(2): catastrophic error: #error directive: out of memory")
    failure = refused(toolchain, area, ask('#include "nope.h"'))
    assert failure.message.startswith('source.cu(1): catastrophic error: cannot open source file "nope.h"')


def test_an_entry_that_is_not_there(toolchain: CudaToolchain, area: ScratchArea) -> None:
    failure = refused(toolchain, area, ask(TEMPLATE, entry="ops::scale<float, 4>", names=["ops::scale<half_, 4>"]))
    assert failure.kind == "rejected"
    assert failure.message.startswith("name expression 'ops::scale<half_, 4>': error: identifier \"half_\"")
    failure = refused(toolchain, area, ask(ADD, defines={"COUNT": 1}, entry="sub"))
    assert failure.message.startswith("name expression 'sub': error: identifier \"sub\" is undefined")


def test_a_warning_is_kept_and_is_no_error(toolchain: CudaToolchain, area: ScratchArea) -> None:
    asked = ask("__global__ void f() { int error; }")
    result = compile(asked, toolchain, area, LIMITS, Stop())
    assert isinstance(result, Compiled)
    assert 'source.cu(1): warning #177-D: variable "error" was declared' in result.log_tail
    failure = refused(toolchain, area, replace(asked, options={**asked.options, "flags": ("-Werror=all-warnings",)}))
    assert failure.message.startswith("source.cu(1): error #177-D: variable")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n#include "{0}/a b.h"\n', "source.cu(2): error: {0}/a b.h is not in the request"),
        ("/* \n */ #  include <{0}/a b.h> // x\n", "source.cu(2): error: {0}/a b.h is not in the request"),
        ("#include </../../../../../../../../../{0}/a b.h>\n", "source.cu(1): error: /../"),
        (
            "#define HI __has_include\n#if HI(<{0}/a b.h>)\n#endif",
            "source.cu(1): error: a macro stands for __has_include",
        ),
        ("#if __has_include(<{0}/a b.h>)\n#endif\n", "source.cu(1): error: {0}/a b.h is not in the request"),
        ("#include <../lib/../include/../../../nvidia/cu13/lib/libnvrtc.so.13>", "is not in the request"),
        ("\nconst char* d = __DATE__;", "source.cu(2): error: __DATE__ is the time of the compile"),
        ("int x = 1'000; /* \n */ auto d = __TIME__;", "source.cu(2): error: __TIME__ is the time of the compile"),
        ("int x;\n\0", "source.cu(2): error: the source holds a NUL character"),
    ],
)
def test_what_is_not_in_the_key_is_refused(
    text: str, message: str, toolchain: CudaToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    (tmp_path / "a b.h").write_text("#define X 1")
    failure = refused(toolchain, area, ask(text.replace("{0}", str(tmp_path))))
    assert failure.kind == "rejected"
    assert message.replace("{0}", str(tmp_path)) in failure.message


def test_what_only_looks_like_it_is_not(toolchain: CudaToolchain, area: ScratchArea) -> None:
    text = """
// __DATE__ #include "/etc/passwd"
/*
#include "/etc/passwd"
*/
#include "sub/../x.h"
__device__ const char* a = "__TIME__ \\" // ";
__device__ const char* b = R"(
#include "/etc/passwd" __DATE__
)";
__device__ int my__DATE__ = 1;
"""
    made(toolchain, area, ask(source(text, {"x.h": "", "sub/y.h": '#include "../x.h"'}, suffix=".cu")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flags": ["--pre-include=x.h"]}, "'--pre-include=x.h' reads a file by its place"),
        ({"flags": ["-arch=sm_90"]}, "'-arch=sm_90' is what soc says"),
        ({"defines": {"A B": 1}}, "'A B' is not the name of a macro"),
    ],
)
def test_refusals(options: Any, message: str, toolchain: CudaToolchain, area: ScratchArea) -> None:
    assert message in refused(toolchain, area, ask("", **options)).message


def test_values_of_macros(toolchain: CudaToolchain, area: ScratchArea) -> None:
    checks = """
        #define S(x) #x
        #define T(x) S(x)
        static_assert(I == 7 && B == 1 && F == 0 && D == 0.5);
        static_assert(sizeof TEXT == 4);
        static_assert(sizeof T(NONE) == 1);
    """
    defines = {"I": 7, "B": True, "F": False, "D": 0.5, "NONE": None, "TEXT": '"a b"'}
    assert made(toolchain, area, ask(checks, defines=defines))


def test_trouble_of_the_machine_is_not_rejected(toolchain: CudaToolchain, area: ScratchArea) -> None:
    result = compile(OWN["half"], toolchain, area, Limits(timeout_seconds=60, memory_mb=100), Stop())
    assert isinstance(result, Failure)
    assert result.kind == "transient", result


def test_a_farm_compiles_once_and_the_worker_loads_no_compiler(tmp_path: Path) -> None:
    op = {
        "name": "scale", "type": "Scale", "toolchain": "cuda", "soc": "sm_90", "entry": "ops::scale<__half, 8>",
        "source": {"text": TEMPLATE}, "options": {"flags": ["--fmad=false"]},
    }  # fmt: skip
    with running(tmp_path) as kit:
        first = json.loads(kit.submit(kit.manifest(op)).stdout)
        assert [one["outcome"] for one in first["ops"]] == ["compiled"], first
        files = {name: Path(path).read_bytes() for name, path in first["ops"][0]["files"].items()}
        assert json.loads(files["kernel.json"])["entry"] in read_cubin(files["kernel.cubin"]).kernels
        again = json.loads(kit.submit(kit.manifest(op | {"name": "other"}), "--job-id", "again").stdout)
        assert (again["ops"][0]["outcome"], again["ops"][0]["key"]) == ("hit", first["ops"][0]["key"])
        wrong = json.loads(kit.submit(kit.manifest(op | {"soc": "sm_50"})).stdout)
        assert "sm_90" in json.dumps(wrong["error"])
        for process in kit.processes:
            assert "libnvrtc" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_debug_options_reach_the_compiler(toolchain: CudaToolchain, area: ScratchArea) -> None:
    def sections(**options: Any) -> tuple[bool, bool]:
        """Whether the PTX has line information, and whether it was made for a debugger."""
        asked = replace(ask(FAST), job_options=JobOptions(private="j@1", **options))
        ptx = made(toolchain, area, asked)["kernel.ptx"]
        return b"\t.loc\t" in ptx, b".target sm_80, debug" in ptx

    assert sections() == sections(op_debug_level=3) == sections(op_debug_config=("oom",)) == (False, False)
    assert sections(op_debug_level=1) == sections(op_debug_config=("ccec_g",)) == (True, False)
    assert sections(op_debug_level=2)[1]
    assert sections(op_debug_config=("ccec_O0",))[1]
