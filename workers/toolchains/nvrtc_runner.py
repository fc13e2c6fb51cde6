"""Runs NVRTC, once, in a process of its own: stdlib only, executed by path, imported by nobody.

    python -I -S nvrtc_runner.py describe LIBRARY     its version and processor types, as JSON on stdout
    python -I -S nvrtc_runner.py compile JOB          see _compile; the log goes to stdout, exit 1 when it fails

A GPU or a driver is not needed. Trouble that is not the source's begins with "internal compiler error", which
the worker knows from every compiler.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_COMPILATION, _INVALID_INPUT, _INVALID_OPTION = 6, 3, 5
#: What the source or the options are to blame for; all other codes are NVRTC's own or the machine's.
_BLAMES_THE_SOURCE = (_COMPILATION, _INVALID_INPUT, _INVALID_OPTION)
#: From this one on there are processor types that NVRTC takes and does not list: sm_90a, sm_100f.
_FIRST_WITH_VARIANTS = 90
#: The file in which NVRTC places errors in name expressions; they stand in it sorted, from line 2.
_NAME_MAP = re.compile(r"__nv_name_map\((\d+)\)")


class _Trouble(Exception):
    """Ends the run; not the source's fault."""


def _load(library: str) -> ctypes.CDLL:
    try:
        nvrtc = ctypes.CDLL(library)
    except OSError as error:
        raise _Trouble(f"can not load NVRTC: {error}") from None
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def _need(nvrtc: ctypes.CDLL, code: int) -> None:
    if code:
        raise _Trouble(nvrtc.nvrtcGetErrorString(code).decode())


@contextmanager
def _program(nvrtc: ctypes.CDLL, text: bytes, name: str) -> Iterator[ctypes.c_void_p]:
    program = ctypes.c_void_p()
    _need(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None))
    try:
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _texts(items: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(items))(*(item.encode() for item in items))


def _run(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, options: Sequence[str]) -> int:
    return int(nvrtc.nvrtcCompileProgram(program, len(options), _texts(options)))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _need(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    if not size.value:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    _need(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _describe(nvrtc: ctypes.CDLL) -> dict[str, Any]:
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _need(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    _need(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _need(nvrtc, nvrtc.nvrtcGetSupportedArchs(numbers))
    socs = []
    for number in numbers:
        variants = [f"sm_{number}{letter}" for letter in "af" if number >= _FIRST_WITH_VARIANTS]
        socs += [f"sm_{number}", *(soc for soc in variants if _accepts(nvrtc, soc))]
    return {"version": f"{major.value}.{minor.value}", "socs": socs}


def _accepts(nvrtc: ctypes.CDLL, soc: str) -> bool:
    """Whether NVRTC gets as far as reading a source, which is a fifth of the time that a compile takes."""
    with _program(nvrtc, b"#error read", "probe.cu") as program:
        _run(nvrtc, program, [f"--gpu-architecture={soc}", "--minimal"])
        return b"#error directive: read" in _read(nvrtc, program, "ProgramLog")


def _compile(job: Mapping[str, Any]) -> int:
    """Compile ``source`` below the working folder with ``options``.

    Leaves kernel.cubin, kernel.ptx and, in kernel.json, the lowered name of ``entry`` and of every one of
    ``names`` in folder ``out``.
    """
    nvrtc, source = _load(job["library"]), Path(job["source"])
    text = source.read_bytes()
    if b"\0" in text:  # NVRTC would take it for the end
        _say(f"{source}({text.count(10, 0, text.index(0)) + 1}): error: the source holds a NUL character")
        return 1
    names: list[str] = list(dict.fromkeys([*([job["entry"]] if job["entry"] else []), *job["names"]]))
    with _program(nvrtc, text, job["source"]) as program:
        for name in names:
            _need(nvrtc, nvrtc.nvrtcAddNameExpression(program, name.encode()))
        code = _run(nvrtc, program, job["options"])
        _say(_log(nvrtc, program, names))
        if code in _BLAMES_THE_SOURCE:
            return 1
        _need(nvrtc, code)
        lowered = {name: _lowered(nvrtc, program, name) for name in names}
        out = Path(job["out"])
        (out / "kernel.cubin").write_bytes(_read(nvrtc, program, "CUBIN"))
        (out / "kernel.ptx").write_bytes(_read(nvrtc, program, "PTX").removesuffix(b"\0"))
        described = {"soc": job["soc"], "entry": lowered.get(job["entry"]), "names": lowered}
        (out / "kernel.json").write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")
    return 0


def _log(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, names: Sequence[str]) -> str:
    """NVRTC's own words, but for the place of an error in a name expression."""
    log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0\n").decode(errors="replace")
    in_order = sorted(name.encode() for name in names)

    def expression(line: re.Match[str]) -> str:
        at = int(line[1]) - 2
        return f"name expression {in_order[at].decode()!r}" if 0 <= at < len(in_order) else line[0]

    return _NAME_MAP.sub(expression, log)


def _lowered(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> str:
    found = ctypes.c_char_p()
    _need(nvrtc, nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(found)))
    return (found.value or b"").decode()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; see the module."""
    what, value = arguments
    try:
        if what == "describe":
            _say(json.dumps(_describe(_load(value))))
            return 0
        return _compile(json.loads(Path(value).read_text()))
    except _Trouble as error:
        _say(f"internal compiler error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
