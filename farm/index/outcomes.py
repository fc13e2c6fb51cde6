"""What the operations of the index answer: a closed set of small rows, never a bare bool or string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from farm.index.record import ClaimRef, Record

FailureKind = Literal["rejected", "transient", "no_worker", "cancelled", "timeout"]


@dataclass(frozen=True)
class Failure:
    """Why an operator has no kernel; the message may hold one line for each attempt."""

    kind: FailureKind
    message: str
    log_tail: str = ""

    def pack(self) -> bytes:
        """The form in which scripts pass it on, without reading it."""
        return f"{self.kind}\n{self.message}\0{self.log_tail}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Failure:
        """Read what pack, or a script that joined the attempts, has written."""
        kind, _, rest = data.decode(errors="replace").partition("\n")
        message, _, log_tail = rest.partition("\0")
        return cls(kind, message, log_tail)  # type: ignore[arg-type]


# Answers of acquire, claim and announce, one a key.


class Hit(NamedTuple):
    """The entry exists and is pinned for the job from now on (a tuple: thousands are made a call)."""

    generation: int
    data: bytes

    @property
    def record(self) -> Record:
        """The entry's record, decoded only when it is looked at."""
        return Record.unpack(self.data)


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody is compiling it; the job is interested and will be told."""

    generation: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller's request is queued now: the caller owes one message to the queue."""

    generation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The job's answer is a failure and stays so; ``remembered`` when an earlier job ran into it."""

    failure: Failure
    remembered: bool


@dataclass(frozen=True, slots=True)
class Absent:
    """No entry, no claim, no failure; nothing is fixed by this answer: claim it."""


Answer = Hit | Joined | Claimed | Refused | Absent

# Answers about jobs.


@dataclass(frozen=True, slots=True)
class Membership:
    """The caller is a member of this incarnation; ``floor`` is the generation the job was promised."""

    incarnation: int
    generation: int
    floor: int
    members: int


@dataclass(frozen=True, slots=True)
class NotOpen:
    """The namespace has no meta: open it at the largest marker of the store, then ask again."""


@dataclass(frozen=True, slots=True)
class OtherMode:
    """The job runs in another mode, which belongs to the job: the caller's input is wrong."""

    mode: str


@dataclass(frozen=True, slots=True)
class UnknownJob:
    """The job, or this incarnation of it, is not there: announce what is held."""

    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """The lease on the sources is over, and nothing more was claimed: put them again under a new one, then claim."""


@dataclass(frozen=True, slots=True)
class Over:
    """Somebody has ended this incarnation of the job on purpose: it is not brought back."""

    how: Literal["cancelled", "released"]
    by: str


@dataclass(frozen=True, slots=True)
class Left:
    """The membership is over; others go on."""

    members: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The last member is out, or the job was ended for all: its map waits in the graveyard."""


# Answers to workers.


@dataclass(frozen=True, slots=True)
class Taken:
    """The claim runs under this token until the lease is over; ``attempt`` counts from 1."""

    claim: ClaimRef
    attempt: int
    request: bytes
    #: Epoch of the sources that the request names in the store; 0: it names none.
    sources: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is queued (or this delivery's claim is over): the message has done its work."""


@dataclass(frozen=True, slots=True)
class Published:
    """Readers see the entry from now on; call notify until nobody is left to tell."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim is not the caller's any more: drop the result, do not retry."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """The claim is queued again, ahead of others: the caller owes one message to the queue."""

    queue: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The failure is final; call notify until nobody is left to tell."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Nobody wanted the claim any more; it is gone."""
