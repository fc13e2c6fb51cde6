"""What makes another key of toolchain ``cuda``, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from farm.request.key import key
from farm.request.model import Request
from tests.unit.workers.requests import request, source
from workers.toolchains import cuda

HEADER = {"h.h": "#define X 1\n"}
FOLDER = {"w.h": ""}
TEXT = '#include "h.h"\n#include <w.h>\n__device__ int x = X;\n'


def ask(text: str = TEXT, beside: Any = HEADER, folder: Any = FOLDER, soc: str = "sm_80", **fields: Any) -> Request:
    options = {"defines": {"A": 1, "B": 2}, "flags": ["--fmad=false", "--ftz=true"]} | fields.pop("options", {})
    given = source(text, beside, folder, suffix=".cu")
    return request(schema=cuda.SCHEMA, toolchain="cuda", soc=soc, source=given, options=options, **fields)


FIRST = "1" * 64


@pytest.mark.parametrize(
    "other",
    [
        lambda: ask(text=TEXT + " "),
        lambda: ask(text=TEXT + "// a comment is a part of the source's bytes"),
        lambda: ask(beside={"h.h": "#define X 2\n"}),
        lambda: ask(beside={"h.h": "#define X 1\n// comment\n"}),
        lambda: ask(folder={"w.h": "\n"}),
        lambda: ask(folder={"w.h": "", "unused.h": ""}),
        lambda: ask(soc="sm_90"),
        lambda: ask(entry="k"),
        lambda: ask(options={"defines": {"A": 1, "B": 3}}),
        lambda: ask(options={"defines": {"A": 1}}),
        lambda: ask(options={"defines": {"A": 1, "B": "2"}}),
        lambda: ask(options={"flags": ["--fmad=false"]}),
        lambda: ask(options={"flags": ["--fmad=true", "--ftz=true"]}),
        lambda: ask(options={"flags": ["--ftz=true", "--fmad=false"]}),  # of two that contradict, the last holds
        lambda: ask(options={"std": "c++20"}),
        lambda: ask(options={"names": ["f<int>"]}),
    ],
)
def test_must_change_the_key(other: Callable[[], Request]) -> None:
    assert key(ask(), FIRST) != key(other(), FIRST)


@pytest.mark.parametrize(
    "other",
    [
        lambda: replace(ask(), name="another"),
        lambda: ask(options={"defines": {"B": 2, "A": 1}}),
        lambda: ask(options={"std": "", "names": []}),
    ],
)
def test_must_not_change_the_key(other: Callable[[], Request]) -> None:
    assert key(ask(), FIRST) == key(other(), FIRST)


def test_another_library_is_another_key() -> None:
    assert key(ask(), FIRST) != key(ask(), "2" * 64)
