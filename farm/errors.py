"""Every error a user can meet, in one tree.

FarmError                 code, message, fix, exit_code
├── InputError      (2)   the request, the manifest or an option is wrong: the submitter mends it
├── FarmUnavailable (3)   the index, the store or a worker can not be reached: the operator mends it
├── FarmRefused     (3)   it can be reached, but must not be used as it is set up
├── NodeDiskFull    (1)   a disk of this node is full: another farm, or none, would meet it too
├── CompileFailed   (1)   an operator failed and the caller asked for an exception
└── JobEnded        (1)   somebody cancelled or released the job while its members worked
"""

from __future__ import annotations


class FarmError(Exception):
    """An error with a cause and a way out, shown as one line and never as a traceback."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} ({self.fix})" if self.fix else self.message

    def __reduce__(self) -> tuple[type[FarmError], tuple[str, str]]:
        return type(self), (self.message, self.fix)


class InputError(FarmError):
    """The request is wrong; names file, operator and field; the submitter mends it."""

    code = "input"
    exit_code = 2


class FarmUnavailable(FarmError):
    """Index, store or broker did not answer; nothing is known about the effect of the last call."""

    code = "unavailable"
    exit_code = 3


class FarmRefused(FarmError):
    """The farm answered, but using it as it is set up would break a promise; the operator mends it."""

    code = "refused"
    exit_code = 3


class NodeDiskFull(FarmError):
    """A folder of this node can not be written for want of space; names the disk. Nothing readable was left behind."""

    code = "disk_full"


class CompileFailed(FarmError):
    """At least one operator failed and the caller had asked for an exception (``check=True``)."""

    code = "compile_failed"
    exit_code = 1


class JobEnded(FarmError):
    """Somebody has ended the job on purpose; its members end too, and may not bring it back."""

    code = "job_ended"
    exit_code = 1
