"""Text and paths, without loss in any locale: text is always UTF-8, a path is whatever bytes the disk has.

Where Python's filesystem encoding is not UTF-8 (ISO-8859-1, or ASCII with UTF-8 mode off), a name with Han
characters can not be handed to ``os`` as it is; and a path that came from ``os`` can not be written to JSON.
"""

from __future__ import annotations

import os


def on_disk(name: str) -> str:
    """The form of a name or path in which ``os`` finds the UTF-8 bytes of the text."""
    return os.fsdecode(_bytes(name))


def as_text(path: str | os.PathLike[str]) -> str:
    """The text of a path that ``os`` gave; bytes that are no UTF-8 show as U+FFFD."""
    return _bytes(os.fspath(path)).decode(errors="replace")


def _bytes(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode(errors="replace")
