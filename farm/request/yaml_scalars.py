"""What an unquoted YAML scalar means: YAML 1.2's core rules, so that YAML and JSON say the same.

A scalar that YAML 1.1 and 1.2 readers take for different things is refused: quoting it, or writing it in
another way, says which is meant.
"""

from __future__ import annotations

import re

from farm.request.values import FieldError, shown

_WORDS: dict[str, bool | float | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{sign + word: float(f"{sign}inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
_OLD_BOOLEANS = frozenset(
    spelling for word in ("yes", "no", "on", "off") for spelling in (word, word.capitalize(), word.upper())
)
_FIRST_OF_NUMBER = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,39})")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,32}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?")
#: Octal, binary, grouped and base-60 numbers of YAML 1.1.
_OLD_NUMBER = re.compile(r"[-+]?(0[0-9_]+|0o[0-7]+|0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?)")


def plain(scalar: str) -> bool | int | float | str | None:
    """The value of an unquoted scalar.

    Raises:
        FieldError: a date, or a scalar that YAML readers disagree about; the submitter quotes it.
    """
    if scalar in _WORDS:
        return _WORDS[scalar]
    if scalar[0] in _FIRST_OF_NUMBER:
        return _number(scalar)
    if scalar in _OLD_BOOLEANS:
        raise FieldError(
            f"{scalar} is true or false to some YAML readers and text to others",
            "quote it, or write true or false",
        )
    return scalar


def _number(scalar: str) -> int | float | str:
    if _INTEGER.fullmatch(scalar):
        return int(scalar)
    if _HEX.fullmatch(scalar):
        return int(scalar, 16)
    if _DATE.fullmatch(scalar):
        raise FieldError(
            f"{shown(scalar)} is a date to some YAML readers, and a date is not a value",
            "quote it to make it text",
        )
    if _OLD_NUMBER.fullmatch(scalar) and not _FLOAT_ONLY.fullmatch(scalar):
        raise FieldError(
            f"{shown(scalar)} is not the same number to all YAML readers", "quote it, or write it in decimal"
        )
    if _FLOAT.fullmatch(scalar):
        return float(scalar)
    return scalar


_FLOAT_ONLY = re.compile(r"[-+]?[0-9]+\.[0-9]*")
