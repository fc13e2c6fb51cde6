"""The file of op_debug_config: which debug values the compiler gets, and for which operators.

    op_debug_config=ccec_g,oom
    op_debug_list=add_fp16,OpType::ReduceSum

Values known to CANN 9 are oom, dump_bin, dump_cce, dump_loc, ccec_O0, ccec_g, check_flag and sanitizer. They differ
from version to version and toolchains have their own, so any short word passes and the compiler judges it.
"""

from __future__ import annotations

import re
import stat
import unicodedata
from pathlib import Path
from typing import NamedTuple

from farm.errors import InputError
from farm.policy.modes import is_type, selected
from farm.policy.textfile import MAX_BYTES, NotText, brief, lines, pair, text_of

CONFIG, LIST = "op_debug_config", "op_debug_list"
MAX_VALUES = 64
_VALUE = re.compile(r"[A-Za-z0-9_.:=+-]{1,128}")
_VALUE_WORDS = "use up to 128 letters, digits and _ . : = + -"
_LINES = f"use the lines {CONFIG}=a,b and {LIST}=name,OpType::Type"


class DebugConfig(NamedTuple):
    """What the file says; ``Debug(level, *config)`` makes a job's debug options of it."""

    values: tuple[str, ...]
    listed: tuple[str, ...] | None


def load(path: Path) -> DebugConfig:
    """Read the file.

    Raises:
        InputError: missing, not readable or malformed; names file and line; the submitter mends it.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(path, "it is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, (isinstance(error, OSError) and error.strerror) or "it is no path") from None
    return parse(data, str(path))


def parse(data: bytes, where: str) -> DebugConfig:
    """Read the file's bytes; ``where`` is its name in messages. A file with nothing but comments sets nothing.

    Raises:
        InputError: malformed; names file and line; the submitter mends it.
    """
    try:
        text = text_of(data)
    except NotText as reason:
        raise InputError(f"{CONFIG} file {where} {reason}", fix=_LINES) from None
    given: dict[str, tuple[int, str]] = {}
    for number, line in lines(text):
        key, value = pair(line) or ("", "")
        if key not in (CONFIG, LIST):
            raise _malformed(where, number, f"{brief(line)} is neither {CONFIG}= nor {LIST}=", _LINES)
        if key in given:
            raise _malformed(where, number, f"{key} stands in line {given[key][0]} already", "keep one")
        given[key] = (number, value)
    if CONFIG not in given:
        if LIST in given:
            raise _malformed(where, given[LIST][0], f"{LIST} without {CONFIG}", f"add a line {CONFIG}=a,b")
        return DebugConfig((), None)
    return DebugConfig(_values(where, *given[CONFIG]), _listed(where, *given[LIST]) if LIST in given else None)


def _values(where: str, number: int, text: str) -> tuple[str, ...]:
    values = _items(text)
    if not 1 <= len(values) <= MAX_VALUES:
        raise _malformed(where, number, f"{CONFIG} has {len(values)} values", f"give 1 to {MAX_VALUES}")
    for value in values:
        if not _VALUE.fullmatch(value):
            raise _malformed(
                where,
                number,
                f"{brief(value)} is no value of {CONFIG}",
                "use up to 128 letters, digits and _ . : = + -",
            )
    return values


def _listed(where: str, number: int, text: str) -> tuple[str, ...]:
    entries = _items(unicodedata.normalize("NFC", text))
    for entry in entries:
        if is_type(entry) and not selected(entry):
            raise _malformed(where, number, f"{brief(entry)} names no type", "write OpType:: and the type")
    return entries


def _items(text: str) -> tuple[str, ...]:
    """What stands between the commas, each once; nothing between two of them is no item, as in CANN."""
    return tuple(dict.fromkeys(item for part in text.split(",") if (item := part.strip(" \t"))))


def _malformed(where: str, number: int, what: str, fix: str) -> InputError:
    return InputError(f"{CONFIG} file {where}, line {number}: {what}", fix=fix)


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(f"{CONFIG} file {str(path)!r} can not be read: {reason}", fix=f"name a readable file; {_LINES}")
