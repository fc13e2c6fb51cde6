from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.workers.requests import source
from workers.scratch import Scratch
from workers.toolchains.host_source import objection


def said(tmp_path: Path, main: str, files: dict[str, str] | None = None, *include_dirs: dict[str, str]) -> str | None:
    (tmp_path / "usr" / "include").mkdir(parents=True)
    (tmp_path / "usr" / "machine.h").write_text("")
    scratch = Scratch.lay_out(tmp_path / "a" / "root", source(main, files or {}, *include_dirs))
    return objection(scratch, [tmp_path / "usr" / "include"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('asm(".incbin \\"/etc/hostname\\"");', "source.cpp:1: error: .incbin reads a file that would not be in"),
        ('\n asm(".include \\"/etc/x.s\\"");', "source.cpp:2: error: .include reads a file that would not be in"),
        ('asm(".inc" \n "bin \\"/etc/hostname\\"");', "source.cpp:1: error: .incbin reads a file that would not be in"),
        ('asm(".include" " \\"/etc/x.s\\"");', "source.cpp:1: error: .include reads a file that would not be in"),
        ("\n#define HI __has_include\n", "source.cpp:2: error: a macro stands for __has_include: write"),
        ("# define E(x) 1 \\\n && __has_embed(x)\n", "source.cpp:1: error: a macro stands for __has_embed: write"),
        ("#if __has_include(</etc/hostname>)\n#endif", "source.cpp:1: error: whether there is a file /etc/hostname"),
        ('\n#if __has_include ( "../../x" )\n#endif', "source.cpp:2: error: whether there is a file ../../x outside"),
        ("#if __has_include(<../machine.h>)\n#endif", "whether there is a file ../machine.h outside the request"),
    ],
)
def test_what_the_worker_would_decide_is_refused(text: str, message: str, tmp_path: Path) -> None:
    assert message in (said(tmp_path, text) or "")


def test_headers_are_looked_at_too(tmp_path: Path) -> None:
    bad = '#if __has_include("/x.h")\n#endif'
    assert (said(tmp_path / "1", "", {"sub/h.h": bad}) or "").startswith("sub/h.h:1: error: ")
    assert (said(tmp_path / "2", "", {}, {"h.h": bad}) or "").startswith("../inc0/h.h:1: error: ")


@pytest.mark.parametrize(
    "text",
    [
        "#if defined(__has_include) && __has_include(<optional>)\n#include <optional>\n#endif",
        '#if __has_include("../../lib/z.h") || __has_include("../none.h")\n#endif',
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n#define X 1\n#if __has_include(<optional>)\n#endif",
        "#define X 1 // not __has_include\n#define Y 2 / 1 /* nor\n__has_embed */",
        'struct S { void include(const char*); }; void f(S s) { s.include("x"); }',
        '#include "../../lib/z.h"\nint a; // including ../../../..',
    ],
)
def test_what_the_request_decides_is_not(text: str, tmp_path: Path) -> None:
    assert said(tmp_path, text, {"../../lib/z.h": "", "h.h": ""}) is None
