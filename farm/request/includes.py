"""Follows ``#include "x.h"`` from a source, as a compiler would: relative to the file that includes.

A name that is not there is left alone: it may be in an include folder, or behind an ``#if`` that is never so.
The compiler says so if it is missing after all, since a worker sees only what was found here.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.request.filenames import MAX_FOLDERS_UP, check_spelling
from farm.request.files import is_present
from farm.request.model import Blob, check_include_set
from farm.request.values import FieldError, shown

# Blanks and comments inside one line. Every character has one way to match, so no line is scanned twice; and nothing
# is possessive inside something possessive, which Python before 3.11.5 gets wrong.
_GAP = rb"(?:[ \t\f\v]|/\*[^*\n]*(?:\*(?!/)[^*\n]*)*\*/)*"
_DIRECTIVE = re.compile(
    rb"^"
    + _GAP
    + rb"(?:#|%:)"
    + _GAP
    + rb"(?:include_next|include|import|embed)"
    + _GAP
    + rb'(?:"([^"\n]+)"|<(/[^>\n]+)>)',
    re.MULTILINE,
)
_QUESTION = re.compile(
    rb"__has_(?:include_next|include|embed)" + _GAP + rb"\(" + _GAP + rb'(?:"([^"\n]+)"|<(/[^>\n]+)>)'
)
# Both are for text without comments. A macro that stands in for __has_include itself asks for nothing.
_COMPUTED = re.compile(
    rb"^[ \t\f\v]*+(?:#|%:)[ \t\f\v]*+(?:include_next|include|import|embed)\b[ \t\f\v]*+([^\"<\s][^\n]*)", re.MULTILINE
)
_COMPUTED_QUESTION = re.compile(
    rb"(?<!define )(?<!define\t)__has_(?:include_next|include|embed)[ \t\f\v]*+\([ \t\f\v]*+([^\"<\s)][^\n)]*)"
)
# Literals are matched so that a comment mark inside one is none.
_COMMENT_OR_LITERAL = re.compile(
    rb"//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
    rb'|"(?:[^"\\\n]|\\.)*+"?'
    rb"|'(?:[^'\\\n]|\\.)*+'?"
)
_WORDS = re.compile(rb"include|import|embed")
_CONTINUED_LINES = re.compile(rb"^(?:[^\n]*\\\r?\n)++[^\n]*", re.MULTILINE)
_CONTINUED = re.compile(rb"\\\r?\n")


@dataclass(frozen=True, slots=True)
class Text:
    """A file and the names it includes in quotes."""

    blob: Blob
    includes: tuple[str, ...]
    #: Line number and text of the first name that only a preprocessor could know, as in ``#include MACRO``.
    computed: tuple[int, str] | None = None


def scan(blob: Blob, data: bytes, where: str) -> Text:
    """Find what a file includes.

    Raises:
        FieldError: an include by absolute path, whose content on a worker no key could know.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    joined = _CONTINUED.sub(b"", data)
    names: dict[str, None] = {}
    for pattern in (_DIRECTIVE, _QUESTION):
        for quoted, angled in pattern.findall(joined):
            raw = quoted or angled
            if raw.startswith(b"/"):
                raise FieldError(
                    f"{where} includes {shown(os.fsdecode(raw))}: workers may have another file at that path",
                    "include it by a relative name, or name its folder in include_dirs",
                )
            names[os.fsdecode(raw)] = None
    # Most files say none of the words, and need no second look.
    return Text(blob, tuple(names), _computed(data) if _WORDS.search(joined) else None)


def check_written_out(text: Text, where: str) -> None:
    """Refuse a file with a computed include: what it names would not travel, and the worker may find another.

    Raises:
        FieldError: names file and line; ``field`` is for the caller to add.
    """
    if text.computed is not None:
        line, name = text.computed
        raise FieldError(
            f"{where} line {line} includes {shown(name)}, which can not be followed",
            "write the file's name out, in quotes or angle brackets",
        )


def _computed(data: bytes) -> tuple[int, str] | None:
    plain = _COMMENT_OR_LITERAL.sub(_without_comment, _CONTINUED_LINES.sub(_as_one_line, data.replace(b"\v", b" ")))
    found = min(filter(None, (one.search(plain) for one in (_COMPUTED, _COMPUTED_QUESTION))), key=_start, default=None)
    if found is None:
        return None
    before = plain[: found.start(1)]
    return before.count(b"\n") + before.count(b"\v") + 1, os.fsdecode(found[1].strip())


def _start(match: re.Match[bytes]) -> int:
    return match.start(1)


def _as_one_line(lines: re.Match[bytes]) -> bytes:
    """Continued lines joined, and as many empty ones after them: later lines keep their numbers."""
    return _CONTINUED.sub(b"", lines[0]) + b"\n" * lines[0].count(b"\n")


def _without_comment(match: re.Match[bytes]) -> bytes:
    """A blank, and for each line of a comment a \\v: a blank too, so that a directive may go on after it."""
    return b" " + b"\v" * match[0].count(b"\n") if match[0].startswith((b"//", b"/*")) else match[0]


def follow(folder: Path, main: Text, beside: Mapping[str, Text], read: Callable[[Path, str], Text]) -> dict[str, Blob]:
    """The files that ``main`` (in ``folder``) includes, directly or not, by name relative to ``folder``.

    ``beside`` are files given by the manifest itself; they come first and are all part of the result.
    ``read(path, where)`` reads and scans one file.

    Raises:
        FieldError: too many, too large, too far up, or unreadable; ``field`` is for the caller to add.
    """
    found: dict[str, Text] = dict(beside)
    size_bytes = sum(text.blob.size_bytes for text in beside.values())
    todo = [("", folder, main), *((name, (folder / name).parent, text) for name, text in beside.items())]
    while todo:
        includer, place, text = todo.pop()
        for include in text.includes:
            name = _resolve(includer, include)
            if name in found:
                continue
            path = place / include
            _check_spelling(includer, name, path, found)
            if not is_present(path):
                continue
            found[name] = read(path, name)
            size_bytes += found[name].blob.size_bytes
            check_include_set(len(found), size_bytes)
            todo.append((name, path.parent, found[name]))
    return {name: text.blob for name, text in found.items()}


def _check_spelling(includer: str, name: str, path: Path, found: Mapping[str, Text]) -> None:
    """The include's spelling is that of a file on disk, or another spelling of one that travels already."""
    check_spelling(
        name,
        f"{includer or 'the source'} includes",
        lambda: unicodedata.normalize("NFC", name) in found or is_present(path),
    )


def _resolve(includer: str, include: str) -> str:
    """``include`` as seen from the main file's folder, by name alone: the folder's own name never matters."""
    parts: list[str] = includer.split("/")[:-1]
    for part in include.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if parts[: MAX_FOLDERS_UP + 1].count("..") > MAX_FOLDERS_UP:
        raise FieldError(
            f"{includer or 'the source'} includes {shown(include)}, more than {MAX_FOLDERS_UP} folders up",
            "name its folder in include_dirs",
        )
    return "/".join(parts)
