"""A profile as a toolchain: its fingerprint, and the command line for a request."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from farm.index.outcomes import Failure
from farm.request.model import Request
from farm.request.values import Value, printable
from workers.scratch import Scratch
from workers.toolchains.environment import own_environment
from workers.toolchains.hashing import fingerprint
from workers.toolchains.job_words import OPTIONAL, job_words
from workers.toolchains.pinned import Pinned
from workers.toolchains.profiles.file import ProfileFile
from workers.toolchains.profiles.program import ask_version, find_program, short_version
from workers.toolchains.profiles.tables import INCLUDE_DIR, OPTIONS, PLACES, OptionTable, ProfileTable
from workers.toolchains.profiles.template import fill, placeholders
from workers.toolchains.protocol import Command

_RECIPE = 1
_IN_ARGV = (*PLACES, INCLUDE_DIR)


class ProfileToolchain:
    """One profile whose program, hashed files and version are at hand."""

    def __init__(self, name: str, table: ProfileTable, program: Path, pinned: Pinned, version: str, digest: str):
        self.name = name
        self.version = version
        self.fingerprint = digest
        self.socs = tuple(table.socs)
        self.schema = {option: one.spec for option, one in table.options.items()}
        self._table = table
        self._program = program
        self._pinned = pinned

    def command(self, request: Request, scratch: Scratch) -> Command | Failure:
        """The profile's argv and environment with the placeholders filled in, run in the scratch folder."""
        used = {name for word in self._words() if word != OPTIONS for name in placeholders(word, _IN_ARGV)}
        if request.entry is None and "entry" in used:
            return Failure("rejected", f"toolchain {self.name} needs to know the entry (give entry)")
        if request.source.include_dirs and INCLUDE_DIR not in used:
            return Failure("rejected", f"toolchain {self.name} has no use for include_dirs (leave them out)")
        values = {
            "source": str(scratch.source),
            "source_dir": str(scratch.source.parent),
            "out": str(scratch.out),
            "tmp": str(scratch.tmp),
            "soc": request.soc,
            "entry": request.entry or "",
            **job_words(request.job_options),
        }
        return Command(
            argv=(str(self._program), *self._argv(request, scratch, values)),
            env=own_environment(scratch) | {name: fill(word, values) for name, word in self._table.env.items()},
            cwd=scratch.root,
            outputs=tuple(self._table.outputs),
            review=self._review,
            timeout_seconds=self._table.timeout_seconds,
        )

    def _words(self) -> Iterator[str]:
        yield from self._table.argv[1:]
        yield from self._table.env.values()

    def _argv(self, request: Request, scratch: Scratch, values: Mapping[str, str]) -> Iterator[str]:
        words = self._table.argv[1:]
        for word in words if OPTIONS in words else [*words, OPTIONS]:
            if word == OPTIONS:
                for name, option in self._table.options.items():
                    yield from option_words(option, request.options[name])
            elif INCLUDE_DIR in placeholders(word, _IN_ARGV):
                for folder in scratch.include_dirs:
                    yield fill(word, {**values, INCLUDE_DIR: str(folder)})
            elif all(values[place] for place in placeholders(word, _IN_ARGV) & {*OPTIONAL}):
                yield fill(word, values)

    def _review(self) -> Failure | None:
        change = self._pinned.change()
        return Failure("transient", f"{change}: restart the worker") if change else None


def option_words(option: OptionTable, value: Value) -> Iterator[str]:
    """The words that an option becomes.

    True is its words as they are, False and an option left out are none. A list is its words once an item, a
    mapping once a name, in the order of names.
    """
    if value is None or value is False:
        return
    items: Sequence[Mapping[str, str]]
    if isinstance(value, Mapping):
        items = [{"name": name, "value": _text(value[name])} for name in sorted(value)]
    elif isinstance(value, tuple):
        items = [{"value": _text(item)} for item in value]
    else:
        items = [{"value": _text(value)}]
    for places in items:
        yield from (fill(word, places) for word in option.argv)


def _text(value: Value) -> str:
    """A plain value as macros have it: true is 1, false 0, null nothing."""
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)


def make(file: ProfileFile, name: str, table: ProfileTable) -> ProfileToolchain:
    """The toolchain of a profile; hashes all that the profile names.

    Raises:
        ProfileError: a program or a file is missing, or the version command fails; the operator mends it.
    """
    program = find_program(file, name, table, ("argv", 0), table.argv[0])
    hashed = [file.path.parent.absolute() / entry for entry in table.hash]
    for at, path in enumerate(hashed):
        if not path.exists():
            raise file.error(name, ("hash", at), f"there is no {printable(str(path))}")
    said = ask_version(file, name, table)
    try:
        pinned = Pinned([program, *hashed])
    except OSError as error:
        raise file.error(name, ("hash",), f"{error.filename} can not be read: {error.strerror}") from None
    digest = _fingerprint(table, program, said, hashed, pinned)
    return ProfileToolchain(name, table, program, pinned, short_version(said), digest)


def _fingerprint(table: ProfileTable, program: Path, said: str, hashed: Sequence[Path], pinned: Pinned) -> str:
    """Over what shapes an output; a path whose content is hashed counts by its content alone."""
    parts = {
        "recipe": _RECIPE,
        "machine": platform.machine(),
        "program": program.name,
        "argv": [_placeless(word, hashed) for word in table.argv[1:]],
        "env": {name: _placeless(word, hashed) for name, word in table.env.items()},
        "outputs": table.outputs,
        "options": {name: (option.kind, option.argv) for name, option in table.options.items()},
        "version": said,
        "files": pinned.sha256s,
    }
    return fingerprint(parts)


def _placeless(word: str, hashed: Sequence[Path]) -> str:
    """The word with the number of a hashed path for the path, the longest first."""
    for at, path in sorted(enumerate(hashed), key=lambda item: -len(str(item[1]))):
        word = re.sub(re.escape(str(path)) + r"(?![\w.-])", f"{{hash {at}}}", word)
    return word
