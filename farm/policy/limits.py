"""The limits of a cache: op_cache.ini before the environment before the default (CANN manual, operator compile cache).

The two numbers are those of ``farm/policy/quantity.py``. Of the environment each value that is not valid counts as
its default, and is named once; of op_cache.ini both must be valid, or neither counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farm.policy.inifile import IniFile
from farm.policy.quantity import RATIO, SIZE, UNLIMITED, Quantity

MEGABYTE = 1048576


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


def decide(ini: IniFile | None, environment: Limits) -> Limits:
    """The limits in force: the file's where it has any, else those of ``from_environment``.

    Cheap, and to be asked again whenever the file has changed: the environment is read, and its faults are told,
    only once.
    """
    if ini is None or ini.max_op_cache_size_mb is None or ini.remain_cache_size_ratio is None:
        return environment
    return _limits(ini.max_op_cache_size_mb, ini.remain_cache_size_ratio, "op_cache.ini")


def from_environment(environ: Mapping[str, str]) -> tuple[Limits, list[str]]:
    """The limits that the two variables set, and a warning for each value that counts as its default."""
    warnings: list[str] = []
    size_mb = _value(environ, SIZE, warnings)
    ratio = _value(environ, RATIO, warnings)
    origin = "environment" if size_mb or ratio else "default"
    return _limits(size_mb or SIZE.default, ratio or RATIO.default, origin), warnings


def _limits(size_mb: int, ratio: int, origin: str) -> Limits:
    ageing = size_mb != UNLIMITED
    return Limits((size_mb if ageing else SIZE.default) * MEGABYTE, ratio, origin, ageing)


def _value(environ: Mapping[str, str], quantity: Quantity, warnings: list[str]) -> int | None:
    text = environ.get(quantity.variable, "").strip(" \t")
    if not text:
        return None
    number = quantity.read(text)
    if number is None:
        warnings.append(f"{quantity.variable} = {text!r} is not {quantity.valid}; using the default {quantity.default}")
    return number
