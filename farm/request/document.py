"""A manifest's bytes to plain values: JSON, YAML or msgpack, told by suffix or by the first bytes.

All three refuse repeated names and stop on any garbage with one error that names the place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack

from farm.errors import InputError
from farm.request.canonical import MAX_ITEMS
from farm.request.places import place
from farm.request.values import shown
from farm.request.yaml_document import read_yaml

SUFFIXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".msgpack": "msgpack"}

#: First bytes of a msgpack mapping; no UTF-8 text that is a manifest begins with one.
_MSGPACK_FIRST = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})


def read_document(data: bytes, where: str, suffix: str = "") -> object:
    """The plain value that ``data`` spells; the format is the suffix's, or else the content's.

    Raises:
        InputError: empty, damaged, not UTF-8, or a name given twice; names file, place and remedy.
    """
    if not data.strip():
        raise InputError(f"{where}: is empty", "give a manifest with version and ops")
    return _READERS[SUFFIXES.get(suffix.lower()) or _sniff(data)](data, where)


def _sniff(data: bytes) -> str:
    if data[0] in _MSGPACK_FIRST:
        return "msgpack"
    head = data[:4096].decode("utf-8-sig", errors="ignore").lstrip()
    return "json" if head[:1] == "{" and head[1:].lstrip()[:1] in ('"', "}") else "yaml"


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: is not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start})",
            "save it as UTF-8, or name it .msgpack if it is msgpack",
        ) from None


def _yaml(data: bytes, where: str) -> object:
    return read_yaml(_text(data, where), where)


def _json(data: bytes, where: str) -> object:
    pairs = _Pairs()
    try:
        document = json.loads(_text(data, where), object_pairs_hook=pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{where} {at}: not JSON: {error.msg}", "mend the file") from None
    except RecursionError:
        raise InputError(f"{where}: is nested too deep", "flatten it") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON for a manifest: {shown(str(error))}", "mend the file") from None
    pairs.check(document, where)
    return document


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number that can be in a key")


def _msgpack(data: bytes, where: str) -> object:
    pairs = _Pairs()
    try:
        document = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
            object_pairs_hook=pairs,
        )
    except (
        ValueError,
        TypeError,
        OverflowError,
        MemoryError,
        RecursionError,
        msgpack.UnpackException,
    ) as error:
        what = f"{type(error).__name__} {shown(str(error))}".strip()
        raise InputError(f"{where}: not msgpack: {what}", "write it again") from None
    pairs.check(document, where)
    return document


class _Twice:
    """Stands in the document where a mapping gave one name twice, until its place is known."""

    def __init__(self, name: object) -> None:
        self.name = name


class _Pairs:
    """Builds mappings and sees repeated names, which the parsers would let the last one win."""

    def __init__(self) -> None:
        self._found = False

    def __call__(self, pairs: list[tuple[Any, Any]]) -> object:
        mapping = dict(pairs)
        if len(mapping) == len(pairs):
            return mapping
        self._found = True
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        return _Twice(name)

    def check(self, document: object, where: str) -> None:
        if not self._found:
            return
        todo: list[tuple[tuple[str | int, ...], object, object]] = [((), document, None)]
        while todo:
            path, value, op = todo.pop()
            if isinstance(value, _Twice):
                name = value.name if isinstance(value.name, str) else shown(value.name)
                raise InputError(f"{where}: {place((*path, name), op)}is given twice", "keep one of the two")
            inside = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
            todo += [((*path, step), item, item if len(path) == 1 else op) for step, item in inside]


_READERS: dict[str, Callable[[bytes, str], object]] = {"json": _json, "yaml": _yaml, "msgpack": _msgpack}
