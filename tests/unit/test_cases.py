"""``tests/CASES.md`` can not rot: every test it names is there, every case has a row, every failpoint has a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = (TESTS / "CASES.md").read_text(encoding="utf-8")
#: The public failures that were collected; the gaps are those of the list.
NUMBERS = (
    1, 2, 4, 6, 8, 9, 10, 11, 13, 15, 16, 17, 19, 20, 21, 23, 25, 26, 27, 29, 31, 32, 34, 35, 37, 38, 39, 40, 41, 42,
    44, 46, 47, 48, 50, 51, 52, 53,
)  # fmt: skip


def rows(section: int) -> list[list[str]]:
    """The cells of all tables of a section, without their heads."""
    text = re.split(r"^## ", CASES, flags=re.MULTILINE)[section]
    tables = re.findall(r"^\|.*\|\n\|-[-|]*\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for table in tables for line in table.splitlines()]


def functions(file: str) -> set[str]:
    """The functions at the top of a test file; none when there is no such file."""
    path = TESTS / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", CASES))
    there = {file: functions(file) for file, _ in named}
    assert len(named) > 200
    assert CASES.count("::") == len(re.findall(r"`[\w/]+\.py::test_\w+`", CASES)) + 1, "one is not written as the rest"
    assert sorted(f"{file}::{name}" for file, name in named if name not in there[file]) == []


def test_every_case_has_one_row() -> None:
    assert [cells[0] for cells in rows(1)] == [f"BC-{number:02}" for number in NUMBERS]


@pytest.mark.parametrize(("section", "at_least"), [(1, 38), (2, 8), (3, 8), (4, 60)])
def test_every_row_names_a_test(section: int, at_least: int) -> None:
    assert len(rows(section)) >= at_least
    assert [cells for cells in rows(section) if ".py::test_" not in cells[-1]] == []


def test_every_failpoint_is_reached_in_a_test() -> None:
    code = "".join(path.read_text() for top in ("farm", "workers") for path in (TESTS.parent / top).rglob("*.py"))
    points = set(re.findall(r'\breach\("([\w.]+)"\)', code))
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    assert len(points) > 20
    # Also where a test puts the name together from its two halves.
    assert {point for point in points if point not in tests and f'"{point.split(".")[1]}"' not in tests} == set()
