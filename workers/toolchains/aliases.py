"""A macro that stands for ``__has_include``: what is asked through it can not be read off the text."""

from __future__ import annotations

import re

ALIAS = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+\w+(?:\\\n|[^\n])*?\b(__has_(?:include_next|include|embed))\b", re.MULTILINE
)
