"""Which NVRTC flags toolchain ``cuda`` passes on: those known to act through the key alone.

All that shapes a kernel must be in its key, and every operator leaves the same three files. So a flag is refused
unless it is known to read no file, write none, and mean the same on every machine with the same NVRTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from farm.errors import InputError

_BOOL = "=(?:true|false)"
_ALLOWED = tuple(
    re.compile(f"--?(?:{pattern})")
    for pattern in (
        # Floating point and code generation
        rf"(?:fmad|ftz|prec-div|prec-sqrt){_BOOL}",
        r"use_fast_math|extra-device-vectorization|restrict|extensible-whole-program|ewp",
        r"(?:fassociative-math|ffinite-math-only|fno-signed-zeros)",
        r"maxrregcount=[0-9]{1,3}|jump-table-density=[0-9]{1,3}|Ofast-compile=(?:0|min|mid|max)",
        rf"modify-stack-limit{_BOOL}|device-stack-protector{_BOOL}",
        rf"relocatable-device-code{_BOOL}|rdc{_BOOL}|device-c|dc|device-w|dw",
        # Passed to the assembler within NVRTC
        r"(?:ptxas-options|Xptxas)=(?:-O[0-3]|-v|-warn-spills|-warn-lmem-usage|-warn-double-usage|"
        r"-d(?:lcm|scm|fp)=(?:ca|cg|cs|cv|wb|wt)|--?allow-expensive-optimizations=(?:true|false))",
        # Debug information
        r"generate-line-info|lineinfo|device-debug|G|dopt=on",
        # Language
        rf"builtin-move-forward{_BOOL}|builtin-initializer-list{_BOOL}",
        r"device-as-default-execution-space|default-device|device-int128|device-float128|minimal",
        r"[DU][A-Za-z_][A-Za-z0-9_]*(?:=(?s:.*))?",
        r"(?:define-macro|undefine-macro)=[A-Za-z_][A-Za-z0-9_]*(?:=(?s:.*))?",
        # Diagnostics
        r"diag-(?:error|suppress|warn)=[0-9]+(?:,[0-9]+)*|warning-as-error=all-warnings|Werror=all-warnings",
        rf"disable-warnings|w|display-error-number|no-display-error-number|brief-diagnostics{_BOOL}",
        r"optimization-info=inline|opt-info=inline|fmax-errors=[0-9]+",
    )
)
#: Families people do ask for, with the reason why not and what to do instead; the first that fits is told.
_REFUSED = (
    (r"([^-].*)?", "is no flag", "join a flag and its value with =, as in --maxrregcount=64"),
    (r"--?(gpu-architecture|arch|gpu-code|code|gencode|generate-code)\b.*", "is what soc says", "set soc, as in sm_90"),
    (r"--?std\b.*", "is an option of its own", "use option std, as in std: c++20"),
    (r"-O.*", "is no flag of NVRTC, which optimises fully", "leave it out, or use --Ofast-compile=max"),
    (r"--?(I|include-path|isystem).*", "reads folders that are not in the key", "use source.include_dirs"),
    (r"--?(pre-include|include)\b.*", "reads a file by its place", "put #include into the source"),
    (r"--?(dlto|dlink-time-opt|gen-opt-lto|optix-ir|fdevice-syntax-only)\b.*", "leaves no cubin", "leave it out"),
    (r"--?(time|fdevice-time-trace|[a-z-]*pch[a-z-]*)\b.*", "reads or writes files of its own", "leave it out"),
    (r"--?(split-compile|t|threads)\b.*", "makes the output depend on the machine", "leave it out"),
    (r"--?(maxrregcount|fmad|ftz|prec-div|prec-sqrt|rdc|relocatable-device-code)\b.*", "has no valid value",
     "join a valid one with =, as in --fmad=false"),
)  # fmt: skip


def check(flags: Sequence[str]) -> None:
    """Refuse the first flag that is not known to act through the key alone.

    Raises:
        InputError: names the flag, why, and what to do; the submitter mends it.
    """
    for flag in flags:
        if not any(pattern.fullmatch(flag) for pattern in _ALLOWED):
            raise _reason(flag)


def _reason(flag: str) -> InputError:
    why, fix = "is not known to act through the key alone", "leave it out"
    for pattern, family_why, family_fix in _REFUSED:
        if re.fullmatch(pattern, flag, re.DOTALL):
            why, fix = family_why, family_fix
            break
    return InputError(f"options.flags: {flag[:200]!r} {why}", fix)
