"""aicore_num: its form, its range, which processors take it, and where it has no effect."""

from __future__ import annotations

import codecs

import pytest

from farm.errors import InputError
from farm.policy.cores import BUILT_IN, JIT_COMPILE, CoreCounts, check, from_platform_config, has_effect, parse


@pytest.mark.parametrize(("text", "counts"), [("24|48", (24, 48)), ("1|1", (1, 1)), ("65535|99999", (65535, 99999))])
def test_two_numbers(text: str, counts: tuple[int, int]) -> None:
    assert parse(text) == CoreCounts(*counts)
    assert str(parse(text)) == text


BAD = [
    "", "24", "24|", "|48", "|", "24|48|", "24||48", "24|48|2", "24,48", "0|48", "24|0", "-1|48", "+24|48", "024|48",
    "24|048", " 24|48", "24 | 48", "24|48\n", "24.0|48", "２４|48", "٢|48", "2_4|48", "0x18|48", "a|b",  # noqa: RUF001
    "1|" + "9" * 400,
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_any_other_form_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="aicore_num") as told:
        parse(text)
    assert '"24|48"' in told.value.fix
    assert told.value.exit_code == 2


HAS = CoreCounts(20, 40)


@pytest.mark.parametrize("counts", [CoreCounts(1, 1), CoreCounts(20, 40), CoreCounts(20, 1), CoreCounts(1, 40)])
def test_up_to_what_the_processor_has(counts: CoreCounts) -> None:
    check(counts, HAS, "Any")
    check(counts, None, "Ascend910B4")


@pytest.mark.parametrize("counts", [CoreCounts(21, 40), CoreCounts(20, 41), CoreCounts(40, 20)])
@pytest.mark.parametrize(("available", "soc"), [(HAS, "Any"), (None, "Ascend910B4")])
def test_more_is_an_error_that_names_the_range(counts: CoreCounts, available: CoreCounts | None, soc: str) -> None:
    with pytest.raises(InputError) as told:
        check(counts, available, soc)
    assert soc in told.value.message
    assert str(counts) in told.value.message
    assert "1 to 20 cube cores and 1 to 40 vector cores" in told.value.fix


def test_what_workers_report_beats_the_table() -> None:
    check(CoreCounts(22, 44), CoreCounts(22, 44), "Ascend910B4")
    with pytest.raises(InputError, match="not so many"):
        check(CoreCounts(20, 40), CoreCounts(8, 16), "Ascend910B4")


@pytest.mark.parametrize(
    "soc", ["sm_90", "x86_64", "gfx942", "Ascend310P3", "Ascend310B1", "Ascend910B", "ascend910b4"]
)
def test_a_processor_that_does_not_take_it(soc: str) -> None:
    with pytest.raises(InputError, match=f"{soc} does not support it") as told:
        check(CoreCounts(1, 1), None, soc)
    assert "Ascend910B" in told.value.fix
    assert told.value.exit_code == 2


#: What files of CANN or pages about them quote, independently of the table's source.
QUOTED = {
    "Ascend910B2": (24, 48), "Ascend910_9392": (24, 48), "Ascend950PR_958b": (32, 64), "Ascend910B4-1": (20, 40),
    "Ascend950PR_9589": (32, 64),
}  # fmt: skip


def test_the_table() -> None:
    assert {soc: BUILT_IN[soc] for soc in QUOTED} == {soc: CoreCounts(*counts) for soc, counts in QUOTED.items()}
    assert len(BUILT_IN) == 59
    assert all(counts.vector == 2 * counts.cube for counts in BUILT_IN.values())


@pytest.mark.parametrize("static_shape", [True, False])
@pytest.mark.parametrize("jit_compile", JIT_COMPILE)
def test_only_static_shapes_without_compiling_are_not_affected(static_shape: bool, jit_compile: str) -> None:
    assert has_effect(static_shape, jit_compile) is ((static_shape, jit_compile) != (True, "false"))


PLATFORM = b"""# platform
[version]
SoC_version=Ascend910B2
[SoCInfo]
ai_core_cnt=24
cube_core_cnt=24
vector_core_cnt = 48
memory_type=
l2_size=201326592
[AICoreSpec]
cube_core_cnt=1
ub_size=196608
"""


@pytest.mark.parametrize("data", [PLATFORM, PLATFORM.replace(b"\n", b"\r\n"), codecs.BOM_UTF8 + PLATFORM])
def test_counts_from_a_platform_config(data: bytes) -> None:
    assert from_platform_config(data) == CoreCounts(24, 48)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PLATFORM.replace(b"[SoCInfo]\n", b""),
        PLATFORM.replace(b"cube_core_cnt=24\n", b""),
        PLATFORM.replace(b"vector_core_cnt = 48\n", b""),
        PLATFORM.replace(b"=24", b"=0"),
        PLATFORM.replace(b"=24", b"=-1"),
        PLATFORM.replace(b"=24", b"="),
        PLATFORM.replace(b"=24", b"=24 cores"),
        PLATFORM.replace(b"=24", b"=0x18"),
        PLATFORM.decode().encode("utf-16"),
        PLATFORM + b"\xff",
        PLATFORM + b"#" * 2**20,
    ],
)
def test_a_platform_config_that_does_not_say_both(data: bytes) -> None:
    assert from_platform_config(data) is None


def test_a_long_platform_config_is_read() -> None:
    assert from_platform_config(PLATFORM + b"Intrinsic_vadd=float16,float32\n" * 9000) == CoreCounts(24, 48)
