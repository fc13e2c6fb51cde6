"""Reads a file of profiles. Every error names file, line and key.

A file that is not TOML, or holds something else than profiles, is an error as a whole: nobody can tell what was
meant. A wrong profile is wrong by itself, and the others stand.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from farm.errors import InputError
from farm.request.files import read_file
from farm.request.values import FieldError, printable, shown
from workers.toolchains.profiles.lines import beginnings, line_of
from workers.toolchains.profiles.tables import Key, OptionTable, ProfileTable, faults

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+-]{0,63}")
#: As of other files that people edit; profiles of a dozen compilers have some kB.
_MAX_BYTES = 65536
_WEEK = "valid: more than 0, at most 604800 (a week)"
_WORDS = {
    "missing": "is missing",
    "string_type": "must be text",
    "list_type": "must be a list of texts",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "too_short": "must not be empty",
    "float_type": f"must be a number of seconds; {_WEEK}",
    "greater_than": _WEEK,
    "less_than_equal": _WEEK,
}


class ProfileError(InputError):
    """One profile is wrong or can not be used here; names file, line and key."""


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A file that could be read."""

    path: Path
    text: str
    #: By name; text says what is wrong with one.
    profiles: Mapping[str, ProfileTable | str]

    def error(self, name: str, key: Key, what: str, fix: str = "") -> ProfileError:
        """An error about a key of a profile."""
        return ProfileError(f"{_place(self.path, self.text, ('profile', name, *key))}: {what}", fix)


def read(path: Path, reserved: Collection[str]) -> ProfileFile:
    """Read a file of profiles; ``reserved`` are names that none may have.

    Raises:
        InputError: it can not be read, is not TOML, or holds something else; the worker must not start.
    """
    text, document = _toml(path)
    if unknown := next((key for key in document if key != "profile"), None):
        raise InputError(f"{_place(path, text, (unknown,))}: is no known table", "write [profile.NAME]")
    tables = document.get("profile", {})
    if not isinstance(tables, dict):
        raise InputError(f"{_place(path, text, ('profile',))}: must be a table", "write [profile.NAME]")
    profiles: dict[str, ProfileTable | str] = {}
    file = ProfileFile(path, text, profiles)
    for name, table in tables.items():
        try:
            profiles[name] = _check(file, name, table, reserved)
        except ProfileError as error:
            profiles[name] = str(error)
    return file


def _toml(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        data = read_file(path, "", _MAX_BYTES)
        text = data.decode()
        beginnings(text)  # what is nested too deep for tomllib ends here
        return text, tomllib.loads(text)
    except FieldError as error:
        raise InputError(f"FARM_TOOLCHAINS_FILE {error.what}", "name a file of profiles") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (offset {error.start})", "save it as UTF-8") from None
    except ValueError as error:  # also a number of thousands of digits
        raise InputError(f"{path}: is not TOML: {printable(str(error))}", "mend the file") from None


def _place(path: Path, text: str, key: Key) -> str:
    words = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in key)
    return f"{path}:{line_of(text, key)}: {words[1:]}"


def _check(file: ProfileFile, name: str, given: object, reserved: Collection[str]) -> ProfileTable:
    if not _NAME.fullmatch(name):
        raise file.error(name, (), "is not a toolchain's name", "valid: 1 to 64 letters, digits and _ + -")
    if name in reserved:
        raise file.error(name, (), f"there is a toolchain {name} already", "choose another name")
    try:
        table = ProfileTable.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False)  # a name that is misspelt says more than one that is missing
        raise file.error(name, *_refusal(min(found, key=lambda one: one["type"] == "missing"))) from None
    for key, what in faults(table):
        raise file.error(name, key, what)
    return table


def _refusal(first: Any) -> tuple[Key, str, str]:
    """Key, fault and remedy of what pydantic found first."""
    key, kind = tuple(first["loc"]), first["type"]
    if kind == "extra_forbidden":
        fields = list((OptionTable if key[0] == "options" else ProfileTable).model_fields)
        near = get_close_matches(str(key[-1]), fields, n=1)
        return key, "is no known key", f"did you mean {near[0]}?" if near else f"valid: {', '.join(fields)}"
    what = f"valid: {first['ctx']['expected']}" if kind == "literal_error" else _WORDS.get(kind, first["msg"])
    return key, what if kind == "missing" else f"{what}; given {shown(first['input'])}", ""
