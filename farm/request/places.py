"""Where in a manifest something is wrong, in its author's words: the operator by name, then the field."""

from __future__ import annotations

from collections.abc import Sequence

from farm.request.values import join, printable, shown


def operator(position: int, op: object) -> str:
    """``operator 'add'``, or ``operator #4`` (counted from 1) when it has no usable name."""
    name = op.get("name") if isinstance(op, dict) else None
    if not isinstance(name, str) or not name.strip():
        return f"operator #{position + 1}"
    return f"operator '{name}'" if printable(name) == name else f"operator {shown(name)}"


def place(path: Sequence[str | int], op: object = None) -> str:
    """The beginning of a message about the thing at ``path``: ``operator 'add': field attrs.axis: ``.

    ``op`` is the operator (as far as it is known) when the path leads into one.
    """
    words = ""
    if len(path) > 1 and path[0] == "ops" and isinstance(path[1], int):
        words, path = f"{operator(path[1], op)}: ", path[2:]
    field = ""
    for step in path:
        field = join(field, step if isinstance(step, int) else printable(step))
    return f"{words}field {field}: " if field else words
