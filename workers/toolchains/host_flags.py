"""Which compiler flags toolchain ``host`` passes on: families known to act through the key alone.

All that shapes a kernel must be in its key. So a flag is refused unless it belongs to a family that reads no
file, writes none beside the output, and means the same on every machine with the same compiler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from farm.errors import InputError

_WORD = r"[A-Za-z0-9_.+-]+"
_F_PLAIN = (
    "PIC|pic|PIE|pie|exceptions|rtti|fast-math|math-errno|finite-math-only|signed-zeros|trapping-math|"
    "rounding-math|associative-math|reciprocal-math|unsafe-math-optimizations|cx-limited-range|cx-fortran-rules|"
    "strict-[a-z-]+|wrapv(?:-pointer)?|trapv|omit-[a-z-]+|inline(?:-[a-z-]+)?|early-inlining|unroll-[a-z-]+|"
    "peel-loops|split-[a-z-]+|unswitch-loops|tree-[a-z-]+|ipa-[a-z-]+|loop-[a-z-]+|gcse(?:-[a-z]+)?|"
    "if-conversion2?|schedule-[a-z0-9-]+|sched-[a-z-]+|modulo-sched|vectorize|slp-vectorize|prefetch-loop-arrays|"
    "openmp|openmp-simd|visibility-inlines-hidden|common|char8_t|signed-char|unsigned-char|short-enums|short-wchar|"
    "asynchronous-unwind-tables|unwind-tables|stack-protector(?:-strong|-all)?|stack-clash-protection|"
    "function-sections|data-sections|merge-all-constants|merge-constants|permissive|concepts|coroutines|"
    "builtin(?:-[a-z0-9_]+)?|freestanding|hosted|threadsafe-statics|plt|semantic-interposition|"
    "delete-null-pointer-checks|crossjumping|devirtualize(?:-[a-z]+)?|aggressive-loop-optimizations|"
    "caller-saves|code-hoisting|combine-stack-adjustments|expensive-optimizations|forward-propagate|"
    "reorder-[a-z-]+|rerun-cse-after-loop|gnu89-inline|ms-extensions|sized-deallocation|aligned-new|"
    "elide-constructors|implicit-templates|rename-registers|web|zero-initialized-in-bss"
)
_F_VALUE = (
    "visibility|fp-contract|fp-model|excess-precision|vect-cost-model|simd-cost-model|constexpr-[a-z-]+|"
    "template-depth|max-errors|cf-protection|align-(?:functions|loops|jumps|labels)|inline-limit|trivial-auto-var-init|"
    "tls-model|abi-version|input-charset|exec-charset|wide-exec-charset|message-length|debug-info-for-[a-z]+"
)
_LIBRARIES = "m|c|gcc|gcc_s|stdc\\+\\+|pthread|dl|rt|atomic|gomp|quadmath"
_ALLOWED = tuple(
    re.compile(pattern)
    for pattern in (
        r"-O([0-3sgz]|fast)?",
        r"-g([0-3]|gdb[0-3]?|dwarf(-[2-5])?|line-tables-only)?",
        r"-W[A-Za-z0-9+=_-]*|-w|-pedantic|-pedantic-errors|-ansi|-std=[a-z0-9+:]+",
        rf"-f(?:no-)?(?:{_F_PLAIN})",
        rf"-f(?:{_F_VALUE})={_WORD}(?::{_WORD})*",
        r"-m(?!llvm|link|32\b|x32\b|16\b|.*native)(?:no-)?[a-z0-9][a-z0-9._-]*(?:=[A-Za-z0-9_.+,!-]+)?",
        r"--param=[a-z0-9-]+=[0-9]+",
        r"-[DU][A-Za-z_][A-Za-z0-9_]*(?:=(?s:.*))?",
        r"-pthread|-rdynamic|-s|-pipe|-nostdinc(\+\+)?|-nostdlib(\+\+)?|-nodefaultlibs|-nostartfiles",
        r"-static-libgcc|-static-libstdc\+\+",
        rf"-l(?:{_LIBRARIES})",
    )
)
_LINKER_WORD = re.compile(
    r"-O[0-2]|-s|-S|-z|relro|norelro|now|lazy|defs|text|noexecstack|nodelete|noseparate-code|separate-code|"
    r"max-page-size=[0-9a-fx]+|--(no-)?as-needed|--(no-)?gc-sections|--strip-(all|debug)|--no-undefined|"
    r"--build-id=(none|md5|sha1)|--hash-style=(gnu|sysv|both)|-Bsymbolic(-functions)?|--exclude-libs|ALL|"
    r"--export-dynamic|-E|-soname=[A-Za-z0-9_.+-]+|--icf=(all|none|safe)"
)
#: Flags that name a file or folder of the request itself, joined or as the next item.
_RELATIVE = ("-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-I")
_TAKES_VALUE = (*_RELATIVE, "-D", "-U", "--param")
#: Families people do ask for, with the reason why not and what to do instead; the first that fits is told.
_REFUSED = (
    (r"-m.*native.*", "means another processor on each worker", "name the processor, as in -march=x86-64-v3"),
    (r"[^-].*", "is no flag", "all sources and libraries must be in the request"),
    (
        r"-(fplugin|fpass-plugin|Xclang|mllvm|load).*",
        "loads code that is not in the key",
        "leave it out",
    ),
    (
        r"-(L|B|-sysroot|isysroot|iprefix|specs|-specs|wrapper|fuse-ld).*",
        "reads what is not in the key",
        "leave it out",
    ),
    (r"-(o|c|S|E|shared|save-temps|M.*|dump.*)\b.*", "decides what is written", "use option output: so or o"),
    (r"-(fprofile|fauto-profile|fbranch-prob).*", "reads a profile that is not in the key", "leave it out"),
    (r"-W[alp],.*|-X.*", "passes an argument on that is not known to be harmless", "leave it out"),
    (r"-l.*", "links a library that is not in the key", "put its source into the request"),
)


def check(flags: Sequence[str], depth: int = 0) -> None:
    """Refuse the first flag that is not known to act through the key alone.

    Args:
        depth: how many levels above the source's folder the request's own files may lie.

    Raises:
        InputError: names the flag, why, and what to do; the submitter mends it.
    """
    for flag in _joined(flags):
        name = next((name for name in _RELATIVE if flag.startswith(name)), None)
        if name is not None:
            _check_path(name, flag.removeprefix(name), depth)
        elif flag.startswith("-Wl,"):
            _check_linker(flag)
        elif not any(pattern.fullmatch(flag) for pattern in _ALLOWED):
            raise _reason(flag)


def _joined(flags: Sequence[str]) -> Iterator[str]:
    """The flags, each together with its value where that is an item of its own."""
    rest = iter(flags)
    for flag in rest:
        if flag not in _TAKES_VALUE:
            yield flag
            continue
        value = next(rest, None)
        if value is None:
            raise _refusal(flag, "needs a value", f"give the value after {flag}")
        yield f"{flag}={value}" if flag == "--param" else flag + value


def _check_path(name: str, path: str, depth: int) -> None:
    normal = os.path.normpath(path)
    climbs = PurePosixPath(normal).parts.count("..")
    if path.startswith(("/", "=", "$", "-", "@")) or climbs > depth:
        raise _refusal(f"{name} {path}", "leads out of the request", "list the folder in source.include_dirs")


def _check_linker(flag: str) -> None:
    words = flag.split(",")[1:]
    for at, word in enumerate(words):
        after_soname = at > 0 and words[at - 1] == "-soname" and re.fullmatch(_WORD, word)
        if word != "-soname" and not after_soname and not _LINKER_WORD.fullmatch(word):
            raise _refusal(flag, f"{word!r} is not known to act through the key alone", "leave it out")


def _reason(flag: str) -> InputError:
    for pattern, why, fix in _REFUSED:
        if re.fullmatch(pattern, flag, re.DOTALL):
            return _refusal(flag, why, fix)
    return _refusal(flag, "is not known to act through the key alone", "leave it out")


def _refusal(flag: str, why: str, fix: str) -> InputError:
    return InputError(f"options.flags: {flag[:200]!r} {why}", fix)
