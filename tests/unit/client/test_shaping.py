"""What a job's options make of its operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.client.shaping import Shaping
from farm.errors import InputError
from farm.index.registry import Offer
from farm.policy.cores import CoreCounts
from farm.policy.modes import Debug, decide
from farm.request.job_options import JobOptions
from farm.request.model import Request, Tensor
from tests.unit.request.sample import sample

OFFER = Offer("cuda", "f0" * 32, "12", core_counts={"Ascend910B1": (24, 48)})
STATIC = sample(soc="Ascend910B1", inputs=(Tensor((2, 3), "float16"),), outputs=())
DYNAMIC = replace(STATIC, inputs=(Tensor((2, -1), "float16"),))


def shaped(request: Request, shaping: Shaping) -> JobOptions:
    return shaping.shape(request, OFFER, "job@7").job_options


def test_a_job_without_options_shares_all() -> None:
    shaping = Shaping(decide("enable", Debug()))
    assert shaped(STATIC, shaping) == JobOptions()
    assert shaping.reason([STATIC]) == "op_compiler_cache_mode is enable"
    assert not shaping.purges
    assert Shaping(decide("force", Debug())).purges


def test_disable_is_private_without_more() -> None:
    assert shaped(STATIC, Shaping(decide("disable", Debug()))) == JobOptions(private="job@7")


def test_a_debug_level_reaches_all_and_purges_nothing() -> None:
    shaping = Shaping(decide("force", Debug(2, ("oom",))))
    assert not shaping.purges
    assert shaped(STATIC, shaping) == JobOptions(private="job@7", op_debug_level=2, op_debug_config=("oom",))
    assert "nothing is purged" in shaping.reason([STATIC])


def test_listed_operators_alone_are_private_and_get_the_values() -> None:
    shaping = Shaping(decide("enable", Debug(0, ("oom",), ("add_fp16", "OpType::Sub", "gone"))))
    values = JobOptions(private="job@7", op_debug_config=("oom",))
    assert shaped(STATIC, shaping) == values
    assert shaped(replace(STATIC, name="other"), shaping) == JobOptions()
    assert shaped(replace(STATIC, name="other", type="Sub"), shaping) == values
    told = shaping.reason([STATIC, replace(STATIC, name="other")])
    assert told.endswith("no operator is selected by OpType::Sub, gone")


@pytest.mark.parametrize(
    ("request_", "jit_compile", "counts"),
    [
        (STATIC, "auto", (8, 48)),
        (STATIC, "true", (8, 48)),
        (STATIC, "false", None),
        (DYNAMIC, "false", (8, 48)),
        (DYNAMIC, "auto", (8, 48)),
    ],
)
def test_core_counts_are_in_the_key_where_they_have_effect(
    request_: Request, jit_compile: str, counts: tuple[int, int] | None
) -> None:
    shaping = Shaping(decide("enable", Debug()), CoreCounts(8, 48), jit_compile)
    assert shaped(request_, shaping) == JobOptions(aicore_num=counts)


@pytest.mark.parametrize("jit_compile", ["auto", "false"])
@pytest.mark.parametrize(
    ("soc", "counts", "said"),
    [
        ("Ascend910B1", CoreCounts(25, 48), "1 to 24 cube"),
        ("Ascend910B1", CoreCounts(24, 49), "1 to 48 vector"),
        ("sm_90", CoreCounts(1, 1), "leave aicore_num out"),
    ],
)
def test_core_counts_that_can_not_be_are_refused_also_without_effect(
    soc: str, counts: CoreCounts, said: str, jit_compile: str
) -> None:
    shaping = Shaping(decide("enable", Debug()), counts, jit_compile)
    with pytest.raises(InputError) as caught:
        shaped(replace(STATIC, soc=soc), shaping)
    assert said in str(caught.value.fix)


def test_jit_compile_is_one_of_three() -> None:
    with pytest.raises(InputError, match="jit_compile 'True' is not known"):
        Shaping(decide("enable", Debug()), None, "True")
