from __future__ import annotations

import pytest

from farm.errors import InputError
from workers.toolchains.host_flags import check


@pytest.mark.parametrize(
    "flags",
    [
        ["-O3", "-Os", "-Ofast", "-O"],
        ["-g", "-g1", "-ggdb", "-gdwarf-4"],
        ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Werror=return-type", "-w", "-pedantic"],
        ["-std=c++20", "-std=gnu11", "-ansi", "-pthread", "-pipe", "-s"],
        ["-ffast-math", "-fno-exceptions", "-fno-rtti", "-fopenmp", "-fopenmp-simd", "-funroll-loops"],
        ["-fno-strict-aliasing", "-fwrapv", "-fvisibility=hidden", "-fno-semantic-interposition", "-ffreestanding"],
        ["-fno-math-errno", "-ffp-contract=off", "-falign-functions=32:16", "-ftree-vectorize", "-fno-builtin-memcpy"],
        ["-march=x86-64-v3", "-mtune=generic", "-mavx2", "-mno-avx512f", "-mfma", "-mcmodel=large", "-mfpmath=sse"],
        ["-march=armv8.2-a+fp16", "-mcpu=neoverse-n1", "-mabi=lp64"],
        ["-DBLOCK=256", "-D", "X=1", "-UX", "-D_GNU_SOURCE", '-DTEXT="a b/c"'],
        ["--param=max-unroll-times=4", "--param", "max-unroll-times=4"],
        ["-Isub", "-I", "sub/deep", "-include", "config.h", "-isystem", "sub", "-iquote", "."],
        ["-lm", "-lpthread", "-ldl", "-lstdc++", "-static-libgcc", "-nostdlib", "-nostdlib++"],
        ["-Wl,-O1,--as-needed", "-Wl,-z,relro,-z,now", "-Wl,-soname,libx.so", "-Wl,--gc-sections", "-Wl,-Bsymbolic"],
    ],
    ids=lambda flags: flags[0],
)
def test_flags_that_act_through_the_key(flags: list[str]) -> None:
    check(flags)


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("-march=native", "another processor on each worker.*x86-64-v3"),
        ("-mtune=native", "another processor"),
        ("-mcpu=native+crypto", "another processor"),
        ("-fplugin=/tmp/evil.so", "loads code"),
        ("-fplugin=evil", "loads code"),
        ("-fplugin-arg-evil-x=1", "loads code"),
        ("-fpass-plugin=evil.so", "loads code"),
        ("-Xclang", "loads code"),
        ("-mllvm", "loads code"),
        ("@arguments", "is no flag"),
        ("other.cpp", "is no flag"),
        ("/usr/lib/libx.a", "is no flag"),
        ("", "is no"),
        ("-B/tmp", "reads what is not"),
        ("-Bsub", "reads what is not"),
        ("-specs=x.specs", "reads what is not"),
        ("--specs=x.specs", "reads what is not"),
        ("-wrapper", "reads what is not"),
        ("--sysroot=/x", "reads what is not"),
        ("-isysroot", "reads what is not"),
        ("-L/usr/local/lib", "reads what is not"),
        ("-Lsub", "reads what is not"),
        ("-fuse-ld=gold", "reads what is not"),
        ("-o", "decides what is written"),
        ("-o/tmp/x", "decides what is written"),
        ("-c", "decides what is written"),
        ("-shared", "decides what is written"),
        ("-MF/tmp/x", "decides what is written"),
        ("-MD", "decides what is written"),
        ("-save-temps", "decides what is written"),
        ("-save-temps=obj", "decides what is written"),
        ("-fprofile-use", "profile"),
        ("-fprofile-use=/tmp/x", "profile"),
        ("-fauto-profile=/tmp/x", "profile"),
        ("-fprofile-generate", "profile"),
        ("-Wl,-T,/tmp/script", "'-T'"),
        ("-Wl,/tmp/x.a", "'/tmp/x.a'"),
        ("-Wl,-rpath,/tmp", "'-rpath'"),
        ("-Wl,-soname,../x", "'../x'"),
        ("-Wl,-L/tmp", "'-L/tmp'"),
        ("-Wl,@file", "'@file'"),
        ("-Wl,--build-id=uuid", "uuid"),
        ("-Wl,--plugin,x.so", "'--plugin'"),
        ("-Wl,", "''"),
        ("-Wa,-I/tmp", "passes an argument on"),
        ("-Wp,-MD,/tmp/x", "passes an argument on"),
        ("-Xlinker", "passes an argument on"),
        ("-lcuda", "links a library"),
        ("-l:libx.a", "links a library"),
        ("-I/usr/local/include", "leads out of the request.*include_dirs"),
        ("-I..", "leads out"),
        ("-I=x", "leads out"),
        ("-Isub/../../x", "leads out"),
        ("-include/etc/passwd", "leads out"),
        ("-m32", "not known"),
        ("-flto", "not known"),
        ("-fdump-tree-all", "not known"),
        ("-frandom-seed=1", "not known"),
        ("-ffile-prefix-map=a=b", "not known"),
        ("-fdiagnostics-format=sarif-file", "not known"),
        ("-fstack-usage", "not known"),
        ("-fsanitize=address", "not known"),
        ("-fsanitize-blacklist=/x", "not known"),
        ("-fopt-info=/tmp/x", "not known"),
        ("-x", "not known"),
        ("-target", "not known"),
        ("-###", "not known"),
        ("-O2\n-fplugin=x", "not known"),
        ("--param=x=/y", "not known"),
        ("-O99", "not known"),
    ],
)  # fmt: skip
def test_all_other_flags_are_refused_with_the_reason(flag: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        check(["-O2", flag, "value"])
    assert caught.value.message.startswith("options.flags: ")
    assert caught.value.fix


def test_paths_in_a_flag_of_their_own_are_checked_too() -> None:
    for name in ("-I", "-include", "-isystem", "-imacros", "-iquote", "-idirafter"):
        with pytest.raises(InputError, match="leads out"):
            check([name, "/usr/include"])
        with pytest.raises(InputError, match="needs a value"):
            check([name])


def test_a_value_does_not_hide_the_next_flag() -> None:
    with pytest.raises(InputError, match="fplugin"):
        check(["-D", "X", "-fplugin=x"])
    with pytest.raises(InputError, match="needs a value"):
        check(["-D"])


def test_how_far_up_depends_on_the_requests_own_files() -> None:
    check(["-I../lib"], depth=1)
    with pytest.raises(InputError, match="leads out"):
        check(["-I../../lib"], depth=1)
