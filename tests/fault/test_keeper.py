"""Nothing of a compile outlives its worker, whoever is killed and however the compiler behaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.keeping import Ending, Keeping, Limits

GONE_WITHIN_SECONDS = 5.0
#: A compiler behind a shell whose helpers hide: in sessions of their own, forked twice, deaf to SIGTERM.
HIDING = """
setsid sh -c 'trap "" TERM HUP INT; sleep 1001 & sleep 1002' &
(setsid sleep 1003 > /dev/null 2>&1 &)
sleep 1004
"""


class Mark:
    """Finds the processes of one compile by a variable that only their environment holds."""

    def __init__(self) -> None:
        self.value = f"COMPILE_MARK={uuid.uuid4().hex}"

    @property
    def env(self) -> dict[str, str]:
        name, _, value = self.value.partition("=")
        return {"PATH": os.environ["PATH"], name: value}

    def alive(self) -> list[str]:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if self.value.encode() in (folder / "environ").read_bytes():
                        found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                except OSError:
                    continue
        return found

    def wait_gone(self) -> list[str]:
        end_at = time.monotonic() + GONE_WITHIN_SECONDS
        while (alive := self.alive()) and time.monotonic() < end_at:
            time.sleep(0.01)
        return alive


@pytest.fixture
def mark() -> Iterator[Mark]:
    yield (mark := Mark())
    assert mark.wait_gone() == []


def start(argv: list[str], mark: Mark, cwd: Path, **limits: float) -> Keeping:
    return Keeping(argv, env=mark.env, cwd=cwd, limits=Limits(**({"timeout_seconds": 60} | limits)))  # type: ignore[arg-type]


def run(script: str, mark: Mark, cwd: Path, **limits: float) -> Ending:
    return start(["sh", "-c", script], mark, cwd, **limits).wait()


def wait_until_hidden(mark: Mark) -> None:
    """Wait until all four of HIDING's sleeping processes are there."""
    end_at = time.monotonic() + 20
    while sum(line.startswith("sleep 100") for line in mark.alive()) < 4:
        assert time.monotonic() < end_at, mark.alive()
        time.sleep(0.005)


def child_of(pid: int) -> int:
    """The only child of a keeper."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                return int(folder.name)
    raise AssertionError(f"process {pid} has no child")


def start_hiding(mark: Mark, cwd: Path) -> Keeping:
    keeping = start(["sh", "-c", HIDING], mark, cwd)
    wait_until_hidden(mark)
    return keeping


def test_the_outer_keeper_is_killed(mark: Mark, tmp_path: Path) -> None:
    keeping = start_hiding(mark, tmp_path)
    os.kill(keeping.pid, signal.SIGKILL)
    assert keeping.wait().outcome == "keeper_lost"
    assert mark.alive() == [], "wait() came back before everything was gone"


def test_the_inner_keeper_is_killed(mark: Mark, tmp_path: Path) -> None:
    keeping = start_hiding(mark, tmp_path)
    os.kill(child_of(keeping.pid), signal.SIGKILL)
    assert keeping.wait().outcome == "keeper_lost"
    assert mark.alive() == []


def test_the_worker_is_killed(mark: Mark, tmp_path: Path) -> None:
    worker = f"""
from pathlib import Path
from workers.keeping import Keeping, Limits
Keeping(["sh", "-c", {HIDING!r}], env={mark.env!r}, cwd=Path({str(tmp_path)!r}), limits=Limits(60)).wait()
"""
    process = subprocess.Popen([sys.executable, "-c", worker], cwd=Path(__file__).parents[2])
    wait_until_hidden(mark)
    process.kill()
    process.wait()
    assert mark.wait_gone() == []


def test_the_worker_is_killed_while_the_outer_keeper_is_stopped(mark: Mark, tmp_path: Path) -> None:
    keeping = start_hiding(mark, tmp_path)
    os.kill(keeping.pid, signal.SIGSTOP)
    keeping.cancel()
    assert mark.wait_gone() == []
    os.kill(keeping.pid, signal.SIGCONT)
    assert keeping.wait().outcome == "cancelled"


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_a_keeper_gets_sigterm(which: str, mark: Mark, tmp_path: Path) -> None:
    keeping = start_hiding(mark, tmp_path)
    os.kill(keeping.pid if which == "outer" else child_of(keeping.pid), signal.SIGTERM)
    assert keeping.wait().outcome == "cancelled"
    assert mark.alive() == []


def test_the_worker_cancels(mark: Mark, tmp_path: Path) -> None:
    keeping = start_hiding(mark, tmp_path)
    keeping.cancel()
    keeping.cancel()
    ending = keeping.wait()
    assert (ending.outcome, ending.code, ending.signal) == ("cancelled", None, None)
    assert mark.alive() == []


def test_the_time_limit(mark: Mark, tmp_path: Path) -> None:
    ending = run(HIDING, mark, tmp_path, timeout_seconds=0.5)
    assert ending.outcome == "timeout"
    assert 0.5 <= ending.seconds < 3
    assert mark.alive() == []


def test_a_compiler_that_turns_into_a_daemon(mark: Mark, tmp_path: Path) -> None:
    ending = run("(setsid sh -c 'sleep 1005; touch late' > /dev/null 2>&1 &); exit 0", mark, tmp_path)
    assert (ending.outcome, ending.code) == ("exited", 0)
    assert mark.alive() == []


def test_a_helper_that_keeps_the_output_open_does_not_delay_the_result(mark: Mark, tmp_path: Path) -> None:
    ending = run("setsid sleep 1006 & echo done; exit 3", mark, tmp_path)
    assert (ending.outcome, ending.code, ending.log) == ("exited", 3, "done\n")
    assert ending.seconds < 5


def test_a_compiler_that_ignores_sigterm(mark: Mark, tmp_path: Path) -> None:
    ending = run("trap '' TERM; sleep 1007; sleep 1008", mark, tmp_path, timeout_seconds=0.3)
    assert ending.outcome == "timeout"


def test_fifty_megabytes_of_log(mark: Mark, tmp_path: Path) -> None:
    script = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last; exit 1"
    ending = run(script, mark, tmp_path, log_head_bytes=1000, log_tail_bytes=2000)
    assert ending.log.startswith("first\nxxx")
    assert ending.log.endswith("xxx\nlast\n")
    assert ending.log_cut_bytes == len("first\n\nlast\n") + 50_000_000 - 3000
    assert f"[... {ending.log_cut_bytes} bytes cut ...]" in ending.log
    assert len(ending.log) < 3100


def test_output_without_end_does_not_hold_up_the_time_limit(mark: Mark, tmp_path: Path) -> None:
    ending = run("yes", mark, tmp_path, timeout_seconds=0.5, log_head_bytes=10, log_tail_bytes=10)
    assert ending.outcome == "timeout"
    assert ending.seconds < 5


def test_a_compiler_that_closes_its_output(mark: Mark, tmp_path: Path) -> None:
    ending = run("echo before; exec > /dev/null 2>&1; sleep 0.2; exit 5", mark, tmp_path)
    assert (ending.outcome, ending.code, ending.log) == ("exited", 5, "before\n")


def test_output_that_is_not_utf8(mark: Mark, tmp_path: Path) -> None:
    assert run("printf 'a\\377b'", mark, tmp_path).log == "a\ufffdb"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_compiler_that_dies_by_a_signal(number: signal.Signals, mark: Mark, tmp_path: Path) -> None:
    ending = run(f"kill -{int(number)} $$; sleep 1009", mark, tmp_path)
    assert (ending.outcome, ending.signal, ending.code) == ("signalled", number, None)
    assert list(tmp_path.iterdir()) == [], "it left a core file"


def test_a_compiler_that_can_not_be_started(mark: Mark, tmp_path: Path) -> None:
    missing = start(["/no/such/compiler"], mark, tmp_path).wait()
    assert missing.outcome == "not_started"
    assert "/no/such/compiler" in missing.log and "No such file" in missing.log
    assert start(["true"], mark, tmp_path / "absent").wait().outcome == "not_started"


def test_the_memory_limit_ends_what_passes_it_and_nothing_else(mark: Mark, tmp_path: Path) -> None:
    grab = [sys.executable, "-c", "import sys; x = bytearray(int(sys.argv[1]) << 20)"]
    assert start([*grab, "10"], mark, tmp_path, memory_mb=200).wait().code == 0
    passed = start([*grab, "400"], mark, tmp_path, memory_mb=200).wait()
    assert passed.code == 1
    assert "MemoryError" in passed.log


def test_what_a_compiler_finds_around_itself(mark: Mark, tmp_path: Path) -> None:
    show = (
        "import json, os, signal, resource;"
        "print(json.dumps([sorted(os.environ), os.getcwd(), os.read(0, 1).decode(),"
        "os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd'))),"
        "signal.getsignal(signal.SIGINT) != signal.SIG_IGN, resource.getrlimit(resource.RLIMIT_CORE)]))"
    )
    ending = start([sys.executable, "-I", "-S", "-c", show], mark, tmp_path).wait()
    environ, cwd, stdin, own_session, descriptors, sigint, core = json.loads(ending.log)
    assert environ == sorted([*mark.env, *(["LC_CTYPE"] if "LC_CTYPE" in environ else [])])
    assert cwd == str(tmp_path)
    assert (stdin, own_session, sigint, core) == ("", True, True, [0, 0])
    assert descriptors == [0, 1, 2, 3], "3 is the listing itself: nothing of the farm is handed down"


def test_sigpipe_is_not_ignored(mark: Mark, tmp_path: Path) -> None:
    assert run("yes | head -n 1 > /dev/null; echo ended", mark, tmp_path, timeout_seconds=5).log == "ended\n"


def test_many_at_once_do_not_hold_each_others_pipes(mark: Mark, tmp_path: Path) -> None:
    keepings = [start(["sleep", "1010"], mark, tmp_path) for _ in range(6)]
    for keeping in keepings:
        keeping.cancel()
        assert keeping.wait().outcome == "cancelled"


def test_a_killed_keeper_before_the_job_came(mark: Mark, tmp_path: Path) -> None:
    keeping = start(["sleep", "1011"], mark, tmp_path)
    os.kill(keeping.pid, signal.SIGKILL)
    assert keeping.wait().outcome == "keeper_lost"
