"""Toolchain ``command``: the compiler is named by the request itself, argv and all.

Off unless FARM_ALLOW_ADHOC_COMMANDS is set, as it runs what a submitter asks for. The key holds the digest of
argv[0]'s file, and of a Python venv around it, as the submitter has them; what that program finds through PATH is
the operator's to keep alike.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from farm.errors import InputError
from farm.index.outcomes import Failure
from farm.request.executables import executable_digest
from farm.request.model import COMMAND, Request
from farm.request.options import OptionSpec
from farm.request.values import Value
from farm.settings import Settings
from workers.scratch import Scratch
from workers.toolchains.environment import own_environment
from workers.toolchains.hashing import file_sha256, fingerprint
from workers.toolchains.job_words import OPTIONAL, job_words
from workers.toolchains.protocol import Command

SCHEMA: Mapping[str, OptionSpec] = {
    "argv": OptionSpec(
        "strings",
        (),
        (),
        "the command; {source} {out} {soc} {entry} {op_debug_level} … stand for what they say",
    ),
    "outputs": OptionSpec("strings", ("*",), (), "patterns below {out}, each of which must match a file"),
    "env": OptionSpec("map", {}, (), "environment beside PATH, HOME, TMPDIR, LC_ALL=C and SOURCE_DATE_EPOCH=0"),
}
_RECIPE = 1


class CommandToolchain:
    """Any program that lies on this machine exactly as it does on the submitter's."""

    name = COMMAND
    version = "1"
    socs: tuple[str, ...] = ()
    schema = SCHEMA
    #: Programs differ between processors; the rest of what shapes an output is in each key.
    fingerprint = fingerprint({"recipe": _RECIPE, "machine": platform.machine()})

    def command(self, request: Request, scratch: Scratch) -> Command | Failure:
        """The request's argv with its placeholders filled in, run in the scratch folder."""
        try:
            argv = _argv(request, scratch)
            env = _env(request.options["env"], scratch)
            outputs = _outputs(request.options["outputs"])
        except InputError as error:
            return Failure("rejected", str(error))
        path = env["PATH"]
        executable = _executable(argv[0], path)
        if refusal := _compare(request, argv[0], executable):
            return refusal
        assert executable is not None
        return Command(
            argv=(str(executable), *argv[1:]),
            env=env,
            cwd=scratch.root,
            outputs=outputs,
            review=lambda: _compare(request, argv[0], executable),
        )


def find(settings: Settings) -> CommandToolchain | str:
    """The toolchain when the operator allows it."""
    if not settings.allow_adhoc_commands:
        return "FARM_ALLOW_ADHOC_COMMANDS is not set"
    return CommandToolchain()


def _argv(request: Request, scratch: Scratch) -> list[str]:
    given = request.options["argv"]
    if not isinstance(given, tuple) or not given or not given[0]:
        raise InputError("options.argv is empty", "give the command and its arguments")
    words = {"{source}": str(scratch.source), "{out}": str(scratch.out), "{soc}": request.soc}
    told = job_words(request.job_options)
    words |= {f"{{{name}}}": word for name, word in told.items()}
    unsaid = [f"{{{name}}}" for name in OPTIONAL if not told[name]]
    if request.entry is not None:
        words["{entry}"] = request.entry
    elif any("{entry}" in str(item) for item in given):
        raise InputError("options.argv uses {entry}, and the request has none", "give entry")
    said = [str(item) for item in given[1:] if not any(place in str(item) for place in unsaid)]
    return [str(given[0]), *(_fill(item, words) for item in said)]


def _fill(item: str, words: Mapping[str, str]) -> str:
    """Placeholders are replaced once: what is put in for one is not searched for others."""
    at = min((found for word in words if (found := item.find(word)) >= 0), default=-1)
    if at < 0:
        return item
    word = next(word for word in words if item.startswith(word, at))
    return item[:at] + words[word] + _fill(item[at + len(word) :], words)


def _env(given: Value, scratch: Scratch) -> dict[str, str]:
    assert isinstance(given, Mapping)
    for name, value in given.items():
        if "=" in name or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"options.env: {name!r}: {value!r} can not be put into an environment", "quote the value")
    return own_environment(scratch) | {name: str(value) for name, value in given.items()}


def _outputs(given: Value) -> tuple[str, ...]:
    patterns = [str(item) for item in given] if isinstance(given, Sequence) else []
    for pattern in patterns:
        if pattern.startswith("/") or ".." in PurePosixPath(pattern).parts or not pattern.strip("/."):
            raise InputError(f"options.outputs: {pattern!r} is not a pattern below the out folder", "use one like *.o")
    if not patterns:
        raise InputError("options.outputs is empty", "name what the command leaves, as in *.o")
    return tuple(patterns)


def _executable(name: str, path: str) -> Path | None:
    """The program under its own name, else one of the same base name on this worker's PATH."""
    found = shutil.which(name, path=path) or shutil.which(PurePosixPath(name).name, path=path)
    return Path(found).absolute() if found else None


def _compare(request: Request, name: str, executable: Path | None) -> Failure | None:
    """A worker whose program differs must not answer; another worker may have the right one."""
    here, wanted = platform.node(), request.executable.hex() if request.executable else "none"
    if executable is None:
        return Failure("transient", f"worker host {here} has no program {name} (submitted with sha256 {wanted})")
    try:
        found = executable_digest(executable, bytes.fromhex(file_sha256(executable))).hex()
    except OSError as error:
        return Failure("transient", f"worker host {here} can not read {executable}: {error.strerror}")
    except InputError as error:  # the venv's configuration; not the submitter's, so never "rejected"
        return Failure("transient", f"worker host {here} can not read the venv of {executable}: {error}")
    if found == wanted:
        return None
    return Failure(
        "transient",
        f"worker host {here} has another {executable}, or venv around it, than the submitter: "
        f"sha256 {found} here, {wanted} submitted",
    )
