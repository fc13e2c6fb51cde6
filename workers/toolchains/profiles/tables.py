"""What a profile may hold, and every fault that its values can have.

[profile.NAME]
argv             the command line, with placeholders; argv[0] is a path, or a name found on PATH, and is hashed
outputs          patterns below {out}, each of which must match a file
env              environment beside PATH, HOME, TMPDIR, LC_ALL=C and SOURCE_DATE_EPOCH=0; placeholders too
version          command whose output is the version
hash             files and folders whose content is in the fingerprint; relative to the file of profiles
socs             the processor types it compiles for; left out: any name
timeout_seconds  counts when it is less than FARM_COMPILE_TIMEOUT_SECONDS
options.NAME     kind, default, choices, doc, and argv: the words that a given option becomes
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from farm.errors import InputError
from farm.request.options import OptionSpec, resolve
from farm.request.values import FieldError, shown
from workers.toolchains import job_words
from workers.toolchains.profiles.template import placeholders

#: Valid in argv and env.
PLACES = ("source", "source_dir", "out", "tmp", "soc", "entry", *job_words.PLACES)
#: A word of argv with it is repeated, once an include folder of the request.
INCLUDE_DIR = "include_dir"
#: A word of its own: where the options' words go; without it they come last.
OPTIONS = "{options}"
#: Valid in the words of an option, by its kind.
OPTION_PLACES: Mapping[str, tuple[str, ...]] = {
    "str": ("value",),
    "int": ("value",),
    "bool": (),
    "strings": ("value",),
    "map": ("name", "value"),
}

_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")

Key = tuple[str | int, ...]
Words = Annotated[list[str], Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OptionTable(_Table):
    """One option: what may be given for it, and the words it becomes."""

    kind: Literal["str", "int", "bool", "strings", "map"]
    default: Any = None
    choices: list[str] = []
    doc: str = ""
    argv: Words

    @property
    def spec(self) -> OptionSpec:
        """The option as clients check it; without a default it may be left out, and then becomes no words."""
        return OptionSpec(self.kind, self.default, tuple(self.choices), self.doc)


class ProfileTable(_Table):
    """One profile as its author wrote it."""

    argv: Words
    outputs: Words
    env: dict[str, str] = {}
    version: list[str] = []
    hash: list[str] = []
    socs: list[str] = []
    timeout_seconds: float | None = Field(None, gt=0, le=604800)
    options: dict[str, OptionTable] = {}


def faults(table: ProfileTable) -> Iterator[tuple[Key, str]]:
    """Every fault of values that are of the right kind: key, and what is wrong."""
    for key, word, known in _templates(table):
        yield from ((key, what) for what in _faults_of_word(key, word, known))
    for key, word in _plain_words(table):
        if "\0" in word:
            yield key, f"{shown(word)} holds a NUL character"
    if table.argv.count(OPTIONS) > 1:
        yield ("argv",), f"{OPTIONS} stands there more than once"
    yield from _faults_of_names(table)
    for name, option in table.options.items():
        yield from ((("options", name, *key), what) for key, what in _faults_of_option(name, option))


def _faults_of_names(table: ProfileTable) -> Iterator[tuple[Key, str]]:
    for at, pattern in enumerate(table.outputs):
        if pattern.startswith("/") or ".." in PurePosixPath(pattern).parts or not pattern.strip("/."):
            yield ("outputs", at), f"{shown(pattern)} is not a pattern below the out folder; valid: one like *.o"
    for name in table.env:
        if not _VARIABLE.fullmatch(name):
            yield ("env", name), "is not the name of a variable; valid: letters, digits and _"
    for at, soc in enumerate(table.socs):
        if not _SOC.fullmatch(soc):
            yield ("socs", at), f"{shown(soc)} is not a processor type; valid: 1 to 64 letters, digits and . _ + -"


def _plain_words(table: ProfileTable) -> Iterator[tuple[Key, str]]:
    """The words without placeholders that the system is handed."""
    for name, words in (("version", table.version), ("hash", table.hash)):
        for at, word in enumerate(words):
            yield (name, at), word


def _templates(table: ProfileTable) -> Iterator[tuple[Key, str, tuple[str, ...]]]:
    """Every word with placeholders, and those that are valid in it."""
    for at, word in enumerate(table.argv):
        if word != OPTIONS or at == 0:
            yield ("argv", at), word, (*PLACES, INCLUDE_DIR) if at else ()
    for name, word in table.env.items():
        yield ("env", name), word, PLACES
    for name, option in table.options.items():
        for at, word in enumerate(option.argv):
            yield ("options", name, "argv", at), word, OPTION_PLACES[option.kind]


def _faults_of_word(key: Key, word: str, known: tuple[str, ...]) -> Iterator[str]:
    try:
        placeholders(word, known)
    except ValueError as error:
        yield str(error)
    if "\0" in word or (key == ("argv", 0) and not word):
        yield f"{shown(word)} is not a word of a command line"


def _faults_of_option(name: str, option: OptionTable) -> Iterator[tuple[Key, str]]:
    if not _OPTION.fullmatch(name):
        yield (), "is not the name of an option; valid: letters, digits and _ -"
    if option.choices and option.kind not in ("str", "strings"):
        yield ("choices",), f"an option of kind {option.kind} has none; valid for str and strings"
    try:
        resolve({}, {name: option.spec}, "")
    except FieldError as error:
        yield ("default",), error.what
    except InputError as error:
        yield ("default",), error.message.partition(f"options.{name}: ")[2] or error.message
