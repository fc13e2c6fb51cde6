"""Toolchain ``host`` with the real compiler of this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.index.outcomes import Failure
from farm.request.job_options import JobOptions
from farm.settings import Settings
from tests.unit.workers.requests import request, source
from workers.keeping import Limits
from workers.runner import Compiled, Stop, compile
from workers.scratch import ScratchArea
from workers.toolchains import find, host, host_compiler
from workers.toolchains.host import HostToolchain

ADD = 'extern "C" int add(int a, int b) { return a + b + OFFSET; }\n'
SUM = 'extern "C" int sum(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }\n'


@pytest.fixture(scope="module")
def toolchain() -> HostToolchain:
    found = host.find(Settings.read({}))
    assert not isinstance(found, str), found
    return found


@pytest.fixture
def area(tmp_path: Path) -> Iterator[ScratchArea]:
    area = ScratchArea.open(tmp_path / "a scratch folder")
    yield area
    area.close()


def run(toolchain: HostToolchain, area: ScratchArea, given: Any, /, **options: Any) -> Compiled | Failure:
    asked = request(
        schema=host.SCHEMA,
        toolchain="host",
        source=source(given) if isinstance(given, str) else given,
        options=options,
    )
    return compile(asked, toolchain, area, Limits(timeout_seconds=100), Stop())


def made(result: Compiled | Failure) -> bytes:
    assert isinstance(result, Compiled), result
    (file,) = result.files
    return file.data


def load(data: bytes, tmp_path: Path) -> ctypes.CDLL:
    path = tmp_path / "loaded.so"
    path.write_bytes(data)
    return ctypes.CDLL(str(path))


def test_a_shared_object_that_runs(toolchain: HostToolchain, area: ScratchArea, tmp_path: Path) -> None:
    result = run(toolchain, area, ADD, defines={"OFFSET": 40}, flags=["-O3"], std="c++20")
    assert isinstance(result, Compiled)
    assert [(file.name, file.mode) for file in result.files] == [("kernel.so", 0o555)]
    assert load(made(result), tmp_path).add(1, 1) == 42


def test_an_object_file(toolchain: HostToolchain, area: ScratchArea) -> None:
    result = run(toolchain, area, ADD, defines={"OFFSET": 0}, output="o")
    assert isinstance(result, Compiled)
    assert [(file.name, file.mode) for file in result.files] == [("kernel.o", 0o444)]


def test_c_is_compiled_as_c_and_needs_no_cpp_library(
    toolchain: HostToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    text = (
        "int twice(int class) { return 2 * class; } int cpp(void) {\n#ifdef __cplusplus\nreturn 1;\n#endif\nreturn 0; }"
    )
    data = made(run(toolchain, area, source(text, suffix=".c"), std="c11"))
    library = load(data, tmp_path)
    assert (library.twice(21), library.cpp()) == (42, 0)
    assert b"libstdc++" not in data
    assert b"libstdc++" in made(run(toolchain, area, "#include <iostream>\nvoid f() { std::cout << 1; }"))


def test_headers_beside_above_and_in_include_folders(
    toolchain: HostToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    includes = ('"a.h"', '"../b.h"', "<c.h>", '"sub/d.h"')
    text = "".join(f"#include {name}\n" for name in includes) + 'extern "C" int f() { return A + B + C + D; }'
    files = {"a.h": "#define A 1", "../b.h": "#define B 20", "sub/d.h": '#include "../../b.h"\n#define D 4000'}
    include_dirs = ({"c.h": "#define C 300"}, {"c.h": "#error the first folder wins"})
    library = load(made(run(toolchain, area, source(text, files, *include_dirs))), tmp_path)
    assert library.f() == 4321


def test_equal_headers_in_two_places_are_two_headers_for_pragma_once(
    toolchain: HostToolchain, area: ScratchArea, tmp_path: Path
) -> None:
    header = "#pragma once\nSTEP(__COUNTER__)"
    given = source(
        '#define STEP(n) + 1\nextern "C" int f() { return 0\n#include "a.h"\n#include "sub/a.h"\n; }',
        {"a.h": header, "sub/a.h": header},
    )
    assert load(made(run(toolchain, area, given)), tmp_path).f() == 2


def test_flags_that_name_the_requests_own_files(toolchain: HostToolchain, area: ScratchArea, tmp_path: Path) -> None:
    given = source(
        '#include "x.h"\nextern "C" int f() { return X + Y; }', {"sub/x.h": "#define X 1", "y.h": "#define Y 2"}
    )
    library = load(made(run(toolchain, area, given, flags=["-Isub", "-include", "y.h"])), tmp_path)
    assert library.f() == 3


SEEDED = """
#include <vector>
#include <cstdio>
namespace { struct Local { std::vector<int> v; virtual ~Local() { std::puts(__FILE__); } }; }
extern "C" void f() {
    Local l;
    static Local s;
    l.v.push_back(__LINE__);
    std::puts(__DATE__ __TIME__ __TIMESTAMP__);
    assert_here(l);
}
"""


@pytest.mark.parametrize("flags", [[], ["-g"], ["-g", "-O0"], ["-O3", "-fopenmp-simd", "-Werror"]], ids=" ".join)
def test_the_same_request_gives_the_same_bytes(flags: list[str], toolchain: HostToolchain, tmp_path: Path) -> None:
    header = {"sub/h.h": "#include <cassert>\ntemplate <class T> void assert_here(T& t) { assert(t.v.size() == 1); }"}
    given = source(SEEDED.replace("#include <cstdio>", '#include <cstdio>\n#include "sub/h.h"'), {}, header)
    outputs = set()
    for folder in ("x", "another, longer folder"):
        area = ScratchArea.open(tmp_path / folder)
        for kind in ("so", "o"):
            outputs.add((kind, made(run(toolchain, area, given, flags=flags, output=kind))))
        area.close()
    assert len(outputs) == 2
    for _, data in outputs:
        assert str(tmp_path).encode() not in data
        assert b"Jan  1 197000:00:00Thu Jan  1 00:00:00 1970" in data


def test_the_workers_environment_does_not_reach_the_compiler(
    toolchain: HostToolchain, area: ScratchArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leak.h").write_text("#define LEAK 1")
    for name in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("DEPENDENCIES_OUTPUT", str(tmp_path / "written"))
    result = run(toolchain, area, "#include <leak.h>")
    assert isinstance(result, Failure)
    assert result.message.startswith("source.cpp:1:10: fatal error: ")
    assert "leak.h" in result.message
    assert not (tmp_path / "written").exists()


def test_a_header_from_elsewhere_is_not_served(toolchain: HostToolchain, area: ScratchArea, tmp_path: Path) -> None:
    (tmp_path / "a b.h").write_text("#define X 1")
    result = run(toolchain, area, f'#include "{tmp_path}/a b.h"\nint x = X;')
    assert isinstance(result, Failure)
    assert result.kind == "rejected"
    assert f"the source includes {tmp_path}/a b.h, which is not in the request" in result.message


@pytest.mark.parametrize(
    "text",
    [
        r'asm("\x2eincbin \"FILE\"");',
        'asm(R"(.in)" R"(cbin "FILE")");',
        r"#define J(a, b) #a #b" "\n" r'asm("." J(inc, bin) " \"FILE\"");',
        r'asm(".macro m x y\n.\\x\\y \"FILE\"\n.endm\nm incb in\n");',
        r'asm(".irp x, incb\n.\\x\\()in \"FILE\"\n.endr\n");',
    ],
)
@pytest.mark.parametrize("flags", [[], ["-pipe", "-g"]])
def test_what_the_assembler_put_in_by_itself_is_not_served(
    toolchain: HostToolchain, area: ScratchArea, tmp_path: Path, text: str, flags: list[str]
) -> None:
    """However its text hides how it names the file."""
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    result = run(toolchain, area, text.replace("FILE", str(secret)) + '\nextern "C" int f() { return 1; }', flags=flags)
    assert isinstance(result, Failure)
    assert (result.kind, result.message.partition(", ")[0]) == ("rejected", f"the assembler reads {secret}")


def test_a_compile_error_is_the_compilers_own_first(toolchain: HostToolchain, area: ScratchArea) -> None:
    result = run(toolchain, area, '#include "h.h"\nint f() {\n  return 1\n}\nint g() { return undeclared; }\n')
    assert isinstance(result, Failure)
    assert result.message.startswith("source.cpp:1:10: fatal error: ")
    assert "h.h" in result.message and result.message.endswith(" (exit code 1)")
    result = run(toolchain, area, "int f() {\n  return undeclared;\n}\nint g() { return other; }\n")
    assert isinstance(result, Failure)
    assert (result.kind, result.message.split(": error:")[0]) == ("rejected", "source.cpp:2:10")
    assert str(area.folder) not in result.message + result.log_tail


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flags": ["-march=native"]}, "options.flags: '-march=native' means another processor on each worker"),
        ({"flags": ["-fplugin=x.so"]}, "loads code that is not in the key"),
        ({"defines": {"A B": 1}}, "'A B' is not the name of a macro"),
        ({"std": "c++20 -fplugin=x"}, "is no language standard"),
    ],
)
def test_refusals(options: Any, message: str, toolchain: HostToolchain, area: ScratchArea) -> None:
    result = run(toolchain, area, "", **options)
    assert isinstance(result, Failure)
    assert (result.kind, message in result.message) == ("rejected", True), result


def test_values_of_macros(toolchain: HostToolchain, area: ScratchArea) -> None:
    checks = """
        #define S(x) #x
        #define T(x) S(x)
        static_assert(I == 7 && B == 1 && F == 0 && D == 0.5);
        static_assert(sizeof TEXT == 4);
        static_assert(sizeof T(NONE) == 1);
    """
    defines = {"I": 7, "B": True, "F": False, "D": 0.5, "NONE": None, "TEXT": '"a b"'}
    assert made(run(toolchain, area, checks, defines=defines))


def test_a_compile_that_runs_out_of_memory_is_not_rejected(toolchain: HostToolchain, area: ScratchArea) -> None:
    asked = request(
        schema=host.SCHEMA, toolchain="host", source=source("#include <vector>\n#include <regex>\nstd::regex r;")
    )
    result = compile(asked, toolchain, area, Limits(timeout_seconds=60, memory_mb=80), Stop())
    assert isinstance(result, Failure)
    assert result.kind == "transient", result


def test_what_it_registers(toolchain: HostToolchain) -> None:
    assert toolchain.name == "host"
    assert toolchain.socs == (platform.machine(),)
    assert int(toolchain.fingerprint, 16) and len(toolchain.fingerprint) == 64
    assert toolchain.version[0].isdigit()


def wrapper(folder: Path, extra: str = "") -> Path:
    """A compiler that is a script of the operator's own, and has no headers but those that it is given."""
    folder.mkdir()
    path = folder / "my-g++"
    path.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} -nostdinc {extra} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fingerprint(cxx: object, **environ: str) -> str:
    environ = {"PATH": os.environ["PATH"], "CXX": str(cxx), **environ}
    argv = host_compiler.locate(environ)
    assert not isinstance(argv, str), argv
    compiler = host_compiler.inspect(argv, environ, "recipe")
    assert not isinstance(compiler, str), compiler
    return compiler.fingerprint


def test_the_fingerprint_follows_the_compiler_and_not_its_place(tmp_path: Path) -> None:
    first = fingerprint(wrapper(tmp_path / "one"))
    assert first == fingerprint(wrapper(tmp_path / "two"), LANG="de_DE.UTF-8", CPATH=str(tmp_path))
    assert first != fingerprint(wrapper(tmp_path / "three", "-fno-plt"))
    assert first != fingerprint(f"{wrapper(tmp_path / 'four')} -fno-plt")


def test_the_fingerprint_follows_headers_and_tools(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.mkdir()
    cxx = wrapper(tmp_path / "bin", f"-isystem {headers}")
    bare = fingerprint(cxx)
    (headers / "h.h").write_text("#define X 1")
    with_header = fingerprint(cxx)
    (headers / "h.h").write_text("#define X 2")
    assert len({bare, with_header, fingerprint(cxx)}) == 3

    assembler = tmp_path / "bin" / "as"
    assembler.write_text('#!/bin/sh\nexec /usr/bin/as "$@"\n')
    assembler.chmod(0o755)
    before = fingerprint(cxx)
    assert before != fingerprint(cxx, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.mark.parametrize("name", ["crtfastmath.o", "crtprec80.o", "crtoffloadend.o", "liblto_plugin.so"])
def test_the_fingerprint_follows_what_flags_link_in(name: str, tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    cxx = wrapper(tmp_path / "bin", f"-B{tmp_path / 'libs'}")
    before = fingerprint(cxx)
    (tmp_path / "libs" / name).write_bytes(b"another")
    assert fingerprint(cxx) != before


def test_a_compiler_that_changes_below_the_worker_publishes_nothing(
    tmp_path: Path, area: ScratchArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = tmp_path / "headers"
    (headers / "sub").mkdir(parents=True)
    used, unused = headers / "sub" / "h.h", headers / "other.h"
    used.write_text("#define X 1")
    unused.write_text("#define Y 1")
    cxx = wrapper(tmp_path / "bin", f"-isystem {headers}")
    monkeypatch.setenv("CXX", str(cxx))
    found = host.find(Settings.read({}))
    assert isinstance(found, HostToolchain)
    given = "#include <sub/h.h>\nint x = X;"
    first = made(run(found, area, given))

    def refusal(path: Path) -> None:
        result = run(found, area, given)
        assert isinstance(result, Failure)
        assert result.kind == "transient" and "changed since the worker started: restart" in result.message
        assert str(path) in result.message

    used.touch()
    assert made(run(found, area, given)) == first, "times alone do not count"
    for path, text in ((used, "#define X 2"), (cxx, cxx.read_text() + "# other\n")):
        before = path.read_text()
        path.write_text(text)
        refusal(path)
        path.write_text(before)
        assert made(run(found, area, given)) == first, "as it was again"
    (headers / "new.h").write_text("")
    refusal(headers)


def test_which_compiler_is_chosen(tmp_path: Path) -> None:
    cxx = wrapper(tmp_path / "bin")
    assert host_compiler.locate({"CXX": f"{cxx} -m64", "PATH": "/bin"}) == (str(cxx), "-m64")
    for name in ("clang++", "g++"):  # g++ is preferred once it is there
        (tmp_path / "bin" / name).symlink_to(cxx)
        assert host_compiler.locate({"PATH": str(tmp_path / "bin")}) == (str(tmp_path / "bin" / name),)
    assert host_compiler.locate({"PATH": str(tmp_path)}) == "neither CXX is set nor is g++ or clang++ on PATH"
    assert "nope is not an executable" in host_compiler.locate({"CXX": "nope", "PATH": "/bin"})


def test_a_compiler_that_does_not_work_is_missing_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    found = find(Settings.read({}))
    assert "host" not in [toolchain.name for toolchain in found.toolchains]
    assert "does not answer" in found.missing["host"]
    assert found.missing["command"] == "FARM_ALLOW_ADHOC_COMMANDS is not set"


def test_debug_options_reach_the_compiler(toolchain: HostToolchain, area: ScratchArea) -> None:
    def sections(options: JobOptions) -> tuple[bool, int]:
        """Whether there is debug information, and how long the code is: more without optimisation."""
        asked = request(schema=host.SCHEMA, toolchain="host", source=source(SUM), options={"output": "o"})
        data = made(compile(replace(asked, job_options=options), toolchain, area, Limits(timeout_seconds=100), Stop()))
        return b".debug_info" in data, len(data)

    plain, optimised = sections(JobOptions())
    assert not plain
    for level, is_debug in ((1, True), (2, True), (3, False), (4, False)):
        assert sections(JobOptions(private="j@1", op_debug_level=level))[0] is is_debug
    has_information, _ = sections(JobOptions(private="j@1", op_debug_config=("oom", "ccec_g")))
    assert has_information
    has_information, size = sections(JobOptions(private="j@1", op_debug_config=("ccec_O0",)))
    assert not has_information
    assert size != optimised
