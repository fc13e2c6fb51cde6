"""Toolchain ``cuda``: CUDA C++ source to a cubin and PTX, with NVRTC from its wheel; no GPU and no driver."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from farm.errors import InputError
from farm.index.outcomes import Failure
from farm.request.job_options import JobOptions
from farm.request.model import Request
from farm.request.options import OptionSpec
from farm.request.values import Value
from farm.settings import Settings
from workers.scratch import Scratch
from workers.toolchains import cuda_flags, cuda_source, nvrtc
from workers.toolchains.nvrtc import Nvrtc
from workers.toolchains.protocol import Command

_STANDARDS = ("", "c++11", "c++14", "c++17", "c++20", "c++23")
SCHEMA: Mapping[str, OptionSpec] = {
    "std": OptionSpec("str", "", _STANDARDS, "language standard; empty: NVRTC's own default"),
    "defines": OptionSpec("map", {}, (), "macros: NAME to a text or number; true is 1, false 0, null no value"),
    "flags": OptionSpec("strings", (), (), "further flags of NVRTC, in their order; only those that act by the key"),
    "names": OptionSpec("strings", (), (), "name expressions beside entry, as scale<float>; see kernel.json"),
}
OUTPUTS = ("kernel.cubin", "kernel.ptx", "kernel.json")
#: NVRTC writes the working folder into line tables, and takes its name from PWD where that is right.
_WORKING_FOLDER = "/proc/self/cwd"
#: Changed with anything below that changes the bytes of an output.
_RECIPE = (1, OUTPUTS, _WORKING_FOLDER)
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CudaToolchain:
    """The NVRTC of this Python environment."""

    name = "cuda"
    schema = SCHEMA

    def __init__(self, compiler: Nvrtc) -> None:
        self._compiler = compiler
        self.version = compiler.version
        self.fingerprint = compiler.fingerprint
        self.socs = compiler.socs

    def command(self, request: Request, scratch: Scratch) -> Command | Failure:
        """One run of NVRTC in the source's folder, where every path that it sees is relative.

        The program's name is that of the source file, ``source.cu``, whatever the submitter calls it. So the same
        request gives the same bytes in every scratch folder, with line tables too.
        """
        headers, link = self._compiler.place.include_dir, scratch.root / "cuda"
        if trouble := cuda_source.objection(scratch, headers):
            return Failure("rejected", trouble)
        try:
            options = _options(request, scratch, link)
        except InputError as error:
            return Failure("rejected", str(error))
        link.symlink_to(headers)
        job = scratch.root / "job.json"
        job.write_text(
            json.dumps(
                {
                    "library": str(self._compiler.place.library),
                    "source": scratch.source.name,
                    "options": options,
                    "soc": request.soc,
                    "entry": request.entry,
                    "names": request.options["names"],
                    "out": str(scratch.out),
                }
            )
        )
        return Command(
            argv=self._compiler.argv(job),
            env={
                "LC_ALL": "C",
                "PWD": _WORKING_FOLDER,
                "HOME": str(scratch.tmp),
                "TMPDIR": str(scratch.tmp),
                "CUDA_CACHE_DISABLE": "1",
            },
            cwd=scratch.source.parent,
            outputs=OUTPUTS,
            review=self._review,
        )

    def _review(self) -> Failure | None:
        change = self._compiler.pinned.change()
        return Failure("transient", f"{change}: restart the worker") if change else None


def find(settings: Settings) -> CudaToolchain | str:
    """This environment's NVRTC, or why there is none."""
    place = nvrtc.locate()
    if isinstance(place, str):
        return place
    compiler = nvrtc.inspect(place, _RECIPE)
    return compiler if isinstance(compiler, str) else CudaToolchain(compiler)


def _options(request: Request, scratch: Scratch, headers: Path) -> list[str]:
    """NVRTC's options for a request, all paths in them relative to the source's folder."""
    standard, defines, given = str(request.options["std"]), request.options["defines"], request.options["flags"]
    assert isinstance(defines, Mapping) and isinstance(given, tuple)
    flags = [str(flag) for flag in given]
    cuda_flags.check(flags)
    return [
        f"--gpu-architecture={request.soc}",
        *([f"--std={standard}"] if standard else []),
        *(_define(name, defines[name]) for name in sorted(defines)),
        *flags,
        *_debug_flags(request.job_options),
        *(f"-I{os.path.relpath(folder, scratch.source.parent)}" for folder in (*scratch.include_dirs, headers)),
    ]


def _debug_flags(options: JobOptions) -> list[str]:
    """Ascend's debug options in NVRTC's words; -G is debug information and no optimisation in one."""
    level, values = options.op_debug_level, options.op_debug_config
    if level == 2 or "ccec_O0" in values:
        return ["--device-debug"]
    return ["--generate-line-info"] if level == 1 or "ccec_g" in values else []


def _define(name: str, value: Value) -> str:
    if not _MACRO.fullmatch(name):
        raise InputError(f"options.defines: {name!r} is not the name of a macro", "use letters, digits and _")
    if value is None:
        return f"-D{name}="
    return f"-D{name}={int(value) if isinstance(value, bool) else value}"
