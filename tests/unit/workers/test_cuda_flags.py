from __future__ import annotations

import pytest

from farm.errors import InputError
from workers.toolchains import cuda_flags


@pytest.mark.parametrize(
    "flag",
    [
        "--fmad=false", "-fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "--use_fast_math",
        "-use_fast_math", "--extra-device-vectorization", "--maxrregcount=64", "-maxrregcount=255", "--restrict",
        "--generate-line-info", "-lineinfo", "-G", "-rdc=true", "--ptxas-options=-O1", "-Xptxas=-v", "-Xptxas=-dlcm=cg",
        "--Ofast-compile=max", "-DX", "-DX=a b", "-D_X1=", "-UX", "--define-macro=X=1", "-default-device",
        "--diag-suppress=177,550", "-w", "-Werror=all-warnings", "--device-int128", "--minimal",
    ],
)  # fmt: skip
def test_flags_that_act_by_the_key_alone_pass(flag: str) -> None:
    cuda_flags.check([flag, flag])


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("x.cu", "is no flag"),
        ("", "is no flag"),
        ("--gpu-architecture=sm_90", "is what soc says"),
        ("-arch", "is what soc says"),
        ("--std=c++20", "is an option of its own"),
        ("-O3", "is no flag of NVRTC"),
        ("-I/usr/include", "reads folders that are not in the key"),
        ("--include-path=x", "reads folders that are not in the key"),
        ("--pre-include=/etc/x.h", "reads a file by its place"),
        ("-dlto", "leaves no cubin"),
        ("--optix-ir", "leaves no cubin"),
        ("--time=/tmp/x", "reads or writes files of its own"),
        ("--create-pch=x", "reads or writes files of its own"),
        ("--pch", "reads or writes files of its own"),
        ("--fdevice-time-trace=x", "reads or writes files of its own"),
        ("--split-compile=0", "makes the output depend on the machine"),
        ("--maxrregcount", "has no valid value"),
        ("--fmad=maybe", "has no valid value"),
        ("-Xptxas=--options-file=x", "is not known to act through the key alone"),
        ("-Xptxas=-o,x", "is not known to act through the key alone"),
        ("--bogus", "is not known to act through the key alone"),
        ("-lineinfo\n--time=x", "is not known to act through the key alone"),
        ("-D1=2", "is not known to act through the key alone"),
    ],
)
def test_others_are_refused_with_the_reason(flag: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        cuda_flags.check(["--fmad=false", flag])
    assert str(caught.value).startswith(f"options.flags: {flag!r} {why}")
    assert caught.value.fix
