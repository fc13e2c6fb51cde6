"""Toolchain ``host``: C and C++ source to a shared object or an object file for this machine's processor."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from farm.errors import InputError
from farm.index.outcomes import Failure
from farm.request.job_options import JobOptions
from farm.request.model import Request
from farm.request.options import OptionSpec
from farm.request.values import Value
from farm.settings import Settings
from workers.scratch import Scratch
from workers.toolchains import host_compiler, host_flags, host_source
from workers.toolchains.host_compiler import HostCompiler
from workers.toolchains.protocol import Command

SCHEMA: Mapping[str, OptionSpec] = {
    "output": OptionSpec("str", "so", ("so", "o"), "what to make: kernel.so or kernel.o"),
    "std": OptionSpec("str", "", (), "language standard, as c++20 or gnu11; empty: the compiler's own default"),
    "defines": OptionSpec("map", {}, (), "macros: NAME to a text or number; true is 1, false 0, null no value"),
    "flags": OptionSpec("strings", (), (), "further flags, after -O2; only families known to act through the key"),
}
#: Before the request's own flags, which may override them. Time is not in the key: clang before 16 does not
#: read SOURCE_DATE_EPOCH, and nobody's __TIMESTAMP__ does.
_ALWAYS = (
    "-O2",
    "-fPIC",
    "-Wno-builtin-macro-redefined",
    '-D__DATE__="Jan  1 1970"',
    '-D__TIME__="00:00:00"',
    '-D__TIMESTAMP__="Thu Jan  1 00:00:00 1970"',
)
_OUTPUT_FLAGS = {"so": ("-shared",), "o": ("-c",)}
#: Changed with anything below that changes the bytes of an output.
_RECIPE = (1, _ALWAYS, tuple(_OUTPUT_FLAGS.items()))
_STANDARD = re.compile(r"(c|gnu|iso9899:)(\+\+)?[0-9a-z]{2,6}")
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEPENDENCIES, _ASSEMBLED = "dependencies.d", "assembled.d"


class HostToolchain:
    """One g++ or clang++ of this machine."""

    name = "host"
    schema = SCHEMA

    def __init__(self, compiler: HostCompiler) -> None:
        self._compiler = compiler
        self.version = compiler.version
        self.fingerprint = compiler.fingerprint
        self.socs = (platform.machine(),)

    def command(self, request: Request, scratch: Scratch) -> Command | Failure:
        """One call that compiles and links, run in the source's folder so that every path in it is relative.

        Paths never reach the output (prefix map, relative names, a seed made from the source), so the same
        request gives the same bytes in every scratch folder.
        """
        if trouble := host_source.objection(scratch, self._compiler.headers.folders):
            return Failure("rejected", trouble)
        options, cwd = request.options, scratch.source.parent
        kind = str(options["output"])
        try:
            flags = _flags(options, depth=len(cwd.relative_to(scratch.root).parts) - 1)
        except InputError as error:
            return Failure("rejected", str(error))
        language = "c" if request.source.suffix == ".c" else "c++"
        dependencies, assembled = scratch.tmp / _DEPENDENCIES, scratch.tmp / _ASSEMBLED
        argv = (
            *self._compiler.argv, *_ALWAYS, *flags, *_debug_flags(request.job_options), *_OUTPUT_FLAGS[kind],
            *(f"-I{os.path.relpath(folder, cwd)}" for folder in scratch.include_dirs),
            f"-ffile-prefix-map={scratch.root}=.", f"-frandom-seed={request.source.main.sha256.hex()[:16]}",
            "-MD", "-MF", str(dependencies),
            *((f"-Wa,--MD,{os.path.relpath(assembled, cwd)}",) if self._compiler.lists_assembled else ()),
            # A C source needs no C++ library; the driver would name it in every shared object.
            *(("-Wl,--as-needed",) if language == "c" and kind == "so" else ()),
            "-x", language, scratch.source.name, "-o", os.path.relpath(scratch.out / f"kernel.{kind}", cwd),
        )  # fmt: skip
        return Command(
            argv=argv,
            env={
                **self._compiler.env,
                "SOURCE_DATE_EPOCH": "0",
                "TMPDIR": str(scratch.tmp),
                "HOME": str(scratch.tmp),
            },
            cwd=cwd,
            outputs=(f"kernel.{kind}",),
            review=lambda: (
                self._review(_read(dependencies, cwd), scratch.root)
                or (_review_assembled(_read(assembled, cwd), scratch.root) if self._compiler.lists_assembled else None)
            ),
        )

    def _review(self, read: Sequence[Path], root: Path) -> Failure | None:
        """Refuse an output that was made from what is not in the key: a changed compiler, or somebody's header."""
        folders = self._compiler.headers.folders
        own = _outside(read, root)
        for path in own:
            if not any(folder in path.parents for folder in folders):
                return Failure(
                    "rejected",
                    f"the source includes {path}, which is not in the request, so it would not be in the key",
                )
        change = self._compiler.change(own)
        return Failure("transient", f"{change}: restart the worker") if change else None


def find(settings: Settings) -> HostToolchain | str:
    """This machine's compiler, or why there is none."""
    argv = host_compiler.locate(os.environ)
    if isinstance(argv, str):
        return argv
    compiler = host_compiler.inspect(argv, os.environ, _RECIPE)
    return compiler if isinstance(compiler, str) else HostToolchain(compiler)


def _flags(options: Mapping[str, Value], depth: int) -> list[str]:
    standard, defines, given = str(options["std"]), options["defines"], options["flags"]
    if standard and not _STANDARD.fullmatch(standard):
        raise InputError(f"options.std: {standard!r} is no language standard", "use one like c++20, gnu++17 or c11")
    assert isinstance(defines, Mapping) and isinstance(given, tuple)
    host_flags.check([str(flag) for flag in given], depth)
    return [
        *([f"-std={standard}"] if standard else []),
        *(_define(name, defines[name]) for name in sorted(defines)),
        *(str(flag) for flag in given),
    ]


def _debug_flags(options: JobOptions) -> list[str]:
    """Ascend's debug options in this compiler's words: after the request's own flags, so that they hold."""
    level, values = options.op_debug_level, options.op_debug_config
    return [
        *(["-g"] if level in (1, 2) or "ccec_g" in values else []),
        *(["-O0"] if level == 2 or "ccec_O0" in values else []),
    ]


def _define(name: str, value: Value) -> str:
    if not _MACRO.fullmatch(name):
        raise InputError(f"options.defines: {name!r} is not the name of a macro", "use letters, digits and _")
    if value is None:
        return f"-D{name}="
    return f"-D{name}={int(value) if isinstance(value, bool) else value}"


def _review_assembled(read: Sequence[Path], root: Path) -> Failure | None:
    """Refuse what the assembler has put in by itself: the request's text can hide how it names a file, not this."""
    for path in _outside(read, root):
        message = f"the assembler reads {path}, which is not in the request, so it would not be in the key"
        return Failure("rejected", message)
    return None


def _outside(read: Sequence[Path], root: Path) -> list[Path]:
    return [path for path in read if root.resolve() not in path.parents]


def _read(dependencies: Path, cwd: Path) -> list[Path]:
    """The files that a compile read, as the compiler or its assembler lists them for make."""
    text = dependencies.read_text(errors="surrogateescape").replace("\\\n", " ")
    names = re.split(r"(?<!\\)\s+", text.partition(": ")[2].strip())
    return [(cwd / re.sub(r"\\(.)", r"\1", name).replace("$$", "$")).resolve() for name in names]
