"""The limits of a node's kernel folder: its op_cache.ini, else the job's environment, else the defaults.

<op_compiler_cache_dir>/op_cache.ini                 the documented place; made when there is none
                        kernel_cache/op_cache.ini    where CANN's own compiler keeps it

The first of the two that sets both sizes counts. What is wrong in either is told once by a process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from farm.client import smallfile
from farm.client.localnames import as_text
from farm.client.notices import say_once
from farm.policy.inifile import GENERATED, NAME, IniFile, parse, unusable
from farm.policy.limits import Limits, decide, from_environment
from farm.policy.textfile import MAX_BYTES

_MODE = 0o640
# Not blocked by a FIFO that somebody put in place of the file.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read(root: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Limits:
    """The limits in force now, as cheap as two small files; never fails.

    Args:
        root: the ``kernel_cache`` folder, as ``resolve_cache_dir`` returns it.
        environ: of the job.
        say: is told each fault of a file or variable that does not count.
    """
    environment, warnings = from_environment(environ)
    limits = environment
    for path in (root.parent / NAME, root / NAME):
        ini = _read(path)
        if ini is not None:
            warnings += map(str, ini.faults)
            limits = decide(ini, environment)
        if limits is not environment:
            break
    for warning in warnings:
        say_once(say, warning)
    return limits


def generate(root: Path, say: Callable[[str], None]) -> None:
    """Write a file that sets nothing where there is none; any number of processes may do so at once.

    A folder that does not take it costs one notice.
    """
    path = root.parent / NAME
    if os.path.lexists(path):
        return
    try:
        smallfile.create(path, GENERATED.encode(), _MODE)
    except FileExistsError:
        pass  # another process was faster
    except OSError as error:
        say_once(say, f"{as_text(path)}: can not be written: {error.strerror}; the limits are taken from elsewhere")


def _read(path: Path) -> IniFile | None:
    try:
        descriptor = os.open(path, _READ)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return _unusable(path, "is no file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return parse(file.read(MAX_BYTES + 1), as_text(path))
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unusable(path, f"can not be read: {error.strerror}")


def _unusable(path: Path, reason: str) -> IniFile:
    return unusable(as_text(path), f"{reason}; it sets nothing: let this user read it, or move it away")
