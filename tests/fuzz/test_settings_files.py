"""The files that people edit: op_cache.ini, op_debug_config, CANN's platform files, and profiles of toolchains."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import FarmError, InputError
from farm.policy.cores import from_platform_config
from farm.policy.debug_config import DebugConfig
from farm.policy.debug_config import parse as parse_debug_config
from farm.policy.inifile import IniFile
from farm.policy.inifile import parse as parse_ini
from farm.policy.modes import Debug, decide
from tests.fuzz.bounds import fuzz, listing, one_line, outcome
from tests.fuzz.mutations import damaged, texts
from workers.toolchains.profiles.file import read
from workers.toolchains.profiles.tables import ProfileTable
from workers.toolchains.profiles.toolchain import make

INI = b"# limits\n[op_compiler_cache]\nmax_op_cache_size=700\nremain_cache_size_ratio=40\nadk_version=8.5\n"
DEBUG = b"# debug\nop_debug_config=ccec_g,oom\nop_debug_list=GatherV2,opType::ReduceSum\n"
PLATFORM = b"[SoCInfo]\ncube_core_cnt=24\nvector_core_cnt=48\n[x]\n"
SIZES = [
    b"[op_compiler_cache]",
    b"max_op_cache_size=",
    b"remain_cache_size_ratio=",
    b"-1",
    b"=",
    b"[",
    b"]",
    b";",
    b"0" * 400,
]
OPTIONS = [b"op_debug_config=", b"op_debug_list=", b",", b"::", b"=", b"#", b"OpType::", b"v," * 80, "é".encode()]
PROFILE = b"""\
# profiles
[profile.good]
argv = ["true", "-I{include_dir}", "{options}", "{source}", "-o", "{out}/k.o"]
outputs = ["*.o"]
env = { A = "{soc}", B = "x" }
version = ["echo", "cc 1.2"]
hash = ["profiles.toml"]
socs = ["sm_90"]
timeout_seconds = 3.5
[profile.good.options.level]
kind = "str"
default = "O2"
choices = ["O2", "O3"]
argv = ["-{value}"]
[profile."other-1"]
argv = ["true"]
outputs = ["a/**/*.o"]
options.defines = { kind = "map", argv = ["-D{name}={value}"] }
"""
STRANGE_PROFILES = [
    b"x = " + b"[" * 2000 + b"]" * 2000, b"[profile.a]\nargv = " + b"{a = " * 400,
    b"[profile.a]\nargv = " + b"9" * 5000,
    b"[" + b"a." * 5000 + b"a]\n", b'[profile.a]\nx = """' + b"\ny" * 30_000 + b'"""\nb = 1\n', b"a = 1\n" * 3000,
    b"[profile.a]\n" + b"".join(b"k%d = 1\n" % n for n in range(3000)),
    b"[profile.a]\nx = [" + b"\n1," * 20_000 + b"]\nb = 1\n",
    b'[profile.a]\nargv = ["true"]\noutputs = ["x"]\nversion = ["true", "\\u0000"]\n',
    b'[profile.a]\nargv = ["true"]\noutputs = ["x"]\nhash = ["\\u0000"]\n',
    b'[profile.a]\nargv = ["\\u0000"]\noutputs = ["x"]\n',
    b'[profile.a]\nargv = ["true"]\noutputs = ["x"]\nenv = {A = "\\u0000"}\n',
    b'[profile.a]\nargv = ["true"]\noutputs = ["x"]\nenv = {PATH = "\\u0000"}\nversion = ["true"]\n',
]  # fmt: skip
TOML = [
    b"[profile.x]\n", b"[[profile]]\n", b"argv = ", b"[" * 300, b"{a=" * 300, b'"\\u0000"', b'"\\n"', b"a." * 400,
    b"9" * 5000,
    b"1979-05-27T07:32:00Z", b"nan", b"-inf", b'"""\n', b"'''", b'"{source}"', b'"{"', b"profile = 1\n",
    b"0x" + b"f" * 5000,
    b'kind = "map"\n', b'[profile."a\\nb"]\n', b'"\\u0000" = 1\n', b"1e400", b"true", b"[]", b'[""]', 
    b'["true", "\\u0000"]',
]  # fmt: skip


@fuzz(70, damaged([INI], SIZES), texts.filter(lambda text: len(text) < 300))
def test_op_cache_ini(data: bytes, where: str) -> None:
    found = outcome(lambda: parse_ini(data, where))
    assert isinstance(found, IniFile), "it never raises"
    assert (found.max_op_cache_size_mb is None) == (found.remain_cache_size_ratio is None)
    assert len(found.faults) <= 21
    for fault in found.faults:
        one_line(str(fault))


@fuzz(70, damaged([DEBUG], OPTIONS))
def test_op_debug_config(data: bytes) -> None:
    found = outcome(lambda: parse_debug_config(data, "debug.cfg"))
    if isinstance(found, FarmError):
        assert isinstance(found, InputError)
        return
    assert isinstance(found, DebugConfig)
    one_line(decide("enable", Debug(0, *found)).reason or "nothing to say")


@fuzz(20, damaged([PLATFORM], [b"cube_core_cnt=", b"vector_core_cnt=", b"[SoCInfo]", b"9" * 5000, b"="]))
def test_platform_files(data: bytes) -> None:
    outcome(lambda: from_platform_config(data))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the file of profiles lies; what is beside it must stay as it is."""
    (beside := tmp_path_factory.mktemp("profiles")).joinpath("sentinel").touch()
    (beside / "here").mkdir()
    return beside / "here"


@fuzz(45, damaged([PROFILE], TOML))
def test_profiles(folder: Path, data: bytes) -> None:
    offered_or_refused(folder, data)


@pytest.mark.parametrize("data", STRANGE_PROFILES, ids=range(len(STRANGE_PROFILES)))
def test_strange_profiles(folder: Path, data: bytes) -> None:
    offered_or_refused(folder, data)


def offered_or_refused(folder: Path, data: bytes) -> None:
    path = folder / "profiles.toml"
    path.write_bytes(data)
    before = listing(folder.parent)
    found = outcome(lambda: read(path, ["host"]))
    if isinstance(found, FarmError):
        assert isinstance(found, InputError)
        return
    for name, table in found.profiles.items():
        if isinstance(table, str):
            one_line(table)
        elif is_harmless(table):
            outcome(lambda name=name, table=table: make(found, name, table))
    assert listing(folder.parent) == before


def is_harmless(table: ProfileTable) -> bool:
    """Its version command is one that may be run here, and what it has hashed is small."""
    return table.version[:1] in ([], ["echo"], ["true"]) and all(name == "profiles.toml" for name in table.hash)
