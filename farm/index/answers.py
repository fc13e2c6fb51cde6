"""Turns the replies of acquire and claim into answers, and cuts work into batches that keep scripts short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from farm.index.outcomes import Absent, Answer, Claimed, Failure, Hit, Joined, Refused

#: Keys a script call: about 2 ms of the server's time at a million entries.
BATCH = 250

T = TypeVar("T")


def batches(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """The items in runs of at most ``size``."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def read_answers(reply: Sequence[Any]) -> list[Answer]:
    """One answer a key, from ``['ok', states, payloads, generations]``."""
    _, states, payloads, generations = reply
    numbers = [int(number) for number in generations.split()]
    if len(numbers) == 1:
        numbers *= len(payloads)
    if states == b"h" * len(payloads):
        return [Hit(*hit) for hit in zip(numbers, payloads, strict=True)]
    return [_answer(*row) for row in zip(states.decode(), payloads, numbers, strict=True)]


def _answer(state: str, payload: bytes, generation: int) -> Answer:
    match state:
        case "h":
            return Hit(generation, payload)
        case "j":
            return Joined(generation)
        case "c":
            return Claimed(generation)
        case "f" | "r":
            return Refused(Failure.unpack(payload), remembered=state == "r")
        case _:
            return Absent()
