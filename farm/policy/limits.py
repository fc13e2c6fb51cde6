"""The limits of a namespace, from Ascend's two environment variables (CANN manual, operator compile disk cache).

    ASCEND_MAX_OP_CACHE_SIZE       MB (1048576 bytes), at least 1, or -1: never aged
    ASCEND_REMAIN_CACHE_SIZE_RATIO per cent of it that ageing leaves, 1 to 100

Each value that is not valid counts as its default, and is named once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MEGABYTE = 1048576
DEFAULT_SIZE_MB = 500
DEFAULT_RATIO = 50
UNLIMITED = -1
SIZE_VARIABLE, RATIO_VARIABLE = "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"

#: ASCII digits with an optional sign, blanks trimmed; int() would also take 5_0 and other scripts' digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force; with ``ageing`` off the size is nominal."""

    limit_bytes: int
    keep_ratio: int
    origin: str
    ageing: bool

    @property
    def keep_bytes(self) -> int:
        """What ageing leaves at most."""
        return self.limit_bytes * self.keep_ratio // 100


def from_environment(environ: Mapping[str, str]) -> tuple[Limits, list[str]]:
    """The limits that these variables set, and a warning for each value that counts as its default."""
    warnings: list[str] = []
    given_size = _value(
        environ, SIZE_VARIABLE, warnings, DEFAULT_SIZE_MB, "a whole number of MB from 1, or -1", _is_size
    )
    given_ratio = _value(environ, RATIO_VARIABLE, warnings, DEFAULT_RATIO, "a whole number from 1 to 100", _is_ratio)
    ageing = given_size != UNLIMITED
    limit_bytes = (given_size if given_size and ageing else DEFAULT_SIZE_MB) * MEGABYTE
    origin = "environment" if given_size or given_ratio else "default"
    return Limits(limit_bytes, given_ratio or DEFAULT_RATIO, origin, ageing), warnings


def _is_size(number: int) -> bool:
    return number >= 1 or number == UNLIMITED


def _is_ratio(number: int) -> bool:
    return 1 <= number <= 100


def _value(
    environ: Mapping[str, str], name: str, warnings: list[str], default: int, valid: str, check: Callable[[int], bool]
) -> int | None:
    """The value, or None when there is none that is valid; 0 never is."""
    text = environ.get(name, "").strip(" \t")
    if not text:
        return None
    if _INTEGER.fullmatch(text) and check(int(text)):
        return int(text)
    warnings.append(f"{name} = {text!r} is not {valid}; using the default {default}")
    return None
