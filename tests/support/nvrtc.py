"""NVRTC called directly, without any code of the project, and what its cubins say of themselves."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from farm.request.model import Blob, Request

WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")
EM_CUDA = 190
_STT_FUNC, _STB_GLOBAL, _STB_WEAK = 2, 1, 2


def _missing() -> list[str]:
    installed = {distribution.metadata["Name"] for distribution in metadata.distributions()}
    return [wheel for wheel in WHEELS if wheel not in installed]


needs_nvrtc = pytest.mark.skipif(bool(_missing()), reason=f"not installed: {', '.join(_missing())}")


def wheel_file(wheel: str, begin: str) -> Path:
    files = metadata.distribution(wheel).files or []
    return next(Path(str(file.locate())).resolve() for file in files if file.name.startswith(begin))


def library() -> Path:
    return wheel_file(WHEELS[0], "libnvrtc.so.")


def headers() -> Path:
    return wheel_file(WHEELS[1], "cuda_fp16.h").parent


@dataclass(frozen=True)
class Direct:
    cubin: bytes
    ptx: bytes
    lowered: Mapping[str, str]


def direct(source: bytes, name: str, options: Sequence[str], expressions: Sequence[str] = ()) -> Direct:
    """What NVRTC gives for a source, a program name and options."""
    nvrtc = ctypes.CDLL(str(library()))
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None) == 0
    for expression in expressions:
        assert nvrtc.nvrtcAddNameExpression(program, expression.encode()) == 0
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), array)
    assert code == 0, _read(nvrtc, program, "ProgramLog").decode()
    lowered = {}
    for expression in expressions:
        found = ctypes.c_char_p()
        assert nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(found)) == 0
        lowered[expression] = (found.value or b"").decode()
    result = Direct(_read(nvrtc, program, "CUBIN"), _read(nvrtc, program, "PTX").removesuffix(b"\0"), lowered)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, buffer) == 0
    return buffer.raw


def direct_of(request: Request, folder: Path) -> Direct:
    """The same for a request: its files are written below ``folder``, its options are put down by hand."""
    beside = _written(folder / "src", request.source.files)
    include_dirs = [_written(folder / f"include{at}", files) for at, files in enumerate(request.source.include_dirs)]
    given = request.options
    options = [
        f"--gpu-architecture={request.soc}",
        *([f"--std={given['std']}"] if given["std"] else []),
        *(f"-D{name}={value}" for name, value in given["defines"].items()),  # type: ignore[union-attr]
        *given["flags"],  # type: ignore[misc]
        *(f"-I{path}" for path in (beside, *include_dirs, headers())),
    ]
    expressions = [*([request.entry] if request.entry else []), *given["names"]]  # type: ignore[misc]
    assert request.source.main.data is not None
    return direct(request.source.main.data, f"source{request.source.suffix}", options, expressions)


def _written(folder: Path, files: Mapping[str, Blob]) -> Path:
    for name, blob in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob.data or b"")
    return folder


@dataclass(frozen=True)
class Cubin:
    """The ELF header and symbols of a cubin."""

    machine: int
    #: 80 of sm_80.
    soc_number: int
    kernels: frozenset[str]


def read_cubin(data: bytes) -> Cubin:
    """Read the ELF file by hand; asserts that it is a whole little-endian 64 bit one."""
    assert data[:6] == b"\x7fELF\x02\x01"
    _, machine, version = struct.unpack_from("<HHI", data, 16)
    assert version == 1
    (table_at,) = struct.unpack_from("<Q", data, 40)
    (flags,) = struct.unpack_from("<I", data, 48)
    size, count, _ = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table_at + at * size) for at in range(count)]
    kernels = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != 2:  # a symbol table
            continue
        names_at = sections[link][4]
        for at in range(offset, offset + length, 24):
            name_at, info = struct.unpack_from("<IB", data, at)
            if info & 15 == _STT_FUNC and info >> 4 in (_STB_GLOBAL, _STB_WEAK):
                begin = names_at + name_at
                kernels.add(data[begin : data.index(b"\0", begin)].decode())
    return Cubin(machine, flags >> 8 & 0xFF, frozenset(kernels))
