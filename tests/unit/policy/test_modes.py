"""Every combination of mode, debug level, debug values and debug list, against the table written out by hand."""

from __future__ import annotations

import itertools

import pytest

from farm.errors import InputError
from farm.policy.modes import Debug, Decision, decide, read_level

OPS = [("add_1", "Add"), ("add_2", "Add"), ("sum_1", "ReduceSum"), ("Add", "Cast")]
NAMES, TYPES = {name for name, _ in OPS}, {kind for _, kind in OPS}
VALUES = ("ccec_g", "oom")
LISTED = ("add_1", "OpType::ReduceSum")
SELECTED = {"add_1", "sum_1"}

MODES = ["enable", "force", "disable"]
LISTS = {"no list": None, "empty list": (), "list": LISTED}


def private(decision: Decision) -> set[str]:
    return {name for name, kind in OPS if decision.private(name, kind)}


def debugged(decision: Decision) -> set[str]:
    reached = {name: decision.debug_for(name, kind) for name, kind in OPS}
    assert set(reached.values()) <= {(), VALUES}
    return {name for name, values in reached.items() if values}


def row(mode: str, level: int, has_values: bool, list_kind: str) -> tuple[str, set[str], set[str]]:
    """The table once more, as a chain of sentences: effective mode, private, and whom the values reach."""
    reached = set() if not has_values else SELECTED if list_kind == "list" else NAMES
    if mode == "disable":
        return "disable", NAMES, reached
    if level != 0:
        return "disable", NAMES, reached
    if not has_values:
        return mode, set(), reached
    if list_kind != "list":
        return "disable", NAMES, reached
    return mode, SELECTED, reached


EVERY = [
    (mode, level, values, kind)
    for mode, level, values, kind in itertools.product(MODES, range(5), (False, True), LISTS)
    if values or kind == "no list"
]


@pytest.mark.parametrize(("mode", "level", "has_values", "list_kind"), EVERY)
def test_every_combination(mode: str, level: int, has_values: bool, list_kind: str) -> None:
    debug = Debug(level, VALUES if has_values else (), LISTS[list_kind])
    decision = decide(mode, debug)
    effective, expected_private, expected_debugged = row(mode, level, has_values, list_kind)
    assert decision.effective_mode == effective
    assert private(decision) == expected_private
    assert debugged(decision) == expected_debugged
    assert decision.debug.level == level
    says_something = effective != mode or (mode != "disable" and has_values)
    assert bool(decision.reason) is says_something
    if effective != mode:
        assert f"mode {mode} is ignored" in decision.reason
        assert ("nothing is purged" in decision.reason) is (mode == "force")


def test_there_are_no_fewer_rows_than_the_table_has() -> None:
    assert len(EVERY) == len(MODES) * 5 * (1 + len(LISTS))


@pytest.mark.parametrize(
    ("debug", "cause"),
    [
        (Debug(3), "op_debug_level is 3"),
        (Debug(1, VALUES, LISTED), "op_debug_level is 1"),
        (Debug(0, VALUES), "op_debug_config without op_debug_list"),
        (Debug(0, VALUES, ()), "op_debug_list is empty"),
    ],
)
def test_the_reason_names_the_cause(debug: Debug, cause: str) -> None:
    for mode in ("enable", "force"):
        assert decide(mode, debug).reason.startswith(cause)
    assert decide("disable", debug).reason == ""


def test_with_a_list_the_reason_says_that_the_mode_holds_for_the_rest() -> None:
    assert "mode force holds for the rest" in decide("force", Debug(0, VALUES, LISTED)).reason


@pytest.mark.parametrize(
    ("entry", "selects"),
    [
        ("add_1", {"add_1"}),
        ("Add", {"Add"}),  # a name, not the type
        ("OpType::Add", {"add_1", "add_2"}),
        ("opType::Add", {"add_1", "add_2"}),
        ("x::Add", {"add_1", "add_2"}),
        ("::Add", {"add_1", "add_2"}),
        ("OpType:: Add", {"add_1", "add_2"}),
        ("OpType::add", set()),
        ("OpType::add_1", set()),
        ("ADD_1", set()),
        ("a::b::Add", set()),
    ],
)
def test_an_entry_selects_by_type_or_by_name(entry: str, selects: set[str]) -> None:
    decision = decide("enable", Debug(0, VALUES, (entry,)))
    assert private(decision) == debugged(decision) == selects
    assert decision.unmatched(NAMES, TYPES) == (() if selects else (entry,))


def test_what_selects_nothing_is_told_in_order_and_as_written() -> None:
    listed = ("x::Mul", "add_1", "gone", "OpType::Add", "Cast")
    for mode, level in itertools.product(MODES, (0, 2)):
        assert decide(mode, Debug(level, VALUES, listed)).unmatched(NAMES, TYPES) == ("x::Mul", "gone", "Cast")
    assert decide("enable", Debug()).unmatched(NAMES, TYPES) == ()


@pytest.mark.parametrize("mode", ["", "enabl", "Enable", "disabl", " force", "refresh", "True"])
def test_other_modes_are_errors(mode: str) -> None:
    with pytest.raises(InputError, match="op_compiler_cache_mode") as told:
        decide(mode, Debug())
    assert all(known in told.value.fix for known in MODES)


@pytest.mark.parametrize("text", ["0", "1", "2", "3", "4", " 4\t"])
def test_levels(text: str) -> None:
    assert Debug(read_level(text)).level == int(text)


@pytest.mark.parametrize("text", ["5", "-1", "", " ", "00", "+1", "1.0", "٣", "１", "0x1", "one", "1\n"])  # noqa: RUF001
def test_other_levels_are_errors(text: str) -> None:
    with pytest.raises(InputError, match="op_debug_level") as told:
        read_level(text)
    assert "0, 1, 2, 3 or 4" in told.value.fix
    assert told.value.exit_code == 2


@pytest.mark.parametrize("level", [5, -1, True, "1", 1.0, None])
def test_a_level_is_a_number_from_0_to_4(level: object) -> None:
    with pytest.raises(InputError, match="op_debug_level"):
        Debug(level)  # type: ignore[arg-type]
