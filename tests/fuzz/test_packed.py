"""Packed requests and records that anybody could have forged."""

from __future__ import annotations

from typing import Any

import msgpack

from farm.errors import FarmError, InputError
from farm.index.plans import Progress, Stand
from farm.index.record import Record
from farm.request.wire import pack, unpack
from tests.fuzz.bounds import fuzz, one_line, outcome
from tests.fuzz.mutations import damaged, documents, values
from tests.fuzz.test_bundles import KEY, TRICKS, WIRE, packable, packed

FIELDS: list[Any] = msgpack.unpackb(WIRE, strict_map_key=False)


@fuzz(70, documents([FIELDS], packable | values))
def test_packed_requests_with_any_fields(fields: Any) -> None:
    opened(packed(fields))


@fuzz(20, damaged([WIRE], TRICKS))
def test_damaged_packed_requests(data: bytes) -> None:
    opened(data)


def opened(data: bytes) -> None:
    found = outcome(lambda: unpack(data))
    if isinstance(found, FarmError):
        assert isinstance(found, InputError)
        return
    assert unpack(pack(found, lambda blob: True)) == found


PROGRESS = Progress(
    {"default/sm_90": Stand(1, 2)}, [("default/sm_90", 1, KEY)], ["00"], {"00": "joined"}, {"q": 1}
).pack()
RECORD = Record(1, 2, KEY, "add", "Add", "cuda", 3, 4).pack()


@fuzz(20, damaged([RECORD], TRICKS))
def test_records(data: bytes) -> None:
    try:
        Record.unpack(data)
    except ValueError as error:
        one_line(str(error))


@fuzz(40, damaged([PROGRESS], TRICKS) | packable.map(packed))
def test_what_a_step_left(data: bytes) -> None:
    assert isinstance(outcome(lambda: Progress.unpack(data)), Progress)
