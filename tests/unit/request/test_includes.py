"""Headers and include folders are found as a compiler would find them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import pytest

from farm.errors import InputError
from tests.unit.request.conftest import Project


def test_headers_are_followed_relative_to_who_includes(project: Project) -> None:
    project.file("k/add.cu", '#include "sub/a.h"\n#include <vector>\n#include "not-there.h"\n')
    project.file("k/sub/a.h", '#include "b.h"\n#include "../../up/c.h"\n#include "a.h"\n')
    project.file("k/sub/b.h", '#include "./../sub//a.h"\n')
    project.file("up/c.h", '#include "../k/add.cu"\n#include "d/e.h"\n')
    project.file("up/d/e.h", "// e")
    project.file("k/unrelated.h", "// no")
    assert set(project.files()) == {
        "sub/a.h",
        "sub/b.h",
        "../up/c.h",
        "../up/d/e.h",
        "../k/add.cu",
        "../k/sub/a.h",
        "../k/sub/b.h",
    }


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('#include "h.h"', True),
        ('  #\tinclude\t"h.h" // x', True),
        ('#include"h.h"', True),
        ('# /* a */ include /* b * c */ "h.h"', True),
        ('/* a */ #include "h.h"', True),
        ('%:include "h.h"', True),
        ('#include \\\n "h.h"', True),
        ('#inc\\\r\nlude "h.h"', True),
        ('\r\n#include "h.h"\r\n', True),
        ('\ufeff#include "h.h"', True),
        ('#import "h.h"', True),
        ('#include_next "h.h"', True),
        ('const char x[] = {\n#embed "h.h"\n};', True),
        ('#if __has_include("h.h")', True),
        ('#if defined(X) && __has_include ( "h.h" )', True),
        ('#if __has_include /**/ ( /* x */ "h.h" )', True),
        ('#if __has_include\t(\\\n"h.h")', True),
        ("#include <h.h>", False),
        ('// #include "h.h"', False),
        ('x = "#include \\"h.h\\"";', False),
        ('#includes "h.h"', False),
        ('#include "H.h"', False),
    ],
)
def test_ways_to_write_an_include(project: Project, line: str, found: bool) -> None:
    project.file("k/add.cu", line)
    project.file("k/h.h", "// h")
    assert project.files() == ({"h.h": b"// h"} if found else {})


def test_an_include_by_absolute_path_is_refused(project: Project, refused: Any) -> None:
    for line in ('#include "/usr/include/x.h"', "#include </usr/include/x.h>", '#if __has_include("/x.h")'):
        project.file("k/half.h", line)
        assert "operator 'add': field source.path: half.h includes '/" in refused()
        project.op["source"] = {"text": line}
        assert "operator 'add': field source.text: it includes '/" in refused()
        project.op["source"] = {"text": "", "files": {"a.h": line}}
        assert "operator 'add': field source.files.a.h: it includes '/" in refused()
        project.op["source"] = {"text": "", "include_dirs": ["k"]}
        assert "operator 'add': field source.include_dirs[0]: half.h includes '/" in refused()
        project.op["source"] = {"path": "k/add.cu"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("#include MACRO", 1),
        ("\n/*\n*/ # /* a\n */ include /* b */ NAME(x) // c\n", 4),
        ("a\\\nb\n%:inc\\\r\nlude M\n", 3),
        ("#include_next M", 1),
        ("#embed M", 1),
        ('#if __has_include("x.h") || __has_include(M)', 1),
        ("int x; // /*\n#if __has_include /**/ ( /**/ M)", 2),
        ('char x[] = "/*"; char y = \'"\';\n#include M', 2),
    ],
)
def test_a_computed_include_is_refused(project: Project, refused: Any, text: str, line: int) -> None:
    project.file("k/half.h", text)
    for toolchain in ("host", "cuda"):
        project.op["toolchain"] = toolchain
        told = refused()
        assert f"operator 'add': field source.path: half.h line {line} includes " in told
        assert "can not be followed (write the file's name out" in told
        project.op["source"] = {"path": "k/half.h"}
        assert f"field source.path: k/half.h line {line} includes " in refused()
        project.op["source"] = {"path": "k/add.cu", "files": {"x.h": text}}
        assert f"field source.path: x.h line {line} includes " in refused()
        for unaffected in ({"text": text}, {"text": "", "include_dirs": ["k"]}):
            project.op["source"] = unaffected
            project.load()
        project.op["source"] = {"path": "k/add.cu"}
    project.op["toolchain"] = "other"
    project.load()


@pytest.mark.parametrize(
    "text",
    [
        "#include <vector>\n#include\n#include /* x */ <map> // M",
        "/*\n#include M\n*/\n// #include M\n",
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif",
        "#if defined(__has_include) && (1)\n#includes M",
        '#if __has_include(<vector>) && __has_include( /**/ "x.h")',
    ],
)
def test_what_is_no_computed_include(project: Project, text: str) -> None:
    project.file("k/half.h", text)
    project.load()


def test_an_include_far_up_is_refused(project: Project, refused: Any) -> None:
    project.file("k/add.cu", f'#include "{"../" * 9}etc/passwd"')
    assert "more than 8 folders up" in refused()


def test_an_unreadable_header_is_refused(project: Project, refused: Any) -> None:
    (project.folder / "k/half.h").unlink()
    (project.folder / "k/half.h").symlink_to("half.h")
    assert "operator 'add': field source.path: " in refused()
    assert "k/half.h' is a loop of symbolic links" in refused()
    (project.folder / "k/half.h").unlink()
    os.mkfifo(project.folder / "k/half.h")
    assert "k/half.h' is not a regular file" in refused()


def test_given_files_come_before_those_on_disk(project: Project) -> None:
    project.op["source"]["files"] = {"half.h": '#include "more.h"\n', "gen/x.h": '#include "y.h"'}
    project.put(**{"k/more.h": "// more", "k/gen/y.h": "// y"})
    assert project.files() == {
        "half.h": b'#include "more.h"\n',
        "more.h": b"// more",
        "gen/x.h": b'#include "y.h"',
        "gen/y.h": b"// y",
    }


def test_a_very_long_line_is_scanned_once(project: Project) -> None:
    for piece in (
        "/**/",
        "/*",
        " ",
        "/* * ",
        "#include ",
        "__has_include(",
        "#include /*",
        "\\\n",
        "/*\n",
        "#\n",
        "'",
        "/",
        '"/*',
    ):
        project.file("k/half.h", "#include <x>\n" + piece * (2**20 // len(piece)))
        begun = time.process_time()  # twice over a megabyte would take hours
        with suppress(InputError):  # some are computed includes
            project.load()
        assert time.process_time() - begun < 2


def test_content_is_taken_byte_for_byte(project: Project) -> None:
    content = b'\xff\xfe\x00 #include "half.h"\r\n'
    project.file("k/add.cu", content)
    assert project.load().source.main.data == content


def test_include_folders_keep_their_order_and_hold_all_regular_files(project: Project) -> None:
    project.put(**{"inc/a.h": "1", "inc/s/b.hpp": "2", "inc/.hidden": "3", "other/a.h": "4"})
    inc = project.folder / "inc"
    (inc / "in.h").symlink_to("a.h")
    (inc / "alias").symlink_to("s")
    (inc / "self").symlink_to(".")
    (inc / "s/loop").symlink_to("loop")
    (inc / "broken").symlink_to("nowhere")
    os.mkfifo(inc / "pipe")
    project.op["source"]["include_dirs"] = ["inc", str(project.folder / "other")]
    first, second = project.load().source.include_dirs
    assert {name: blob.data for name, blob in first.items()} == {
        "a.h": b"1",
        "s/b.hpp": b"2",
        ".hidden": b"3",
        "in.h": b"1",
        "alias/b.hpp": b"2",
    }
    assert {name: blob.data for name, blob in second.items()} == {"a.h": b"4"}


def test_a_link_out_of_an_include_folder_is_refused(project: Project, refused: Any) -> None:
    project.put(**{"inc/s/a.h": "1", "outside.h": "no"})
    project.op["source"]["include_dirs"] = ["inc"]
    for target in ("../../outside.h", "../../k", "../..", str(project.folder / "outside.h")):
        link = project.folder / "inc/s/link"
        link.symlink_to(target)
        line = refused()
        assert "operator 'add': field source.include_dirs[0]: " in line
        assert "inc/s/link' is a symbolic link that leads out of the folder" in line
        link.unlink()
    (project.folder / "inc/null").symlink_to("/dev/null")
    (project.folder / "inc/gone").symlink_to("../gone")
    assert [*project.load().source.include_dirs[0]] == ["s/a.h"]


def test_a_wrong_include_folder(project: Project, refused: Any) -> None:
    for name, told in (
        ("nowhere", "does not exist"),
        ("x" * 5000, "has a name that is too long"),
        ("k/half.h", "is not a folder"),
        ("", "is empty"),
        ("a\0b", "is not a"),
    ):
        project.op["source"]["include_dirs"] = ["k", name]
        line = refused()
        assert "operator 'add': field source.include_dirs[1]: " in line
        assert told in line


def test_include_sets_are_bounded(project: Project, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.put(**{f"inc/{at}.h": "x" for at in range(30)})
    project.op["source"]["include_dirs"] = ["inc"]
    monkeypatch.setattr("farm.request.trees.MAX_INCLUDE_FILES", 29)
    assert "field source.include_dirs[0]: " in refused()
    assert "holds more than 29 files and folders" in refused()
    monkeypatch.undo()
    monkeypatch.setattr("farm.request.model.MAX_INCLUDE_BYTES", 20)
    assert "has too many headers" in refused()
    project.op["source"] = {"path": "k/add.cu"}
    project.file("k/half.h", "x" * 21)
    assert "operator 'add': field source.path: has too many headers" in refused()


def test_flags_that_name_what_does_not_travel(project: Project, refused: Any) -> None:
    project.op.update(toolchain="host")
    project.put(**{"k/inc/x.h": "1", "k/y.h": "2"})
    for flags in (["-I."], ["-Iinc"], ["-I", "inc"], ["-include", "y.h"], ["-isysteminc"], ["-iquote", "../inc"]):
        project.op["options"] = {"flags": ["-O3", *flags]}
        project.op["source"] = {"path": "k/add.cu"}
        line = refused()
        assert "operator 'add': field options.flags[1]: " in line
        assert "does not travel with the source (list its folder in source.include_dirs" in line
        project.op["source"] = {"text": ""}
        project.load()
        project.op["source"] = {"path": "k/add.cu", "files": {"inc/x.h": "1", "y.h": "2", "../inc/x.h": "3"}}
        project.load()
    project.op["source"] = {"path": "k/add.cu"}
    for other in (["-Wall", "-I/usr/include", "-DI", "-I"], "-Iinc", [], None, [1]):
        project.op["options"] = {"flags": other}
        project.load()


COMPOSED, DECOMPOSED = "\u00e9.h", "e\u0301.h"


def test_an_include_that_would_travel_in_another_spelling(project: Project, refused: Any) -> None:
    for name, source in (
        (DECOMPOSED, {"path": "k/add.cu"}),
        ("other.h", {"path": "k/add.cu", "files": {COMPOSED: ""}}),
        ("other.h", {"path": "k/add.cu", "files": {DECOMPOSED: ""}}),
    ):
        project.op["source"] = source
        project.file(f"k/{name}")
        project.file("k/add.cu", f'#include "{DECOMPOSED}"\n')
        line = refused()
        assert "operator 'add': field source.path: the source includes " in line
        assert "not Unicode NFC) (rename the file" in line
        (project.folder / "k" / name).unlink()
    project.op["source"] = {"path": "k/add.cu"}
    project.load()
    project.file("k/add.cu", f'#include "{COMPOSED}"\n')
    project.file(f"k/{COMPOSED}", "1")
    assert project.files() == {COMPOSED: b"1"}


def test_an_include_folder_that_would_travel_in_another_spelling(project: Project, refused: Any) -> None:
    project.op["source"]["include_dirs"] = ["inc"]
    project.file(f"inc/{COMPOSED}")
    project.load()
    project.file(f"inc/s/{DECOMPOSED}")
    line = refused()
    assert "operator 'add': field source.include_dirs[0]: has a file " in line
    assert "not Unicode NFC" in line
