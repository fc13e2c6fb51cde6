"""``up`` without Celery: what it starts, restarts and stops, with a stand-in for the worker and the real server."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from farm.client.connection import open_connection
from farm.embedded import state
from farm.embedded.server import ping
from farm.embedded.state import EmbeddedFarm
from farm.errors import FarmUnavailable
from farm.settings import Settings

# A worker that says that it lives, and ends as its environment says.
WORKER = """
import os, signal, sys, time
from pathlib import Path
with open("lives", "a") as lives:
    lives.write(f"{os.getpid()}\\n")
if os.environ["STAND_IN"] == "dies":
    sys.exit("first line\\nlast line")
if os.environ["STAND_IN"].startswith("Error: "):
    print(os.environ["STAND_IN"], file=sys.stderr, flush=True)
    sys.exit(2)
if os.environ["STAND_IN"] == "mute":
    sys.exit(2)
if os.environ["STAND_IN"] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path("registered").write_text("")
time.sleep(600)
"""

UP = f"""
import sys
from farm.embedded import part, supervisor
from farm.errors import FarmError
from farm.settings import Settings
part.part_argv = lambda workers: {{"worker": [sys.executable, "-c", {WORKER!r}]}}
supervisor.WORKER_STOP_SECONDS = float(sys.argv[1])
settings = Settings.read()
try:
    number = supervisor.run(settings, 3, lambda farm: (settings.state_dir / "registered").exists())
    print("signal", number)
except FarmError as error:
    print(type(error).__name__, error.message, "[" + error.fix + "]")
print("celery" in sys.modules)
"""


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


class Up:
    """A running ``up``."""

    def __init__(self, state_dir: Path, stand_in: str = "good", stop_seconds: float = 5) -> None:
        self.dir = state_dir
        self.log = state_dir.parent / f"stderr-{len(list(state_dir.parent.glob('stderr-*')))}"
        with self.log.open("x") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", UP, str(stop_seconds)],
                env=os.environ | {"FARM_STATE_DIR": str(state_dir), "STAND_IN": stand_in},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def said(self) -> str:
        return self.log.read_text()

    def wait_ready(self) -> EmbeddedFarm:
        until(lambda: "ready" in self.said(), "ready line")
        farm = state.read(self.dir)
        assert farm
        return farm

    def workers(self) -> list[int]:
        return [int(pid) for pid in (self.dir / "lives").read_text().split()]

    def server_pid(self) -> int:
        return int((self.dir / "server" / "server.pid").read_text())

    def end(self) -> list[str]:
        out, _ = self.process.communicate(timeout=20)
        return out.splitlines()


@pytest.fixture
def up(state_dir: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(**how: object) -> Up:
        started.append(Up(state_dir, **how))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
            one.process.send_signal(signal.SIGTERM)
            one.process.communicate(timeout=20)


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"not within 20 s: {what}"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_up_is_found_and_ctrl_c_stops_all(up, state_dir: Path) -> None:
    one = up()
    farm = one.wait_ready()
    assert (farm.host, farm.pid) == (socket.gethostname(), one.process.pid)
    assert farm.store_url == (state_dir / "store").as_uri()
    assert (state_dir / "store").stat().st_mode & 0o777 == 0o750
    assert state_dir.stat().st_mode & 0o777 == 0o700
    path = urlsplit(farm.index_url).path
    assert farm.index_url == f"unix://{path}"
    assert farm.broker_url == f"redis+socket://{path}?virtual_host=1"
    assert farm.result_url == f"redis+socket://{path}?virtual_host=2"
    assert re.search(r"ready: 3 compile slots; index unix:///.*/s, store file:///", one.said())
    (worker,), server = one.workers(), one.server_pid()
    one.process.send_signal(signal.SIGINT)
    assert one.end() == [f"signal {signal.SIGINT.value}", "False"]
    assert not lives(worker)
    assert not lives(server)
    assert state.read(state_dir) is None
    assert not (state_dir / "farm.json").exists()
    assert not Path(path).exists()


def test_a_killed_worker_is_started_again(up) -> None:
    one = up()
    one.wait_ready()
    os.kill(one.workers()[0], signal.SIGKILL)
    until(lambda: len(one.workers()) == 2, "a second worker")
    assert "the worker ended with code -9; starting it again (1 in a minute)" in one.said()


def test_a_killed_server_is_back_at_the_same_address(up, state_dir: Path) -> None:
    one = up()
    farm = one.wait_ready()
    first = one.server_pid()
    os.kill(first, signal.SIGKILL)
    # A client that asks in this moment waits for the restart instead of finding no farm.
    assert state.read(state_dir) == farm
    assert one.server_pid() != first
    assert "the server ended with code -9; starting it again (1 in a minute)" in one.said()


def test_a_worker_that_dies_again_and_again_ends_all(up, state_dir: Path) -> None:
    one = up(stand_in="dies")
    (told, _) = one.end()
    often = "the worker ended with code 1, 6 times within 60 s: first line / last line"
    assert told.startswith(f"FarmUnavailable {often}")
    assert len(one.workers()) == 6
    assert "ready" not in one.said()
    assert state.read(state_dir) is None


@pytest.mark.parametrize(
    ("stand_in", "told"),
    [
        ("Error: FARM_X is wrong", "FARM_X is wrong [see {log}]"),
        ("Error: FARM_X is wrong\nFix: unset it", "FARM_X is wrong [unset it]"),
        ("mute", "it wrote no log [see {log}]"),
    ],
)
def test_wrong_input_of_a_worker_ends_all_at_once_and_is_told(up, state_dir: Path, stand_in: str, told: str) -> None:
    state_dir.mkdir()
    (state_dir / "worker.log").write_text("Error: what another one said, long ago\n")
    one = up(stand_in=stand_in)
    assert one.end()[0] == f"InputError the worker ended with code 2: {told.format(log=state_dir / 'worker.log')}"
    assert len(one.workers()) == 1
    assert state.read(state_dir) is None


def test_a_server_that_hangs_is_no_farm_that_is_gone(up, state_dir: Path) -> None:
    one = up()
    farm = one.wait_ready()
    server = one.server_pid()
    os.kill(server, signal.SIGSTOP)
    assert state.read(state_dir) == farm
    with pytest.raises(FarmUnavailable, match=f"{farm.index_url} does not answer"):
        open_connection(Settings.read({"FARM_STATE_DIR": str(state_dir)}))
    told = up().end()[0]
    assert f"FarmRefused an embedded farm is up in {state_dir} already, but its server (process {server})" in told
    assert f"kill -9 {server}" in told
    os.kill(server, signal.SIGKILL)  # what it says to do helps
    until(lambda: server_answers(farm), "the server is started again")


def server_answers(farm: EmbeddedFarm) -> bool:
    return ping(Path(urlsplit(farm.index_url).path)) == "up"


def test_a_stubborn_worker_is_killed_after_its_time(up) -> None:
    one = up(stand_in="stubborn", stop_seconds=0.3)
    one.wait_ready()
    one.process.send_signal(signal.SIGTERM)
    assert one.end()[0] == f"signal {signal.SIGTERM.value}"
    assert not lives(one.workers()[0])


def test_a_second_ctrl_c_does_not_wait(up, state_dir: Path) -> None:
    one = up(stand_in="stubborn", stop_seconds=600)
    one.wait_ready()
    one.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert one.process.poll() is None
    one.process.send_signal(signal.SIGINT)
    assert one.end()[0] == f"signal {signal.SIGINT.value}"


def test_a_second_up_in_the_folder_is_refused(up, state_dir: Path) -> None:
    first = up()
    farm = first.wait_ready()
    assert up().end()[0].startswith(f"FarmRefused an embedded farm is up in {state_dir} already [use it")
    assert state.read(state_dir) == farm


def test_a_killed_up_takes_all_along_and_the_next_one_finds_the_data(up, state_dir: Path) -> None:
    one = up()
    farm = one.wait_ready()
    (worker,), server = one.workers(), one.server_pid()
    one.process.kill()
    one.end()
    until(lambda: not lives(worker) and not lives(server), "worker and server end")
    assert (state_dir / "farm.json").exists()
    assert state.read(state_dir) is None
    (state_dir / "registered").unlink()
    assert up().wait_ready().index_url == farm.index_url
