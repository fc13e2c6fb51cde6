"""Why two keys differ, in the words of the person who wrote the operator.

Each part becomes rows of (label, value as text); two requests differ where a label's texts do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

ABSENT = "absent"

Rows = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same: ``header half.h``, ``option flags``, ``attr axis``."""

    part: str
    here: str
    there: str


def explain(a: Mapping[str, bytes], b: Mapping[str, bytes]) -> list[Difference]:
    """What differs between the parts of two keys (``key.parts``), in the order of the key's table.

    Returns:
        One Difference per thing that differs; ``here`` is from ``a``, ``there`` from ``b``; empty: same key.
    """
    found: list[Difference] = []
    for name in dict.fromkeys((*a, *b)):
        if a.get(name) == b.get(name):
            continue
        here, there = _rows(name, a.get(name)), _rows(name, b.get(name))
        for label in dict.fromkeys((*here, *there)):
            mine, theirs = here.get(label, ABSENT), there.get(label, ABSENT)
            if mine != theirs:
                found.append(Difference(label, mine, theirs))
    return found


def _rows(name: str, packed: bytes | None) -> dict[str, str]:
    if packed is None:
        return {}
    value = msgpack.unpackb(packed, raw=False, strict_map_key=False)
    return dict(_ROWS.get(name, _plain(name))(value))


def _plain(label: str) -> Callable[[Any], Rows]:
    def rows(value: Any) -> Rows:
        yield label, _text(value)

    return rows


def _tree(prefix: str) -> Callable[[Any], Rows]:
    """Rows of nested mappings: ``option defines.BLOCK``."""

    def rows(value: Any, path: str = "") -> Rows:
        if isinstance(value, dict) and (value or not path):
            for name, item in value.items():
                yield from rows(item, f"{path}.{name}" if path else name)
        else:
            yield f"{prefix} {path}", _text(value)

    return rows


def _tensors(prefix: str) -> Callable[[Any], Rows]:
    def rows(value: Any) -> Rows:
        yield f"number of {prefix}s", str(len(value))
        for at, (shape, dtype, layout) in enumerate(value):
            yield f"{prefix} {at} shape", _text(shape)
            yield f"{prefix} {at} dtype", dtype
            yield f"{prefix} {at} format", layout

    return rows


def _source(value: Any) -> Rows:
    suffix, content = value
    yield "source suffix", suffix or "none"
    yield "source", _text(content)


def _include_dirs(value: Any) -> Rows:
    yield "number of include_dirs", str(len(value))
    for at, files in enumerate(value):
        for name, content in files.items():
            yield f"header {name} in include_dirs[{at}]", _text(content)


def _executable(value: Any) -> Rows:
    yield "executable argv[0]", ABSENT if value is None else _text(value)


def _text(value: Any) -> str:
    """JSON, which tells 1 from 1.0 and "None" from null; content by the first digits of its sha256."""
    if isinstance(value, bytes):
        return f"content {value.hex()[:16]}"
    return json.dumps(value, ensure_ascii=False)


_ROWS: dict[str, Callable[[Any], Rows]] = {
    "fingerprint": _plain("compiler fingerprint"),
    "inputs": _tensors("input"),
    "outputs": _tensors("output"),
    "attrs": _tree("attr"),
    "source": _source,
    "files": _tree("header"),
    "include_dirs": _include_dirs,
    "depends": _tree("depends"),
    "options": _tree("option"),
    "executable": _executable,
}
