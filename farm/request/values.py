"""The values a request may hold, one spelling for each, and the error that names a wrong one.

Text is NFC-normalised here and nowhere else, so two spellings of one accent are one value everywhere.
"""

from __future__ import annotations

import math
import re
import reprlib
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from farm.errors import InputError

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Mapping[str, Value] | None"

#: Lists and mappings inside each other; real attributes use two or three levels.
MAX_DEPTH = 32
MAX_LABEL_CHARACTERS = 256
INT64 = range(-(2**63), 2**63)

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 2


class FieldError(InputError):
    """One field of a request is wrong; ``field`` is its path, outermost part first."""

    def __init__(self, what: str, fix: str = "", field: str = "") -> None:
        super().__init__(f"field {field}: {what}" if field else what, fix)
        self.what = what
        self.field = field


@contextmanager
def within(outer: str) -> Iterator[None]:
    """Put ``outer`` before the path of any FieldError raised inside."""
    try:
        yield
    except FieldError as error:
        raise FieldError(error.what, error.fix, join(outer, error.field)) from None


def join(outer: str, inner: str | int) -> str:
    """The path of ``inner`` inside ``outer``: ``inputs[0].shape``."""
    if isinstance(inner, int):
        return f"{outer}[{inner}]"
    if not outer or not inner or inner.startswith("["):
        return outer + inner
    return f"{outer}.{inner}"


def printable(text: str) -> str:
    """``text`` on one line and not too long, for use in a message."""
    return text if text.isprintable() and len(text) <= MAX_LABEL_CHARACTERS else shown(text)


def shown(value: object) -> str:
    """A short one-line picture of any value, for use in a message."""
    try:
        return _SHORT.repr(value).replace("\n", " ")
    except ValueError:  # Python refuses to print integers of thousands of digits
        return "a very large number"


def text(value: object, field: str) -> str:
    """NFC-normalised text that can be encoded, stored and handed to a program."""
    if not isinstance(value, str):
        raise FieldError(f"must be text, given {shown(value)}", "quote it to make it text", field)
    if "\0" in value:
        raise FieldError("must not contain a NUL character", "remove it", field)
    normal = str.__str__(unicodedata.normalize("NFC", value))
    try:
        normal.encode()
    except UnicodeEncodeError:
        raise FieldError(f"is not valid Unicode: {shown(value)}", "remove the lone surrogate", field) from None
    return normal


def label(value: object, field: str, limit: int = MAX_LABEL_CHARACTERS) -> str:
    """Text a person reads in a list: not empty, at most ``limit`` characters, no control characters."""
    normal = text(value, field)
    if not normal.strip():
        raise FieldError("is empty", f"give 1 to {limit} characters", field)
    if len(normal) > limit:
        raise FieldError(f"has {len(normal)} characters; valid are 1 to {limit}", "shorten it", field)
    if not normal.isprintable() and any(unicodedata.category(one) in _CONTROL for one in normal):
        raise FieldError(f"holds a control character: {shown(normal)}", "remove it", field)
    return normal


_CONTROL = frozenset({"Cc", "Zl", "Zp"})


def word(value: object, field: str, pattern: re.Pattern[str], valid: str) -> str:
    """Text that matches ``pattern`` as a whole; ``valid`` says the same in words."""
    normal = text(value, field)
    if not pattern.fullmatch(normal):
        raise FieldError(f"{shown(normal)} is not valid; valid: {valid}", "", field)
    return normal


def digest(value: object, field: str) -> bytes:
    """A raw sha256."""
    if not isinstance(value, bytes) or len(value) != 32:
        raise FieldError(f"must be a sha256 of 32 bytes, given {shown(value)}", "", field)
    return value


def normal_value(value: object, field: str, depth: int = 0) -> Value:
    """The one form of a value: NFC text, tuples for lists, plain numbers.

    ``1``, ``1.0`` and ``True`` stay three values; NaN, infinities, dates, bytes and sets are refused.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value, field)
    if isinstance(value, int):
        return _integer(value, field)
    if isinstance(value, float):
        return _number(value, field)
    if depth >= MAX_DEPTH:
        raise FieldError(f"is nested more than {MAX_DEPTH} levels deep", "flatten it", field)
    if isinstance(value, list | tuple):
        return tuple(normal_value(item, join(field, at), depth + 1) for at, item in enumerate(value))
    if isinstance(value, Mapping):
        return normal_mapping(value, field, depth + 1)
    kind = type(value).__name__
    raise FieldError(
        f"{shown(value)} ({kind}) is not a value",
        "use text, a number, true, false, null, a list or a mapping",
        field,
    )


def normal_mapping(value: object, field: str, depth: int = 0) -> dict[str, Value]:
    """A mapping from names to values in their one form; two names that normalise to one are refused."""
    if not isinstance(value, Mapping):
        raise FieldError(f"must be a mapping, given {shown(value)}", "", field)
    result: dict[str, Value] = {}
    for given, item in value.items():
        name = label(given, join(field, printable(given) if isinstance(given, str) else shown(given)))
        where = join(field, name)
        if name in result:
            raise FieldError("is given twice, in two Unicode spellings", "keep one of the two", where)
        result[name] = normal_value(item, where, depth)
    return result


def _integer(value: int, field: str) -> int:
    plain = int(value)
    if plain not in INT64:
        raise FieldError("is outside the 64 bit integers", "valid: -2**63 to 2**63 - 1", field)
    return plain


def _number(value: float, field: str) -> float:
    plain = float(value)
    if not math.isfinite(plain):
        raise FieldError(f"{plain} is not a number that can be in a key", "give a finite number", field)
    return plain
