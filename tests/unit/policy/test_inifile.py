"""op_cache.ini as people write it: both sizes or neither, and each thing that does not count is named once."""

from __future__ import annotations

import codecs

import pytest

from farm.policy.inifile import GENERATED, Fault, IniFile, parse, unusable

WHERE = "/farm/default/op_cache.ini"
HEADER = b"[op_compiler_cache]\n"
BOTH = b"max_op_cache_size=700\nremain_cache_size_ratio=40\n"


def sizes(found: IniFile) -> tuple[int | None, int | None]:
    return found.max_op_cache_size_mb, found.remain_cache_size_ratio


def test_what_is_generated_sets_nothing_until_both_lines_are_uncommented() -> None:
    assert parse(GENERATED.encode(), WHERE) == IniFile(None, None)
    opened = GENERATED.replace("#max", "max").replace("#remain", "remain")
    assert parse(opened.encode(), WHERE) == IniFile(500, 50)


@pytest.mark.parametrize(
    "data",
    [
        HEADER + BOTH,
        (HEADER + BOTH).replace(b"\n", b"\r\n"),
        (HEADER + BOTH).replace(b"\n", b"\r"),
        codecs.BOM_UTF8 + HEADER + BOTH,
        HEADER + BOTH.rstrip(b"\n"),
        b"\t[ op_compiler_cache ] ; ours\n\t max_op_cache_size \t=  700 \nremain_cache_size_ratio = 40\t\n",
        "# 上限\n;x=1\n\n  # ;\n".encode() + HEADER + b"#max_op_cache_size=1\n" + BOTH,
        HEADER + b"adk_version=8.5.0\nops_version=8.5.0\n" + BOTH,
        HEADER + b"max_op_cache_size=+700\nremain_cache_size_ratio=040\n",
        HEADER + BOTH + BOTH,
        HEADER + BOTH + b"max_op_cache_size=0700\n",
        HEADER + BOTH[:22] + HEADER + BOTH[22:],
        HEADER + BOTH + HEADER + b"adk_version=1\n",
    ],
)
def test_well_written(data: bytes) -> None:
    assert parse(data, WHERE) == IniFile(700, 40)


@pytest.mark.parametrize(
    "data", [b"", b"\n\r\n \t\n", codecs.BOM_UTF8, b"# nothing", HEADER, HEADER + b"adk_version=1"]
)
def test_a_file_without_sizes_is_no_fault(data: bytes) -> None:
    assert parse(data, WHERE) == IniFile(None, None)
    assert parse(HEADER + b"adk_version=8.5.0\r\nops_version=\r\n", WHERE) == IniFile(None, None)


@pytest.mark.parametrize(("text", "value"), [("-1", -1), ("1", 1), ("2147483647", 2**31 - 1), ("-01", -1)])
def test_sizes_in_range(text: str, value: int) -> None:
    data = HEADER + f"max_op_cache_size={text}\nremain_cache_size_ratio=1".encode()
    assert parse(data, WHERE) == IniFile(value, 1)


BAD = [
    "0", "-0", "-2", "2147483648", "4294967295", "-2147483648", "9" * 400, "80%", "500MB", "５００", "٥", "1_000",  # noqa: RUF001
    "1,000", "1.5", "1e3", "0x10", "5 0", "+", "--5", "five", '"500"', "500 # half", "500\x0c", "\u00a05",
    "5\u200b", "",
]  # fmt: skip


@pytest.mark.parametrize("key", ["max_op_cache_size", "remain_cache_size_ratio"])
@pytest.mark.parametrize("text", BAD)
def test_one_bad_value_and_neither_counts(key: str, text: str) -> None:
    data = (HEADER + BOTH).decode().replace("700" if key.startswith("max") else "40", text).encode()
    found = parse(data, WHERE)
    assert sizes(found) == (None, None)
    (fault,) = found.faults
    assert fault.line == (2 if key.startswith("max") else 3)
    assert fault.value == text
    told = str(fault)
    valid = "1 to 2147483647, or -1" if key.startswith("max") else "1 to 100"
    assert all(word in told for word in (WHERE, f"line {fault.line}", key, valid, "mended"))
    assert "\n" not in told
    assert len(told) < 300


@pytest.mark.parametrize("text", ["101", "-1", "2147483647"])
def test_a_ratio_out_of_range(text: str) -> None:
    found = parse(HEADER + f"max_op_cache_size=7\nremain_cache_size_ratio={text}".encode(), WHERE)
    assert sizes(found) == (None, None)
    assert [fault.value for fault in found.faults] == [text]


def test_both_bad_both_named() -> None:
    found = parse(HEADER + b"remain_cache_size_ratio=101\nmax_op_cache_size=0\n", WHERE)
    assert sizes(found) == (None, None)
    assert [(fault.line, fault.value) for fault in found.faults] == [(2, "101"), (3, "0")]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        (b"max_op_cache_size=7", "remain_cache_size_ratio"),
        (b"max_op_cache_size=-1", "remain_cache_size_ratio"),
        (b"remain_cache_size_ratio=7", "max_op_cache_size"),
    ],
)
def test_one_key_alone_does_not_count(line: bytes, missing: str) -> None:
    found = parse(HEADER + line, WHERE)
    assert sizes(found) == (None, None)
    (fault,) = found.faults
    assert (fault.line, f"set {missing} too" in str(fault)) == (2, True)


def one(data: bytes, line: int | None, *words: str) -> IniFile:
    found = parse(data, WHERE)
    (fault,) = found.faults
    assert fault.line == line
    assert all(word in str(fault) for word in words)
    return found


def test_keys_before_any_section_do_not_count() -> None:
    found = parse(BOTH, WHERE)
    assert sizes(found) == (None, None)
    assert [fault.line for fault in found.faults] == [1, 2]
    assert "put it below [op_compiler_cache]" in str(found.faults[0])
    assert sizes(one(b"max_op_cache_size=1\n" + HEADER + BOTH, 1, "before the first section")) == (700, 40)


@pytest.mark.parametrize(
    "header", [b"[cache]", b"[OP_COMPILER_CACHE]", b"[]", b"[op_compiler_cache", b"[op_compiler_cache] x", b"[[a]]"]
)
def test_what_is_below_another_header_does_not_count(header: bytes) -> None:
    assert sizes(one(header + b"\n" + BOTH, 1, "[op_compiler_cache]", header.decode())) == (None, None)
    assert sizes(one(HEADER + BOTH + header + b"\nmax_op_cache_size=1", 4, "do not count")) == (700, 40)


def test_the_same_key_twice_with_two_values_counts_neither() -> None:
    again = b"max_op_cache_size=800\n"
    words = "'800'", "max_op_cache_size has another value in line 2", "keep one"
    for data, last in ((HEADER + BOTH + again, 4), (HEADER + BOTH + HEADER + again, 5)):
        assert sizes(one(data, last, *words)) == (
            None,
            None,
        )


def test_a_valid_value_does_not_mend_a_bad_one() -> None:
    assert sizes(one(HEADER + b"max_op_cache_size=7MB\n" + BOTH, 2, "'7MB'")) == (None, None)


@pytest.mark.parametrize("key", ["max_op_cache_sise", "Max_Op_Cache_Size", "version", "max-op-cache-size"])
def test_an_unknown_key_is_named_once_and_costs_nothing(key: str) -> None:
    line = f"{key}=1\n".encode()
    assert sizes(one(HEADER + line + BOTH + line, 2, repr(key), "valid keys: max_op_cache_size")) == (700, 40)


@pytest.mark.parametrize("line", [b"max_op_cache_size", b"max_op_cache_size: 5", b"=5", b"]"])
def test_a_line_that_is_no_setting_costs_nothing(line: bytes) -> None:
    assert sizes(one(HEADER + line + b"\n" + BOTH, 2, "is not key=value")) == (700, 40)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ((HEADER + BOTH).decode().encode("utf-16"), "UTF-16"),
        (codecs.BOM_UTF16_BE + b"x", "UTF-16"),
        ((HEADER + BOTH).decode().encode("utf-32"), "UTF-16"),
        ((HEADER + BOTH).decode().encode("utf-16-le"), "NUL"),
        (HEADER + BOTH + b"\0", "NUL"),
        (HEADER + BOTH + b"# \xff", "not UTF-8 (byte"),
        (HEADER + BOTH + "# 上限".encode("gbk"), "not UTF-8"),
        (HEADER + BOTH + b"#" * 2**20, "more than 65536 bytes"),
        (b"max_op_cache_size=" + b"5" * 2**20, "more than 65536 bytes"),
    ],
)
def test_what_is_no_text_is_one_fault_of_the_whole_file(data: bytes, word: str) -> None:
    assert sizes(one(data, None, WHERE, word, "nothing in it counts")) == (None, None)


def test_64_kib_are_read() -> None:
    padded = HEADER + BOTH + b"#" * (65536 - len(HEADER + BOTH))
    assert parse(padded, WHERE) == IniFile(700, 40)
    assert parse(padded + b"#", WHERE).max_op_cache_size_mb is None


def test_a_file_that_can_not_be_read_is_one_fault() -> None:
    assert str(*unusable(WHERE, "Is a directory").faults) == f"{WHERE}: Is a directory"


def test_faults_are_bounded_and_equal_when_the_file_has_not_changed() -> None:
    data = HEADER + b"junk\n" * 5000
    found = parse(data, WHERE)
    assert len(found.faults) == 21
    assert "4980 more faults" in str(found.faults[-1])
    assert set(found.faults) == set(parse(data, WHERE).faults)


def test_a_fault_is_one_line_whatever_is_in_it() -> None:
    told = str(Fault("/a\n/b", 3, "x\r\n\x1b[31m" + "y" * 500, "no"))
    assert told.isprintable()
    assert len(told) < 120
