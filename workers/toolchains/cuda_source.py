"""What a CUDA source must not do, found in its text, as NVRTC neither tells which files it read nor the date it used.

Two things would shape a kernel without being in its key: a file that is not in the request, and the clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from workers.scratch import Scratch
from workers.toolchains.aliases import hidden_test

#: Cheap, and true of every text that could be refused: only such texts are looked at more closely.
_SUSPECT = re.compile(rb"__(?:DATE|TIME)__|include[^\n]*(?:[\"<]\s*/|\.\.)")
_NOT_CODE = re.compile(
    rb"(?P<quoted>include(?:_next)?[ \t]*\(?[ \t]*<[^>\n]*>)|//[^\n]*|/\*.*?\*/|"
    rb"""R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_CLOCK = re.compile(rb"\b__(?:DATE|TIME)__\b")
_INCLUDE = re.compile(
    rb"(?:^[ \t]*#[ \t]*include(?:_next)?|\b__has_include(?:_next)?[ \t]*\()[ \t]*[\"<][ \t]*([^\">\n]+)", re.MULTILINE
)


def objection(scratch: Scratch, headers: Path) -> str | None:
    """What is wrong with one of the files laid out, with its name and line as NVRTC writes them; None: nothing.

    Args:
        headers: the folder of the CUDA headers, which are in the fingerprint.
    """
    searched = (*scratch.include_dirs, headers)
    for path in _files((scratch.root / "src", *scratch.include_dirs)):
        text = path.read_bytes()
        name = os.path.relpath(path, scratch.source.parent)
        if hidden := hidden_test(text):
            return f"{name}({_line(text, hidden[0])}): {hidden[1]}"
        if not _SUSPECT.search(text):
            continue
        code = _NOT_CODE.sub(_blank, text)
        if clock := _CLOCK.search(code):
            return (
                f"{name}({_line(code, clock)}): error: {clock[0].decode()} is the time of the compile, so the same "
                "request would give other bytes each time; pass a value in options.defines"
            )
        directives = _NOT_CODE.sub(lambda found: found["quoted"] or found["text"] or _blank(found), text)
        for include in _INCLUDE.finditer(directives):
            target = os.fsdecode(include[1]).strip()
            if _elsewhere(target, (path.parent, *searched), (scratch.root, headers)):
                return (
                    f"{name}({_line(directives, include)}): error: {target} is not in the request, "
                    "so it would not be in the key"
                )
    return None


def _files(folders: tuple[Path, ...]) -> Iterator[Path]:
    for top in folders:
        for folder, folders_below, names in os.walk(top):
            folders_below.sort()
            for name in sorted(names):
                yield Path(folder, name)


def _elsewhere(target: str, bases: tuple[Path, ...], ours: tuple[Path, ...]) -> bool:
    """Whether an include could be met by a file of this machine that is neither the request's nor a CUDA header."""
    found = {(base / target).resolve() for base in bases if (base / target).is_file()}
    return any(not any(folder.resolve() in path.parents for folder in ours) for path in found)


def _blank(found: re.Match[bytes]) -> bytes:
    """A space for what is no code; lines stay where they are."""
    return b" " + b"\n" * found[0].count(b"\n")


def _line(text: bytes, found: re.Match[bytes]) -> int:
    return text.count(b"\n", 0, found.start(1) if found.re.groups else found.start()) + 1
