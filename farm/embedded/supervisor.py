"""``celery -A farm up``: starts the parts of the embedded farm, keeps them running, and stops them together.

Celery is never imported here, so the server answers within a tenth of a second; the worker is a process of its
own. Whatever way this process ends, its parts end with it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from farm.embedded import part, server, state
from farm.embedded.child import end_children, last_words
from farm.embedded.part import Part
from farm.embedded.state import EmbeddedFarm
from farm.errors import FarmRefused, FarmUnavailable, InputError
from farm.settings import Settings, sibling_url

#: A part that ends this often within this time will not get better.
RESTARTS, RESTART_WINDOW_SECONDS = 5, 60.0
LONGEST_PAUSE_SECONDS = 10.0
#: A worker gives its claims back and ends its compilers in this time, or is killed.
WORKER_STOP_SECONDS = 10.0

_TICK_SECONDS = 0.1


def run(settings: Settings, workers: int, registered: Callable[[EmbeddedFarm], bool]) -> int:
    """Run the embedded farm until SIGINT, SIGTERM or SIGHUP; a second one does not wait for the worker.

    Args:
        settings: ``state_dir`` says where; without ``store_url`` the store is a folder in it.
        workers: how many compiles at a time.
        registered: whether the worker can be given work; asked until it says so, then the farm is ready.

    Returns:
        The number of the signal that ended it.

    Raises:
        InputError: the settings name a farm elsewhere, so no command would use this one.
        FarmRefused: one is up in this state folder already, here or on another host.
        FarmUnavailable: a part does not start, or ends again and again.
    """
    if settings.index_url is not None:
        raise InputError(
            "FARM_INDEX_URL is set: commands would use that farm and not this one",
            fix="unset FARM_INDEX_URL to use an embedded farm",
        )
    state.claim(settings.state_dir)
    with _only_one(settings.state_dir), _signals() as stop:
        supervisor = _Supervisor(settings, workers, registered)
        try:
            supervisor.start()
            while True:
                supervisor.tick()
                time.sleep(_TICK_SECONDS)
        except _Stopped as stopped:
            return stopped.number
        finally:
            stop.stopping = True
            supervisor.stop(lambda: stop.hurry)
            _say("stopped")


class _Stopped(BaseException):
    """A signal asked the farm to end."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Supervisor:
    def __init__(self, settings: Settings, workers: int, registered: Callable[[EmbeddedFarm], bool]) -> None:
        self._settings = settings
        self._workers = workers
        self._registered = registered
        self._dir = settings.state_dir
        self._ready = False
        self._ends: dict[str, deque[float]] = defaultdict(deque)
        self._server: server.Server | None = None
        #: What runs beside the server, by name, in the order in which it is ended.
        self._parts: dict[str, Part] = {}
        #: When a part that ended is started again.
        self._start_at: dict[str, float] = {}
        self._farm: EmbeddedFarm | None = None

    def start(self) -> None:
        self._server = server.start(self._dir / "server")
        index_url = self._server.url
        self._farm = EmbeddedFarm(
            host=socket.gethostname(),
            pid=os.getpid(),
            index_url=index_url,
            broker_url=self._settings.broker_url or sibling_url(index_url, 1),
            result_url=self._settings.result_url or sibling_url(index_url, 2),
            store_url=self._settings.store_url or self._make_store(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        state.write(self._dir, self._farm)
        for name in part.part_argv(self._workers):
            self._start_part(name)

    def tick(self) -> None:
        assert self._server and self._farm
        if not self._server.is_up():
            self._count_end("server", self._server.process, self._dir / "server" / server.LOG)
            self._server = server.start(self._dir / "server")
        for name, one in self._parts.items():
            if one.process.poll() is None:
                continue
            if name not in self._start_at:
                self._start_at[name] = time.monotonic() + self._part_ended(name, one)
            if time.monotonic() >= self._start_at[name]:
                del self._start_at[name]
                self._start_part(name)
        if not self._ready and self._is_registered(self._farm):
            self._ready = True
            _say(
                f"ready: {self._workers} compile slots; index {self._farm.index_url}, "
                f"store {self._farm.store_url}, logs in {self._dir}; Ctrl-C stops all"
            )

    def stop(self, hurry: Callable[[], bool]) -> None:
        end_children([one.process for one in self._parts.values()], WORKER_STOP_SECONDS, hurry)
        if self._farm:
            state.remove(self._dir)
        if self._server:
            self._server.stop()

    def _make_store(self) -> str:
        folder = self._dir / "store"
        folder.mkdir(mode=0o750, exist_ok=True)
        return folder.as_uri()

    def _start_part(self, name: str) -> None:
        assert self._farm
        environment = part.worker_environment(self._settings, self._farm, os.environ)
        self._parts[name] = part.start(part.part_argv(self._workers)[name], self._dir / f"{name}.log", environment)

    def _is_registered(self, farm: EmbeddedFarm) -> bool:
        try:
            return self._registered(farm)
        except FarmUnavailable:
            return False  # the server is just being started again

    def _part_ended(self, name: str, ended: Part) -> float:
        """Returns after how many seconds it is started again.

        Raises:
            InputError: its settings or input are wrong, and were so from the beginning.
        """
        if ended.process.returncode == part.WRONG_INPUT and not self._ready:
            cause, fix = ended.complaint()
            raise InputError(f"the {name} ended with code {part.WRONG_INPUT}: {cause}", fix=fix)
        return self._count_end(name, ended.process, ended.log, ended.log_start_bytes)

    def _count_end(
        self, name: str, process: subprocess.Popen[bytes] | None, log: Path, log_start_bytes: int = 0
    ) -> float:
        """Say that something has ended. Returns after how many seconds it is started again: longer each time.

        A farm that was ready does not give up its parts because a disk is full for a while.
        """
        how = f"ended with code {process.returncode}" if process else "ended"
        ends, now = self._ends[name], time.monotonic()
        ends.append(now)
        while ends[0] < now - RESTART_WINDOW_SECONDS:
            ends.popleft()
        if len(ends) > RESTARTS and (name == "server" or not self._ready):
            often = f"{len(ends)} times within {RESTART_WINDOW_SECONDS:g} s"
            raise FarmUnavailable(f"the {name} {how}, {often}: {last_words(log, log_start_bytes)}", fix=f"see {log}")
        pause = 0.0 if len(ends) == 1 else min(LONGEST_PAUSE_SECONDS, 0.25 * 2 ** (len(ends) - 1))
        after = f" in {pause:g} s" if pause else ""
        _say(f"the {name} {how}; starting it again{after} ({len(ends)} in a minute); see {log}")
        return pause


class _Signals:
    #: Set when the parts are being stopped: from then on a signal means "do not wait".
    stopping = False
    hurry = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.stopping:
            self.stopping = True
            raise _Stopped(number)
        self.hurry = True


@contextmanager
def _signals() -> Iterator[_Signals]:
    handler = _Signals()
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield handler
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def _only_one(state_dir: Path) -> Iterator[None]:
    with (state_dir / "up.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _up_already(state_dir) from None
        yield


def _up_already(state_dir: Path) -> FarmRefused:
    up = f"an embedded farm is up in {state_dir} already"
    if hung := server.hung_process(state_dir / "server"):
        return FarmRefused(
            f"{up}, but its server (process {hung}) does not answer",
            fix=f"if it hangs for good, end it with: kill -9 {hung}; the farm starts it again",
        )
    return FarmRefused(up, fix="use it: commands find it by themselves; or set FARM_STATE_DIR to another folder")


def _say(line: str) -> None:
    sys.stderr.write(f"opfarm: {line}\n")
    sys.stderr.flush()
