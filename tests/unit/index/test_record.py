"""The packed form of a record."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from farm.index.outcomes import Failure
from farm.index.record import Record

RECORD = Record(1_796_115_524_339_001, 20_000, bytes(range(32)), "add_fp16_32x128\n\0é", "Add", "host", 1234)


def test_a_record_comes_back() -> None:
    assert Record.unpack(RECORD.pack()) == RECORD
    largest = replace(RECORD, token=2**53, stored_bytes=2**32 - 1, name="n" * 1000)
    assert Record.unpack(largest.pack()) == largest
    assert Record.unpack(replace(RECORD, compile_ms=2**40).pack()).compile_ms == 2**32 - 1


def test_the_two_numbers_that_scripts_read_come_first() -> None:
    assert struct.unpack_from(">QI", RECORD.pack()) == (RECORD.token, RECORD.stored_bytes)


def test_names_of_usual_length_cost_less_than_a_hundred_bytes() -> None:
    usual = replace(RECORD, name="layer_norm_fp16_32x128_17", type="LayerNorm")
    assert len(usual.pack()) < 100


@pytest.mark.parametrize(
    "data", [b"", b"1 2 x", RECORD.pack()[:47], RECORD.pack()[:-3], RECORD.pack() + b"x", RECORD.pack()[:48] + b"\x01"]
)
def test_what_is_no_record_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="no record"):
        Record.unpack(data)


def test_a_failure_comes_back() -> None:
    failure = Failure("rejected", "two\nlines", "log\0with nul\n")
    assert Failure.unpack(failure.pack()) == failure
