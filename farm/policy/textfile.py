"""The text of a small settings file that people edit, line by line; whatever is in it, the answer is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_BYTES = 65536
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: Not str.splitlines(), which also ends lines at a form feed, at U+2028 and others.
_LINE_END = re.compile(r"\r\n|\r|\n")
_SHOWN_CHARACTERS = 60


class NotText(ValueError):
    """These bytes are no settings file; says what they are and what to do."""


def text_of(data: bytes, max_bytes: int = MAX_BYTES) -> str:
    """The text, without a byte order mark.

    Raises:
        NotText: too long, another encoding than UTF-8, or NUL bytes.
    """
    if len(data) > max_bytes:
        raise NotText(f"has more than {max_bytes} bytes: keep only its settings")
    if data.startswith(_UTF16_MARKS):
        raise NotText("is UTF-16 or UTF-32: save it as UTF-8")
    if b"\0" in data:
        raise NotText("holds NUL bytes: save it as plain UTF-8 text")
    try:
        return data.removeprefix(_UTF8_MARK).decode()
    except UnicodeDecodeError as error:
        raise NotText(f"is not UTF-8 (byte {error.start + 1}): save it as UTF-8") from None


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that says something, blanks trimmed; comments begin with ``#`` or ``;``."""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        trimmed = line.strip(" \t")
        if trimmed and trimmed[0] not in "#;":
            yield number, trimmed


def pair(line: str) -> tuple[str, str] | None:
    """Key and value of ``key=value``, split at the first ``=``; None for anything else."""
    key, equals, value = line.partition("=")
    return (key.strip(" \t"), value.strip(" \t")) if equals and key.strip(" \t") else None


def brief(value: str) -> str:
    """A value as a message shows it: quoted, on one line, not longer than one can read."""
    return repr(value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…")
