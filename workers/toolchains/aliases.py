"""A macro that stands for ``__has_include``: what is asked through it can not be read off the text."""

from __future__ import annotations

import re

#: Up to a comment, over continued lines.
_ALIAS = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+\w+(?:\\\n|[^\n/]|/(?![/*]))*?\b(__has_(?:include_next|include|embed))\b", re.MULTILINE
)


def hidden_test(text: bytes) -> tuple[re.Match[bytes], str] | None:
    """Where such a macro is made, and what its author is told."""
    if not (found := _ALIAS.search(text)):
        return None
    word = found[1].decode()
    return found, f"error: a macro stands for {word}: write {word} where it is asked"
