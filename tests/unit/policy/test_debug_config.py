"""The file of op_debug_config: what is read, and that whatever is wrong names file, line and remedy."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.policy.debug_config import DebugConfig, load, parse
from farm.policy.modes import Debug

GOOD = b"op_debug_config=ccec_g,oom\nop_debug_list=GatherV2,opType::ReduceSum\n"
READ = DebugConfig(("ccec_g", "oom"), ("GatherV2", "opType::ReduceSum"))


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\r"),
        codecs.BOM_UTF8 + GOOD,
        b"# 1\n\n ; 2\n" + GOOD + b"\n\t#",
        b" op_debug_config = ccec_g , oom \n\top_debug_list\t= GatherV2,\topType::ReduceSum",
        b"op_debug_list=GatherV2,,opType::ReduceSum,GatherV2,\nop_debug_config=,ccec_g,oom,ccec_g",
    ],
)
def test_the_documents_example(data: bytes) -> None:
    assert parse(data, "f") == READ
    assert Debug(0, *parse(data, "f")).listed == READ.listed


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"op_debug_config=oom", DebugConfig(("oom",), None)),
        (b"op_debug_config=oom\nop_debug_list=", DebugConfig(("oom",), ())),
        (b"op_debug_config=oom\nop_debug_list= , ,", DebugConfig(("oom",), ())),
        (b"", DebugConfig((), None)),
        (b"# op_debug_config=oom\n#op_debug_list=a", DebugConfig((), None)),
        (b"op_debug_config=a=b,-O0,x:y,v1.2,c++", DebugConfig(("a=b", "-O0", "x:y", "v1.2", "c++"), None)),
    ],
)
def test_no_list_and_empty_list_and_no_lines(data: bytes, read: DebugConfig) -> None:
    assert parse(data, "f") == read


def test_names_are_compared_in_one_unicode_spelling() -> None:
    data = "op_debug_config=oom\nop_debug_list=算子 一/e\u0301".encode()
    assert parse(data, "f").listed == ("算子 一/\u00e9",)


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"oom", 1, "neither op_debug_config= nor op_debug_list="),
        (b"# x\nop_debug_confg=oom", 2, "'op_debug_confg=oom'"),
        (b"OP_DEBUG_CONFIG=oom", 1, "neither"),
        (b"op_debug_config oom", 1, "neither"),
        (b"op_debug_config", 1, "neither"),
        (b"[op_debug]\nop_debug_config=oom", 1, "neither"),
        (b"op_debug_config=", 1, "0 values"),
        (b"op_debug_config=, ,", 1, "0 values"),
        (b"op_debug_config=" + b",".join(b"v%d" % n for n in range(65)), 1, "65 values"),
        (b"op_debug_config=oom;rm", 1, "'oom;rm'"),
        (b"op_debug_config=oom # all", 1, "'oom # all'"),
        (b"op_debug_config=$(x)", 1, "'$(x)'"),
        (b"op_debug_config=o om", 1, "'o om'"),
        ("op_debug_config=ｏom".encode(), 1, "no value of op_debug_config"),  # noqa: RUF001
        (b"op_debug_config=" + b"x" * 129, 1, "up to 128"),
        (b"op_debug_list=a", 1, "op_debug_list without op_debug_config"),
        (b"op_debug_list=", 1, "op_debug_list without op_debug_config"),
        (b"op_debug_config=oom\n\nop_debug_config=oom", 3, "in line 1 already"),
        (b"op_debug_list=a\nop_debug_config=oom\nop_debug_list=b", 3, "op_debug_list stands in line 1 already"),
        (b"op_debug_config=oom\nop_debug_list=a,OpType::", 2, "'OpType::' names no type"),
    ],
)
def test_malformed_lines_are_named(data: bytes, line: int, word: str) -> None:
    with pytest.raises(InputError) as told:
        parse(data, "/job/debug.cfg")
    assert f"op_debug_config file /job/debug.cfg, line {line}: " in told.value.message
    assert word in str(told.value)
    assert told.value.fix
    assert told.value.exit_code == 2
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (GOOD.decode().encode("utf-16"), "UTF-16"),
        (GOOD + b"\0", "NUL"),
        (GOOD + b"\xff", "not UTF-8"),
        (b"op_debug_config=" + b"x" * 2**20, "more than 65536 bytes"),
    ],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, word: str) -> None:
    (tmp_path / "debug.cfg").write_bytes(data)
    with pytest.raises(InputError, match=rf"debug\.cfg .*{word}"):
        load(tmp_path / "debug.cfg")


def test_a_file_and_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "调试.cfg").write_bytes(GOOD)
    (tmp_path / "link").symlink_to("调试.cfg")
    assert load(tmp_path / "调试.cfg") == load(tmp_path / "link") == READ


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gone.cfg", "No such file"), ("folder", "no regular file"), ("file/x", "Not a directory"),
     ("loop", "symbolic links"), ("pipe", "no regular file"), ("a\0b", "no path"), ("a" * 300, "too long")],
)  # fmt: skip
def test_a_file_that_can_not_be_read(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=reason) as told:
        load(tmp_path / name)
    assert repr(str(tmp_path / name)) in told.value.message
    assert "op_debug_config=a,b" in told.value.fix


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read everything, so the system's answer is given here.
    (tmp_path / "debug.cfg").write_bytes(GOOD)

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"debug\.cfg' can not be read: Permission denied"):
        load(tmp_path / "debug.cfg")
