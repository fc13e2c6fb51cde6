"""The C++ compiler of this machine and its fingerprint: everything in it that shapes an output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.toolchains.hashing import fingerprint
from workers.toolchains.headers import Headers
from workers.toolchains.pinned import Pinned

#: What a compiler may need to run at all; everything else (CPATH, LIBRARY_PATH ...) shapes the output.
_KEPT = ("PATH", "LD_LIBRARY_PATH")
_TOOLS = ("cc1plus", "cc1", "as", "ld", "collect2")
#: What ends up inside a shared object besides the source's own code.
_LINKED_IN = (
    "crti.o",
    "crtbeginS.o",
    "crtendS.o",
    "crtn.o",
    "libgcc.a",
    "libgcc_eh.a",
    "libstdc++.a",
    "libc_nonshared.a",
    # By flags: -ffast-math, -mpc32 and its like, -fopenmp.
    "crtfastmath.o",
    "crtprec32.o",
    "crtprec64.o",
    "crtprec80.o",
    "crtoffloadbegin.o",
    "crtoffloadend.o",
    "crtoffloadtable.o",
    "libgomp.spec",
    "liblto_plugin.so",  # not linked in, but the linker asks it about each object file
)
#: Libraries in which compilers, assemblers and linkers keep their code; the C library counts by its version.
_CODE_LIBRARIES = re.compile(r"lib(LLVM|clang|bfd|opcodes|ctf|sframe|isl|mpc|mpfr|gmp)")
_ASK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """One C++ compiler: how it is called, and what it is."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    version: str
    fingerprint: str
    #: Its programs and what they link in; hashed.
    files: Pinned
    #: In the order in which it searches them; hashed.
    headers: Headers
    #: Whether its assembler can list the files that it has read.
    lists_assembled: bool

    def change(self, read: Iterable[Path]) -> str | None:
        """What of it is no longer as it was, after a compile that read these of its headers."""
        return self.files.change() or self.headers.change(read)


def locate(environ: Mapping[str, str]) -> tuple[str, ...] | str:
    """The compiler's argv from ``$CXX``, else g++, else clang++; or why there is none."""
    path = environ.get("PATH", os.defpath)
    if given := shlex.split(environ.get("CXX", "")):
        found = shutil.which(given[0], path=path)
        return (found, *given[1:]) if found else f"CXX={environ['CXX']}: {given[0]} is not an executable on PATH"
    found = shutil.which("g++", path=path) or shutil.which("clang++", path=path)
    return (found,) if found else "neither CXX is set nor is g++ or clang++ on PATH"


def inspect(argv: tuple[str, ...], environ: Mapping[str, str], recipe: object) -> HostCompiler | str:
    """Ask a compiler what it is and hash what it consists of; or why it can not be used.

    Args:
        recipe: what this project's own code adds to every call; part of the fingerprint.
    """
    env = {name: environ[name] for name in _KEPT if name in environ} | {"LC_ALL": "C"}
    try:
        version_line = _ask(argv, env, "--version").splitlines()[0]
        version = _ask(argv, env, "-dumpfullversion", "-dumpversion").strip()
        files = _program_files(argv, env) | _linked_in(argv, env)
        lists_assembled = _lists_assembled(argv, env)
        pinned, headers = Pinned(list(files.values())), Headers(_include_dirs(argv, env))
        parts = {
            "recipe": recipe,
            "version": version_line,
            "machine": _ask(argv, env, "-dumpmachine").strip(),
            "arguments": argv[1:],
            "files": dict(zip(files, pinned.sha256s, strict=True)),
            "headers": headers.sha256,
            "libc": _libc(),
        }
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        return f"{shlex.join(argv)} does not answer: {error}"
    return HostCompiler(argv, env, version, fingerprint(parts), pinned, headers, lists_assembled)


def _ask(argv: tuple[str, ...], env: Mapping[str, str], *question: str) -> str:
    done = subprocess.run(
        [*argv, *question],
        env=env,
        check=True,
        capture_output=True,
        text=True,
        timeout=_ASK_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def _lists_assembled(argv: tuple[str, ...], env: Mapping[str, str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        read, made = Path(folder, "read.d"), Path(folder, "made.o")
        question = (f"-Wa,--MD,{read}", "-c", "-x", "c", os.devnull, "-o", str(made))
        try:
            _ask(argv, env, *question)
        except subprocess.CalledProcessError:
            return False
        return read.exists()


def _include_dirs(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[Path, ...]:
    done = subprocess.run(
        [*argv, "-E", "-v", "-x", "c++", "/dev/null"],
        env=env, check=True, capture_output=True, text=True, timeout=_ASK_SECONDS,
    )  # fmt: skip
    listed = done.stderr.partition("#include <...> search starts here:")[2].partition("End of search list.")[0]
    return tuple(Path(line.strip()).resolve() for line in listed.splitlines() if line.strip())


def _program_files(argv: tuple[str, ...], env: Mapping[str, str]) -> dict[str, Path]:
    """The driver, the programs it runs, and the libraries in which these keep their code."""
    files = {"driver": Path(argv[0])}
    for tool in _TOOLS:
        found = shutil.which(_ask(argv, env, f"-print-prog-name={tool}").strip(), path=env.get("PATH"))
        if found:
            files[tool] = Path(found)
    for program in list(files.values()):
        files |= _code_libraries(program, env)
    return files


def _code_libraries(program: Path, env: Mapping[str, str]) -> dict[str, Path]:
    done = subprocess.run(
        ["ldd", str(program)], env=env, check=False, capture_output=True, text=True, timeout=_ASK_SECONDS
    )
    rows = (line.split(" => ") for line in done.stdout.splitlines() if " => /" in line)
    return {row[0].strip(): Path(row[1].rpartition(" (")[0]) for row in rows if _CODE_LIBRARIES.match(row[0].strip())}


def _linked_in(argv: tuple[str, ...], env: Mapping[str, str]) -> dict[str, Path]:
    found = {name: Path(_ask(argv, env, f"-print-file-name={name}").strip()) for name in _LINKED_IN}
    return {name: path for name, path in found.items() if path.is_absolute()}


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""  # not glibc: its headers and start files are hashed above
