"""op_cache.ini: the limits of one cache folder, as people write it by hand. Pure: bytes in, values and faults out.

Both sizes count or neither does. Whatever else is in the file is named once and costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from farm.policy.quantity import RATIO, SIZE, Quantity
from farm.policy.textfile import NotText, brief, lines, pair, text_of

NAME = "op_cache.ini"
SECTION = "op_compiler_cache"

#: Written where there is none. It sets nothing, so that a file nobody wrote never beats the environment.
GENERATED = f"""\
# Limits of this kernel cache. They count when both lines below are there and valid; else the variables
# {SIZE.variable} and {RATIO.variable} count, else the defaults (500, 50).
# The file is read again while the farm runs. Remove the # in front of both lines to set them.
[{SECTION}]
# MB (1048576 bytes) from which on the cache is aged: 1 to 2147483647, or -1: never.
#{SIZE.key}={SIZE.default}
# Per cent of it that ageing leaves: 1 to 100.
#{RATIO.key}={RATIO.default}
"""

#: CANN's own lines. Here the toolchain is in every key, so that no version has to be compared.
_SILENT = frozenset({"adk_version", "ops_version"})
_SIZES = {quantity.key: quantity for quantity in (SIZE, RATIO)}
_HEADER = re.compile(r"\[([^\[\]]*)\][ \t]*(?:[#;].*)?")
_MAX_FAULTS = 20
_NEITHER = "until this is mended neither size of this file counts"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing in the file that does not count; equal faults are the same one, so it can be told once."""

    where: str
    #: None: the file as a whole.
    line: int | None
    value: str
    #: What is wrong, the valid range, what to do.
    message: str

    def __str__(self) -> str:
        where = self.where if self.where.isprintable() else repr(self.where)
        if self.line is None:
            return f"{where}: {self.message}"
        return f"{where}, line {self.line}: {brief(self.value)}: {self.message}"


@dataclass(frozen=True, slots=True)
class IniFile:
    """What the file says: both sizes or neither, and every fault in it, at most 21 of them."""

    #: MB of 1048576 bytes, or -1.
    max_op_cache_size_mb: int | None
    remain_cache_size_ratio: int | None
    faults: tuple[Fault, ...] = ()


@dataclass(slots=True)
class _Found:
    """What was met so far: where and how often each size is set, and the faults."""

    where: str
    sizes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, line: int, value: str, message: str) -> None:
        self.faults.append(Fault(self.where, line, value, message))


def parse(data: bytes, where: str) -> IniFile:
    """Read the file ``where`` (a path or URL, for messages); never raises.

    Of a section that is there twice both parts count. A size that is given two different values has none.
    """
    try:
        text = text_of(data)
    except NotText as reason:
        return unusable(where, f"{reason}; nothing in it counts")
    found = _Found(where)
    _sort_lines(lines(text), found)
    size, ratio = (_settle(quantity, found) for quantity in (SIZE, RATIO))
    if size is None or ratio is None:
        size = ratio = None
    return IniFile(size, ratio, _bounded(found))


def unusable(where: str, reason: str) -> IniFile:
    """The file that is there but can not be read: a folder, no permission, a broken disk."""
    return IniFile(None, None, (Fault(where, None, "", reason),))


def _sort_lines(numbered: Iterable[tuple[int, str]], found: _Found) -> None:
    """Walk the lines; a key counts only below the right header."""
    section: str | None = None
    strangers: set[str] = set()
    for number, line in numbered:
        if line.startswith("["):
            section = _header(number, line, strangers, found)
        elif section is None:
            found.fault(number, line, f"does not count before the first section: put it below [{SECTION}]")
        elif section == SECTION:
            _key(number, line, strangers, found)


def _header(number: int, line: str, strangers: set[str], found: _Found) -> str:
    header = _HEADER.fullmatch(line)
    name = header[1].strip(" \t") if header else ""
    if name != SECTION and line not in strangers:
        strangers.add(line)
        what = "unknown section" if header else "no section header"
        found.fault(number, line, f"{what}: the lines below it do not count; the only section is [{SECTION}]")
    return name


def _key(number: int, line: str, strangers: set[str], found: _Found) -> None:
    key, value = pair(line) or ("", "")
    if key in _SIZES:
        found.sizes.setdefault(key, []).append((number, value))
    elif not key:
        found.fault(number, line, f"is not key=value; valid keys: {', '.join(_SIZES)}")
    elif key not in _SILENT and key not in strangers:
        strangers.add(key)
        found.fault(number, key, f"unknown key; valid keys: {', '.join(_SIZES)}")


def _settle(quantity: Quantity, found: _Found) -> int | None:
    """The one value of this size, or None with the fault that says why."""
    given = found.sizes.get(quantity.key, [])
    if not given and found.sizes:
        (line, _), *_ = next(iter(found.sizes.values()))
        other = next(iter(found.sizes))
        found.fault(line, other, f"does not count alone: set {quantity.key} too, {quantity.valid}")
    numbers = [quantity.read(value) for _, value in given]
    for (line, value), number in zip(given, numbers, strict=True):
        if number is None:
            found.fault(line, value, f"{quantity.key} must be {quantity.valid}; {_NEITHER}")
    if len(set(numbers) - {None}) > 1:
        others = ", ".join(str(line) for line, _ in given[:-1])
        line, value = given[-1]
        found.fault(line, value, f"{quantity.key} has another value in line {others}: keep one; {_NEITHER}")
        return None
    return numbers[0] if numbers and None not in numbers else None


def _bounded(found: _Found) -> tuple[Fault, ...]:
    faults = sorted(found.faults, key=lambda fault: fault.line or 0)
    if len(faults) <= _MAX_FAULTS:
        return tuple(faults)
    more = Fault(found.where, None, "", f"has {len(faults) - _MAX_FAULTS} more faults: is it the right file?")
    return (*faults[:_MAX_FAULTS], more)
