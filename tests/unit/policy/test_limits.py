"""ASCEND_MAX_OP_CACHE_SIZE and ASCEND_REMAIN_CACHE_SIZE_RATIO: strict numbers, each bad one named once.

And op_cache.ini before them, when both of its sizes are valid.
"""

from __future__ import annotations

import pytest

from farm.policy.inifile import IniFile, parse, unusable
from farm.policy.limits import MEGABYTE, Limits, decide, from_environment
from farm.policy.quantity import RATIO, SIZE

SIZE_VARIABLE, RATIO_VARIABLE = SIZE.variable, RATIO.variable

BAD = [
    "５００", "٥", "1_000", "80%", "500MB", "0", "-0", "00", "-2", "1.5", "1e3", "0x10", "+", "-", "+-1", "- 1",  # noqa: RUF001
    "1 0", "five", "1,000", "²", "\u00a05", "1\u200b", "1\n2", "9" * 40,
    "2147483648",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("variable", [SIZE_VARIABLE, RATIO_VARIABLE])
def test_what_is_no_valid_number_counts_as_the_default_and_is_named(variable: str, text: str) -> None:
    limits, warnings = from_environment({variable: text})
    assert limits.limit_bytes == 500 * MEGABYTE
    assert limits.keep_ratio == 50
    assert (limits.ageing, limits.origin) == (True, "default")
    (warning,) = warnings
    assert variable in warning
    assert repr(text.strip(" \t")) in warning


@pytest.mark.parametrize("text", ["101", "-1", "2147483648", "-50"])
def test_a_ratio_out_of_range_counts_as_the_default(text: str) -> None:
    limits, (warning,) = from_environment({RATIO_VARIABLE: text, SIZE_VARIABLE: "7"})
    assert limits == Limits(7 * MEGABYTE, 50, "environment", True)
    assert "1 to 100" in warning


@pytest.mark.parametrize(
    ("text", "size_mb"), [("1", 1), ("500", 500), ("+5", 5), (" 5\t", 5), ("007", 7), ("2147483647", 2**31 - 1)]
)
def test_sizes(text: str, size_mb: int) -> None:
    assert from_environment({SIZE_VARIABLE: text}) == (Limits(size_mb * MEGABYTE, 50, "environment", True), [])


@pytest.mark.parametrize(("text", "ratio"), [("1", 1), ("100", 100), ("+50", 50), (" 80 ", 80)])
def test_ratios(text: str, ratio: int) -> None:
    assert from_environment({RATIO_VARIABLE: text}) == (Limits(500 * MEGABYTE, ratio, "environment", True), [])


@pytest.mark.parametrize("text", ["-1", " -1 ", "-01"])
def test_minus_1_ages_never_and_shows_the_nominal_size(text: str) -> None:
    assert from_environment({SIZE_VARIABLE: text}) == (Limits(524288000, 50, "environment", False), [])


@pytest.mark.parametrize("environ", [{}, {SIZE_VARIABLE: "", RATIO_VARIABLE: ""}, {SIZE_VARIABLE: " "}])
def test_unset_and_empty_are_the_default(environ: dict[str, str]) -> None:
    limits, warnings = from_environment(environ)
    assert limits == Limits(524288000, 50, "default", True)
    assert warnings == []


def test_each_bad_value_is_named_and_costs_only_itself() -> None:
    limits, warnings = from_environment({SIZE_VARIABLE: "much", RATIO_VARIABLE: "200"})
    assert [SIZE_VARIABLE in warnings[0], RATIO_VARIABLE in warnings[1], len(warnings)] == [True, True, 2]
    assert from_environment({SIZE_VARIABLE: "much", RATIO_VARIABLE: "20"})[0].keep_ratio == 20
    assert limits.keep_ratio == 50


@pytest.mark.parametrize(("size", "ratio", "keep"), [(3, 50, 1572864), (1, 1, 10485), (1, 100, 1048576)])
def test_what_ageing_leaves_is_rounded_down(size: int, ratio: int, keep: int) -> None:
    assert Limits(size * MEGABYTE, ratio, "environment", True).keep_bytes == keep


ENVIRONMENT = from_environment({SIZE_VARIABLE: "7", RATIO_VARIABLE: "30"})[0]
DEFAULT = from_environment({})[0]


@pytest.mark.parametrize("environment", [ENVIRONMENT, DEFAULT])
@pytest.mark.parametrize(
    ("size_mb", "ratio", "limits"),
    [
        (500, 50, Limits(524288000, 50, "op_cache.ini", True)),
        (1, 100, Limits(MEGABYTE, 100, "op_cache.ini", True)),
        (-1, 20, Limits(524288000, 20, "op_cache.ini", False)),
    ],
)
def test_the_file_beats_environment_and_default(size_mb: int, ratio: int, limits: Limits, environment: Limits) -> None:
    assert decide(IniFile(size_mb, ratio), environment) == limits


#: Present, but without two valid sizes.
SETS_NOTHING = [
    b"", b"max_op_cache_size=5", b"max_op_cache_size=5\nremain_cache_size_ratio=0", b"remain_cache_size_ratio=5",
    b"max_op_cache_size=-1", b"max_op_cache_size=x\nremain_cache_size_ratio=5", b"adk_version=1\nops_version=2",
]  # fmt: skip


@pytest.mark.parametrize("environment", [ENVIRONMENT, DEFAULT])
@pytest.mark.parametrize(
    "ini",
    [
        None,
        unusable("x", "no"),
        IniFile(7, None),
        IniFile(None, 7),
        *(parse(b"[op_compiler_cache]\n" + body, "x") for body in SETS_NOTHING),
    ],
)
def test_else_both_sizes_are_the_environments(ini: IniFile | None, environment: Limits) -> None:
    assert decide(ini, environment) == environment
    assert {environment.origin for environment in (ENVIRONMENT, DEFAULT)} == {"environment", "default"}
