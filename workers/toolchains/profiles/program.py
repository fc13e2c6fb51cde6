"""The programs that a profile names, as this worker has them: found, and asked for their version, once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from farm.request.values import printable
from workers.toolchains.profiles.file import ProfileFile
from workers.toolchains.profiles.tables import PLACES, Key, ProfileTable
from workers.toolchains.profiles.template import fill, placeholders

_ASK_SECONDS = 60
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9A-Za-z]+)+")


def find_program(file: ProfileFile, name: str, table: ProfileTable, key: Key, word: str) -> Path:
    """The file of a program: a path relative to the file of profiles, or a name on the profile's PATH.

    Raises:
        ProfileError: there is none; the operator installs it or mends the profile.
    """
    path = _fixed_env(table).get("PATH") or os.environ.get("PATH", os.defpath)
    found = shutil.which(file.path.parent / word if "/" in word else word, path=path)
    if found is None:
        where = "" if "/" in word else f" on PATH ({path})"
        raise file.error(
            name, key, f"there is no program {printable(word)}{where}", "install it, or name it by its path"
        )
    return Path(found).absolute()


def ask_version(file: ProfileFile, name: str, table: ProfileTable) -> str:
    """All that the version command says; empty when the profile has none.

    Raises:
        ProfileError: it fails, says nothing or does not end.
    """
    if not table.version:
        return ""
    program = find_program(file, name, table, ("version", 0), table.version[0])
    with tempfile.TemporaryDirectory(prefix="opfarm-version-") as folder:
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [str(program), *table.version[1:]], env=env | _fixed_env(table), cwd=folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=_ASK_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise file.error(name, ("version",), f"the command does not answer: {error}") from None
    said = done.stdout.strip() or done.stderr.strip()
    if done.returncode or not said:
        first = said.partition("\n")[0] or "it says nothing"
        raise file.error(name, ("version",), f"the command ends with exit code {done.returncode}: {printable(first)}")
    return said


def short_version(said: str) -> str:
    """The version to show and to compare: the first number with a dot, else the first line."""
    line = said.partition("\n")[0].strip()
    number = _NUMBER.search(said)
    return number[0] if number else line[:64] or "0"


def _fixed_env(table: ProfileTable) -> dict[str, str]:
    """The profile's environment as far as it is the same for every request."""
    return {name: fill(word, {}) for name, word in table.env.items() if not placeholders(word, PLACES)}
