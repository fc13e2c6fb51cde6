"""The embedded farm's own page in its state folder: who runs it, and where it is to be reached."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from farm.embedded.server import ping
from farm.errors import FarmRefused

FILE = "farm.json"
#: A server that died under a living supervisor is back within this time.
_RESTART_SECONDS = 3.0
#: A server that is there takes the connection at once; whether it answers, its clients find out.
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class EmbeddedFarm:
    """An embedded farm that is up."""

    host: str
    #: Process id of the supervisor.
    pid: int
    index_url: str
    broker_url: str
    result_url: str
    store_url: str
    #: ISO 8601, UTC.
    started: str


def read(state_dir: Path) -> EmbeddedFarm | None:
    """The farm that is up in a state folder; None when none is.

    One that runs is up, although its server may hang or be gone for longer: whoever asks that learns what is wrong.

    Raises:
        FarmRefused: the folder belongs to a farm on another host (its socket can not be reached from here),
            or the file in it is not ours.
    """
    farm = _load(state_dir)
    if farm is None:
        return None
    check_host(state_dir, farm)
    path = Path(urlsplit(farm.index_url).path)
    deadline = time.monotonic() + _RESTART_SECONDS
    while ping(path, _LOOK_SECONDS) == "gone":
        if not _lives(farm.pid):
            return None
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return farm


def claim(state_dir: Path) -> None:
    """Make the state folder (0700), and refuse one in which another host left a farm.

    Raises:
        FarmRefused: as ``read``, or the folder can not be made or written.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(state_dir, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise FarmRefused(
            f"the state folder {state_dir} can not be used: {error.strerror}",
            fix="set FARM_STATE_DIR to a folder of yours on a local disk",
        ) from None
    farm = _load(state_dir)
    if farm is not None:
        check_host(state_dir, farm)


def write(state_dir: Path, farm: EmbeddedFarm) -> None:
    """Say that the farm is up, in one step."""
    beside = state_dir / f"{FILE}.{os.getpid()}"
    beside.write_text(json.dumps(asdict(farm), indent=1) + "\n")
    beside.replace(state_dir / FILE)


def remove(state_dir: Path) -> None:
    """Say that no farm is up; only for the process that wrote it."""
    (state_dir / FILE).unlink(missing_ok=True)


def check_host(state_dir: Path, farm: EmbeddedFarm) -> None:
    """Refuse a farm of another host."""
    here = socket.gethostname()
    if farm.host != here:
        raise FarmRefused(
            f"the farm in {state_dir} runs on host {farm.host}; this is {here}, which can not reach it",
            fix=f"set FARM_INDEX_URL and FARM_STORE_URL to a farm that both can reach, or FARM_STATE_DIR to "
            f"another folder; if {farm.host} is gone for good, remove {state_dir / FILE}",
        )


def _load(state_dir: Path) -> EmbeddedFarm | None:
    try:
        text = (state_dir / FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _not_ours(state_dir, str(error)) from None
    try:
        row = json.loads(text)
        farm = EmbeddedFarm(**row)
    except TypeError:  # it would name whatever it has met
        raise _not_ours(state_dir, "its fields are others") from None
    except (ValueError, RecursionError) as error:
        raise _not_ours(state_dir, str(error)) from None
    texts = [row[name] for name in row if name != "pid"]
    if not isinstance(farm.pid, int) or not all(isinstance(text, str) and text.isprintable() for text in texts):
        raise _not_ours(state_dir, "a value has the wrong type")
    return farm


def _not_ours(state_dir: Path, cause: str) -> FarmRefused:
    return FarmRefused(
        f"{state_dir / FILE} is not the page of an embedded farm: {cause}",
        fix="set FARM_STATE_DIR to another folder, or remove the file",
    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
