"""YAML text to plain values, built from the parser's events.

Building from events and not with PyYAML's own constructor is several times faster, makes nothing but plain
values whatever a tag asks for, sees repeated keys, and stops where it goes too deep or copies too much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from farm.errors import InputError
from farm.request.places import place
from farm.request.values import FieldError, shown
from farm.request.yaml_scalars import plain

MAX_DEPTH = 64
#: What all aliases together may repeat, in nodes; a text counts one more per 128 characters.
MAX_REPEATED_NODES = 2_000_000
CHARACTERS_PER_NODE = 128

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_NO_KEY: Any = object()
_MERGE: Any = object()


def read_yaml(text: str, where: str) -> object:
    """The one document in ``text``.

    Raises:
        InputError: not YAML, or YAML that a manifest does not use; names line, operator and field.
    """
    builder = _Builder(where)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise InputError(f"{where}{at}: not YAML: {error.problem or error.context}", "mend the file") from None
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not YAML: {shown(str(error))}", "mend the file") from None
    return builder.document


class _Open:
    """A list or mapping whose end has not come yet."""

    __slots__ = ("anchor", "is_list", "key", "merged", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.is_list = isinstance(value, list)
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.merged: list[dict[str, object]] = []
        self.size = 1


class _Builder:
    def __init__(self, where: str) -> None:
        self.document: object = None
        self._where = where
        self._line = 1
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._repeated_nodes = 0
        self._takes: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: lambda event: self._start([], event),
            yaml.MappingStartEvent: lambda event: self._start({}, event),
            yaml.SequenceEndEvent: self._end,
            yaml.MappingEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._begin,
        }

    def take(self, event: Any) -> None:
        take = self._takes.get(type(event))
        if take is not None:
            self._line = event.start_mark.line + 1
            take(event)

    def _begin(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._wrong("a second document begins", "give one document a file")

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise self._wrong_tag(event.tag)
        value: object = text
        if event.implicit[0] and event.tag is None:
            if text == "<<" and self._wants_key():
                self._open[-1].key = _MERGE
                return
            try:
                value = plain(text)
            except FieldError as error:
                raise self._wrong(error.what, error.fix) from None
        self._add(value, 1 + len(text) // CHARACTERS_PER_NODE, event.anchor)

    def _start(self, empty: list[object] | dict[str, object], event: Any) -> None:
        if event.tag is not None:
            raise self._wrong_tag(event.tag)
        if len(self._open) >= MAX_DEPTH:
            raise self._wrong(f"is nested more than {MAX_DEPTH} levels deep", "flatten it")
        if self._wants_key():
            raise self._wrong("a list or mapping can not be a name", "use text")
        self._open.append(_Open(empty, event.anchor))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        for merged in done.merged:
            done.value = {**merged, **done.value}
        self._add(done.value, done.size, done.anchor)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._wrong(f"*{event.anchor} refers to nothing that ends above it", "define it first")
        value, size = self._anchors[event.anchor]
        self._repeated_nodes += size
        if self._repeated_nodes > MAX_REPEATED_NODES:
            raise self._wrong("aliases repeat too much", "share less, or use JSON")
        self._add(value, size, None)

    def _add(self, value: object, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self.document = value
            return
        holder = self._open[-1]
        holder.size += size
        if holder.is_list:
            holder.value.append(value)
        elif holder.key is _NO_KEY:
            holder.key = self._key(value, holder.value)
        else:
            if holder.key is _MERGE:
                self._merge(holder, value)
            else:
                holder.value[holder.key] = value
            holder.key = _NO_KEY

    def _wants_key(self) -> bool:
        return bool(self._open) and not self._open[-1].is_list and self._open[-1].key is _NO_KEY

    def _key(self, value: object, holder: dict[str, object]) -> str:
        if not isinstance(value, str):
            raise self._wrong(f"the name {shown(value)} must be text", "quote it")
        if value in holder:
            raise self._wrong("is given twice", "keep one of the two", value)
        return value

    def _merge(self, holder: _Open, value: object) -> None:
        every: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in every):
            raise self._wrong("<< merges mappings only", "give it a mapping or a list of them")
        holder.merged.extend(every)

    def _wrong_tag(self, tag: str) -> InputError:
        return self._wrong(f"the tag {shown(tag)} is not allowed", "manifests hold plain values; remove it")

    def _wrong(self, what: str, fix: str, *below: str) -> InputError:
        path: list[str | int] = []
        for holder in self._open:
            if holder.is_list:
                path.append(len(holder.value))
            elif isinstance(holder.key, str):
                path.append(holder.key)
        op = self._open[2].value if len(self._open) > 2 else None
        return InputError(f"{self._where} line {self._line}: {place((*path, *below), op)}{what}", fix)
