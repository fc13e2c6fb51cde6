"""Stands in for CANN: programs ``opc`` and ``atc`` that take the same arguments, an operator package and a bank.

What they write depends on everything that shapes the real ones' output. An argument that the real one does not
have ends them with exit code 2, like the real ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

#: Where the documented example expects them.
ROOT, BANK = "/usr/local/Ascend/ascend-toolkit/latest", "/data/tune_bank"

_OPC = ("main_func", "input_param", "soc_version", "output", "impl_mode", "simplified_key_mode", "op_mode")
_OPC_MORE = ("op_debug_config", "tiling_key", "log", "core_type", "deterministic")
_ATC = ("singleop", "soc_version", "output")
_ATC_MORE = (
    "op_bank_path", "op_compiler_cache_mode", "op_compiler_cache_dir", "debug_dir", "log", "precision_mode",
    "op_select_implmode", "op_debug_level", "deterministic", "aicore_num", "mdl_bank_path", "framework", "model",
)  # fmt: skip


def install(folder: Path) -> Path:
    """Install the stand-ins below ``folder``, and the documented example for them; the file of profiles."""
    latest, bank = folder / "ascend" / "latest", folder / "tune_bank"
    for name in ("opc", "atc"):
        path = latest / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -I {Path(__file__).resolve()} {name} "$@"\n')
        path.chmod(0o755)
    files = {
        latest / "opp" / "version.info": "Version=8.0.RC1\nversion_dir=8.0.RC1\n",
        latest / "opp" / "built-in" / "add.py": "# the operator package\n",
        latest / "compiler" / "lib64" / "libtbe.so": "",
        bank / "Ascend910B1" / "cube" / "gemm.json": "{}",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    example = Path(__file__).parents[2] / "docs" / "examples" / "profiles" / "cann.toml"
    profiles = folder / "cann.toml"
    profiles.write_text(example.read_text().replace(ROOT, str(latest)).replace(BANK, str(bank)))
    return profiles


def _opc(arguments: list[str]) -> None:
    given = _parse(("source",), _OPC, _OPC_MORE, arguments)
    text = Path(given.source).read_text()
    if f"def {given.main_func}(" not in text:
        sys.exit(f"[ERROR] E40021: Failed to compile Op: {given.main_func} is not in the source")
    parameters = json.loads(Path(given.input_param).read_text())
    name = parameters["bin_filename"]
    bank = Path(os.environ["TUNE_BANK_PATH"])
    out = Path(given.output)
    made = _digest(text, parameters, given.soc_version, given.impl_mode, given.op_mode, _tree(bank))
    (out / f"{name}.o").write_text(f"opc {made} {given.op_debug_config} {given.simplified_key_mode}\n")
    (out / f"{name}.json").write_text(json.dumps({"kernelName": given.main_func, "binFileName": name}))
    Path(os.environ["ASCEND_WORK_PATH"], "kernel_meta").mkdir()


def _atc(arguments: list[str]) -> None:
    given = _parse((), _ATC, _ATC_MORE, arguments)
    assert given.op_compiler_cache_mode == "disable"
    for at, op in enumerate(json.loads(Path(given.singleop).read_text())):
        made = _digest(op, given.soc_version, _tree(Path(given.op_bank_path)), given.deterministic)
        Path(given.output, f"{at}_{op['op']}.om").write_text(f"atc {made} {given.precision_mode}\n")


def _parse(places: tuple[str, ...], needed: tuple[str, ...], more: tuple[str, ...], arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in places:
        parser.add_argument(name)
    for name in (*needed, *more):
        parser.add_argument(f"--{name}", required=name in needed)
    return parser.parse_args(arguments)


def _tree(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    {"opc": _opc, "atc": _atc}[sys.argv[1]](sys.argv[2:])
