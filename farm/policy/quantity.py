"""The two numbers that limit a cache, wherever they are set: key, variable, default and valid range in one table."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNLIMITED = -1

#: ASCII digits with an optional sign, blanks trimmed; int() would also take 5_0 and other scripts' digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number: its key in op_cache.ini, its environment variable, its default and what is valid."""

    key: str
    variable: str
    default: int
    valid: str
    most: int
    may_be_unlimited: bool = False

    def read(self, text: str) -> int | None:
        """The number that this text is, or None when it is none that is valid; 0 never is."""
        trimmed = text.strip(" \t")
        if not _INTEGER.fullmatch(trimmed):
            return None
        number = int(trimmed)
        is_valid = 1 <= number <= self.most or (self.may_be_unlimited and number == UNLIMITED)
        return number if is_valid else None


#: In MB of 1048576 bytes. CANN's own reader has the same bounds (32 bits).
SIZE = Quantity(
    "max_op_cache_size",
    "ASCEND_MAX_OP_CACHE_SIZE",
    500,
    "a whole number of MB from 1 to 2147483647, or -1",
    2**31 - 1,
    may_be_unlimited=True,
)
RATIO = Quantity("remain_cache_size_ratio", "ASCEND_REMAIN_CACHE_SIZE_RATIO", 50, "a whole number from 1 to 100", 100)
