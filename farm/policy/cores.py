"""aicore_num: for how many cube and vector cores a kernel is compiled, and how many a processor has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from farm.errors import InputError
from farm.policy.textfile import NotText, lines, pair, text_of

OPTION = "aicore_num"
JIT_COMPILE = ("true", "false", "auto")

_FORM = re.compile(r"([1-9][0-9]{0,4})\|([1-9][0-9]{0,4})")
_COUNT = re.compile(r"[1-9][0-9]{0,4}")
#: Such a file of CANN lists every instruction's types; the longest have some 100 kB.
_MAX_PLATFORM_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class CoreCounts:
    """Numbers of cores, of a processor or to compile for."""

    cube: int
    vector: int

    def __str__(self) -> str:
        return f"{self.cube}|{self.vector}"


def parse(text: str) -> CoreCounts:
    """Read ``cube|vector``: two whole numbers above 0, without sign, blanks or leading zeros.

    Raises:
        InputError: it is anything else; the submitter mends it.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise InputError(
            f"{OPTION} {text!r} is not two numbers of cores",
            fix='give cube and vector cores, quoted for the shell: "24|48", each a whole number from 1',
        )
    return CoreCounts(int(found[1]), int(found[2]))


def check(counts: CoreCounts, available: CoreCounts | None, soc: str) -> None:
    """Compare with what the processor has: as its workers say (``available``), else as the built-in table says.

    Raises:
        InputError: more than it has, or the processor does not support it; the submitter mends it.
    """
    most = available or BUILT_IN.get(soc)
    if most is None:
        raise InputError(
            f"{OPTION} {counts}: {soc} does not support it, or its core counts are not known",
            fix=f"leave {OPTION} out; known: {SERIES}, and what workers report the core counts of",
        )
    if counts.cube > most.cube or counts.vector > most.vector:
        raise InputError(
            f"{OPTION} {counts}: {soc} has not so many cores",
            fix=f"valid: 1 to {most.cube} cube cores and 1 to {most.vector} vector cores",
        )


def has_effect(static_shape: bool, jit_compile: str) -> bool:
    """Whether the counts shape the kernel: not with static shapes and ``jit_compile`` false.

    Then CANN takes a kernel that was built before and for all cores, so the counts are not in the key either.
    """
    return not (static_shape and jit_compile == "false")


def from_platform_config(data: bytes) -> CoreCounts | None:
    """The counts in ``$ASCEND_HOME_PATH/*/data/platform_config/<soc>.ini``; None when it does not say both.

    Processors whose cores have both units (310P, 910) name no cube cores there: they do not take ``cube|vector``.
    """
    try:
        text = text_of(data, _MAX_PLATFORM_BYTES)
    except NotText:
        return None
    section, found = "", {}
    for _, line in lines(text):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == "SoCInfo":
            key, value = pair(line) or ("", "")
            found[key] = value
    cube, vector = found.get("cube_core_cnt", ""), found.get("vector_core_cnt", "")
    both = _COUNT.fullmatch(cube) and _COUNT.fullmatch(vector)
    return CoreCounts(int(cube), int(vector)) if both else None


SERIES = "the Ascend910B, Ascend910_93, Ascend910_95 and Ascend950 series"

#: As the compiler itself says: `bishengir-opt --hacc-append-device-spec=target=<soc>` (for the 910_95 and 950 series
#: `bishengir-opt-a5`) of the wheel ascendnpu-ir 1.2.0 (Apache-2.0), which also names the 910B and 910_93 series in
#: Ascend/AscendNPU-IR, bishengir/include/bishengir/Dialect/HACC/Targets/NPUTargetSpec.td. Its 310B rows contradict
#: each other and CANN's manual, which knows only one number for those, and are left out.
_TABLE = {
    CoreCounts(4, 8): "Ascend910_950z Ascend950PR_950z",
    CoreCounts(8, 16): "Ascend950DT_950x Ascend950DT_950y",
    CoreCounts(20, 40): "Ascend910B3 Ascend910B4 Ascend910B4-1 Ascend910_9362 Ascend910_9372",
    CoreCounts(24, 48): (
        "Ascend910B1 Ascend910B2 Ascend910B2C Ascend910_9381 Ascend910_9382 Ascend910_9391 Ascend910_9392"
    ),
    CoreCounts(28, 56): (
        "Ascend910_9579 Ascend910_957b Ascend910_957d Ascend950PR_9579 Ascend950PR_957a Ascend950PR_957b "
        "Ascend950PR_957c Ascend950PR_957d Ascend950DT_9571 Ascend950DT_9572 Ascend950DT_9573 Ascend950DT_9574 "
        "Ascend950DT_9575 Ascend950DT_9576 Ascend950DT_9577 Ascend950DT_9578"
    ),
    CoreCounts(32, 64): (
        "Ascend910_9581 Ascend910_9589 Ascend910_958a Ascend910_958b Ascend950PR_9589 Ascend950PR_958a "
        "Ascend950PR_958b Ascend950PR_958c Ascend950PR_958d Ascend950DT_9581 Ascend950DT_9582 Ascend950DT_9583 "
        "Ascend950DT_9584 Ascend950DT_9585 Ascend950DT_9586 Ascend950DT_9587 Ascend950DT_9588"
    ),
    CoreCounts(36, 72): (
        "Ascend910_9599 Ascend950PR_9599 Ascend950PR_959a Ascend950PR_959b Ascend950DT_9591 Ascend950DT_9592 "
        "Ascend950DT_9595 Ascend950DT_9596 Ascend950DT_95A1 Ascend950DT_95A2"
    ),
}
BUILT_IN = {soc: counts for counts, socs in _TABLE.items() for soc in socs.split()}
