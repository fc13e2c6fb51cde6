"""Judges a compiler that did not succeed: its own refusal, or trouble that another try may not meet."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from farm.index.outcomes import Failure
from farm.store.disk import mount_point
from workers.keeping import Ending, Limits


@dataclass(frozen=True, slots=True)
class OwnTrouble(Failure):
    """Trouble of this worker and not of the request: the next one may well meet it here too."""


MESSAGE_CAP_CHARACTERS = 500
LOG_TAIL_CAP_BYTES = 8 << 10

_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
#: A compiler that was killed, crashed or ran out of memory below a driver that then exits by itself.
_CRASHED = re.compile(
    r"internal compiler error|PLEASE submit a bug report|signal terminated program|"
    r"virtual memory exhausted|out of memory|cannot allocate memory|std::bad_alloc|^MemoryError\b|"
    r"Segmentation fault|error while loading shared libraries|terminated with signal|memory exhausted|"
    r"cannot execute\b|cannot create temporary file|Resource temporarily unavailable|Too many open files|"
    r"Input/output error|Stale file handle",
    re.IGNORECASE | re.MULTILINE,
)
#: A file that is there but can not be read: said about the place of its #include, and yet the compiler's own word.
_UNREADABLE = re.compile(
    r"fatal error: [^\n]+: (?:Input/output error|Stale file handle|Too many open files|"
    r"Resource temporarily unavailable|Cannot allocate memory)$",
    re.MULTILINE,
)
#: A message about a place in the source quotes it: what it says of memory or disks is not the compiler's.
#: NVIDIA's compilers write file(line): error: ... and quote the source in the lines below, set off by blanks.
_QUOTES_SOURCE = re.compile(
    r"^(?!.*internal compiler error)\S+:\d+(:\d+)?: .*$|^\s*\d* \|.*$|"
    r"^[^\n()]+\(\d+\): (?:catastrophic error|error|warning|remark|note)\b.*(?:\n[ \t]+.*)*$",
    re.MULTILINE,
)
_ERROR_LINE = re.compile(r"(?i)(^|[^\w-])\w*(error|fatal)\b[^:]{0,40}:|undefined reference to|cannot find |not found$")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: What a shell makes of a command that was ended by one of these signals.
_SHELL_CODES = {
    128 + signal.Signals[name]: int(signal.Signals[name])
    for name in ("SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV")
}


def clean(text: str, root: Path, source_folder: Path) -> str:
    """A log without colours, control characters and the names of scratch folders."""
    text = _CONTROL.sub("", _ESCAPES.sub("", text))
    for folder in (source_folder, root):
        text = text.replace(f"{folder}/", "")
    return text.replace(str(root), ".")


def tail(log: str, cap_bytes: int = LOG_TAIL_CAP_BYTES) -> str:
    """The end of a log, from the beginning of a line when there is one."""
    data = log.encode(errors="replace")
    if len(data) <= cap_bytes:
        return log
    end = data[-cap_bytes:].decode(errors="ignore")
    return end.partition("\n")[2] or end


def first_error(log: str) -> str:
    """The line that says what is wrong: the first that speaks of an error, else the first of all."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines.reverse()  # Python names the error after the calls that led to it
    found = next((line for line in lines if _ERROR_LINE.search(line)), lines[0] if lines else "")
    return found[:MESSAGE_CAP_CHARACTERS]


def judge(ending: Ending, log: str, limits: Limits, disk: Path) -> Failure:
    """The failure that an ending without a kernel stands for; ``log`` is the cleaned one."""
    if ending.outcome == "cancelled":
        return Failure("cancelled", "the compile was stopped", tail(log))
    if full := space_trouble(log, disk):
        return OwnTrouble("transient", full, tail(log))
    if trouble := _not_the_compilers_word(ending, log, limits) or _crash(ending, log):
        kind = OwnTrouble if ending.outcome == "not_started" else Failure
        return kind("transient", trouble, tail(log))
    said = first_error(log) or "the compiler said nothing"
    return Failure("rejected", f"{said} (exit code {ending.code})", tail(log))


def space_trouble(log: str, disk: Path) -> str | None:
    """The disk that a compiler's own words say is full."""
    said = _DISK_FULL.search(_QUOTES_SOURCE.sub("", log))
    return f"disk {mount_point(disk)} is full: {first_error(log)}"[:MESSAGE_CAP_CHARACTERS] if said else None


def _not_the_compilers_word(ending: Ending, log: str, limits: Limits) -> str | None:
    match ending.outcome:
        case "timeout":
            return f"the compiler was stopped after {limits.timeout_seconds:g} s ({limits.timeout_origin})"
        case "keeper_lost":
            return "the process that watches the compiler was killed"
        case "not_started":
            return f"the compiler could not be started: {first_error(log)}"
        case "signalled":
            return _by_signal(ending.signal or 0, ending)
        case _:
            return None


def _crash(ending: Ending, log: str) -> str | None:
    """A compiler that ended badly below a driver or a shell that ended well."""
    if ending.code in _SHELL_CODES:
        return _by_signal(_SHELL_CODES[ending.code], ending)
    if crash := _CRASHED.search(_QUOTES_SOURCE.sub("", log)) or _UNREADABLE.search(log):
        line = next(line for line in log.splitlines() if crash[0] in line)
        return f"the compiler crashed: {line.strip()[:MESSAGE_CAP_CHARACTERS]}"
    return None


def _by_signal(number: int, ending: Ending) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "a real-time signal"
    return f"the compiler was ended by signal {number} ({name}); largest process {ending.max_rss_kb >> 10} MB"
