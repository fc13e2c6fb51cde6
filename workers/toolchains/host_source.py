"""What a C or C++ source must not do, found in its text, as the compiler's list of the files it read leaves it out.

The assembler reads files by itself, and a test whether a file is there reads none. Both would shape a kernel by
what lies on the worker. A directive that only macros put together is not seen here: what GNU's assembler has read is
looked at when it has (see ``host``); clang's own tells nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from workers.scratch import Scratch
from workers.toolchains.aliases import hidden_test

#: Between two letters a string may end and the next begin.
_SPLIT = rb'(?:"\s*")?'
_INCBIN, _INCLUDE = (_SPLIT.join(re.escape(letter.encode()) for letter in name) for name in (".incbin", ".include"))
#: As it stands in strings of asm(): the file's name may be set off by escaped quotes. A call of a method
#: ``include`` has no blank before its argument's quote.
_ASSEMBLER = re.compile(_INCBIN + rb"\b|" + _INCLUDE + _SPLIT + rb'[ \t]+(?:"\s*")?\\?"')
_TEST = re.compile(rb"\b__has_(?:include|include_next|embed)[ \t]*\([ \t]*[\"<][ \t]*([^\">\n]+)")


def objection(scratch: Scratch, headers: Iterable[Path]) -> str | None:
    """What is wrong with one of the files laid out, with its name and line as compilers write them; None: nothing.

    Args:
        headers: the folders of the compiler's own headers, which are in the fingerprint.
    """
    own, searched = (scratch.root, *headers), (*scratch.include_dirs, *headers)
    for path in _files(scratch):
        text = path.read_bytes()
        name = os.path.relpath(path, scratch.source.parent)
        if found := _ASSEMBLER.search(text):
            word = ".incbin" if re.match(_INCBIN, found[0]) else ".include"
            return f"{name}:{_line(text, found)}: error: {word} reads a file that would not be in the key"
        if hidden := hidden_test(text):
            return f"{name}:{_line(text, hidden[0])}: {hidden[1]}"
        for found in _TEST.finditer(text):
            target = os.fsdecode(found[1]).strip()
            if _leads_out(path.parent, target, scratch.root) or _elsewhere(target, searched, own):
                return (
                    f"{name}:{_line(text, found)}: error: whether there is a file {target} outside the request "
                    "would not be in the key; pass a macro in options.defines"
                )
    return None


def _files(scratch: Scratch) -> Iterator[Path]:
    for top in (scratch.root / "src", *scratch.include_dirs):
        yield from sorted(path for path in top.rglob("*") if path.is_file())


def _leads_out(folder: Path, target: str, root: Path) -> bool:
    """Whether a name is absolute or climbs out of the request's own tree."""
    return root not in Path(os.path.normpath(folder / target)).parents


def _elsewhere(target: str, searched: Iterable[Path], own: Iterable[Path]) -> bool:
    """Whether a search folder leads to a file of this machine that is neither the request's nor the compiler's."""
    found = {(folder / target).resolve() for folder in searched if ".." in target and (folder / target).is_file()}
    return any(not any(folder.resolve() in path.parents for folder in own) for path in found)


def _line(text: bytes, found: re.Match[bytes]) -> int:
    return text.count(b"\n", 0, found.start()) + 1
