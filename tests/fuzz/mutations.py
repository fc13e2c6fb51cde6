"""Valid inputs, damaged: documents by their structure, files by their bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

#: Texts that have broken programs: odd Unicode, lone surrogates, NUL, controls, long, names with a meaning elsewhere.
ODD_TEXTS = (
    "", " ", "\0", "a\0b", "\n", "a\nb", "\r", "\x1b[31m", "\x7f", "\u2028", "\u200b", "\u202e", "e\u0301", "\ufeff",
    "\ud800", "\udcff", "\U0001f4a9", "算子", "٣", "\uff15", "-", "--", "-1", "0", "..", "../x", "../../x", "/", "/x",
    "a/b", "~", "*", "{", "}", "{source}", "%s", "%n", "$HOME", "$(x)", "a=b", "x::", "::", "nan", "inf", "1e999",
    "null", "a" * 255, "a" * 300, "é" * 200, "/".join("a" * 300), "x" * 5000, "9" * 5000, "__proto__", "con",
    ".opfarm.json", ".", "a@b", "@",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, 1, 2**15, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**30, -0.0, 0.5, 1e308,
    float("nan"), float("inf"), float("-inf"), True, False, None,
)  # fmt: skip


def nested(depth: int, kind: str) -> Any:
    """A value inside a value inside a value …"""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=12)
numbers = st.sampled_from(ODD_NUMBERS) | st.integers() | st.floats()
deep = st.builds(nested, st.sampled_from([2, 31, 33, 63, 65, 150, 300]), st.sampled_from(["list", "dict"]))
leaves = texts | numbers
values = st.recursive(
    leaves, lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4), max_leaves=8
)
odd_values = st.one_of(leaves, values, deep)


def paths(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value of a document, its own first."""
    found = [above]
    rows = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for step, value in rows:
        found += paths(value, (*above, step))
    return found


@st.composite
def documents(draw: st.DrawFn, bases: Sequence[Any], values: st.SearchStrategy[Any] = odd_values) -> Any:
    """A valid document with one to three things changed: replaced, removed, named otherwise, added, doubled."""
    document = copy.deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(paths(document)))
        if not way:
            if draw(st.integers(0, 19)) == 0:
                return draw(values)
            continue
        holder = document
        for step in way[:-1]:
            holder = holder[step]
        _change(holder, way[-1], draw, values)
    return document


def _change(holder: Any, step: Any, draw: st.DrawFn, values: st.SearchStrategy[Any]) -> None:
    how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add", "double"]))
    is_list = isinstance(holder, list)
    if how == "replace":
        holder[step] = draw(values)
    elif how == "remove":
        del holder[step]
    elif how == "rename" and not is_list:
        holder[draw(texts)] = holder.pop(step)
    elif how == "add" and not is_list:
        holder[draw(texts)] = draw(values)
    elif is_list:
        holder.append(copy.deepcopy(holder[step]) if how == "double" else draw(values))


@st.composite
def damaged(draw: st.DrawFn, bases: Sequence[bytes], words: Sequence[bytes] = ()) -> bytes:
    """Valid bytes, cut, changed, spliced, with things put in and repeated; or bytes that are none at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(draw(st.sampled_from(bases)))
    pieces = st.binary(max_size=8) | st.sampled_from(
        [*words, b"\0", b"\xff", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xf0\x9f"]
    )
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        how = draw(st.sampled_from(["cut", "remove", "put in", "replace", "repeat", "flip"]))
        if how == "cut":
            del data[at:]
        elif how == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "repeat":
            data[at:at] = data[at : at + length] * draw(st.sampled_from([1, 3, 50, 3000]))
        else:
            data[at : at + (0 if how == "put in" else length)] = b"" if how == "remove" else draw(pieces)
    return bytes(data)


def lines(words: st.SearchStrategy[str], join: Callable[[list[str]], str] = "".join) -> st.SearchStrategy[str]:
    """A text of such words in any order."""
    return st.lists(words, max_size=12).map(join)
