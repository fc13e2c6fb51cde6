"""What tests fork instead of starting it: it says, ends and is ended as the process that it stands for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.forked import Forked, run
from tests.support.kit import CELERY, children_of, until

FORKED = Path(__file__).parents[1] / "support" / "forked.py"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


@pytest.mark.parametrize("words", [["local", "ls", "--json"], ["submit", "nowhere"]])
def test_a_command_says_and_ends_the_same(tmp_path: Path, words: list[str]) -> None:
    env = os.environ | {"HOME": str(tmp_path), "FARM_STATE_DIR": str(tmp_path)}
    real = subprocess.run([*CELERY, *words], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    done = run([*CELERY, *words], env=env, cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (real.returncode, real.stdout, real.stderr)
    assert done.stdout + done.stderr


def test_what_nobody_catches_is_a_traceback_and_1(script: Path) -> None:
    script.write_text("import atexit\natexit.register(print, 'at exit')\nprint('said')\nraise ValueError('oh')\n")
    done = run([sys.executable, str(script)], text=True)
    assert (done.returncode, done.stdout) == (1, "said\nat exit\n")
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("ValueError: oh\n")


def test_surroundings_are_those_that_are_given(script: Path, tmp_path: Path) -> None:
    script.write_text(
        "import os, sys, threading\n"
        "print(sys.argv[1:], os.getcwd(), dict(os.environ), sys.stdin.read(), os.getsid(0) == os.getpid(),"
        " os.getppid(), threading.active_count(), sorted(os.listdir('/proc/self/fd'))[:4])\n"
    )
    process = Forked(
        [sys.executable, "-P", str(script), "a", "b c"], cwd=tmp_path, env={"X": "1"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.pid in children_of(os.getpid())
    stdout, _ = process.communicate("typed")
    fds = ["0", "1", "2", "3"]  # the last lists the folder
    assert stdout == f"{['a', 'b c']} {tmp_path} {{'X': '1'}} typed True {os.getpid()} 1 {fds}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it(script: Path, number: int) -> None:
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    with Forked([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(10) == -number


def test_it_is_killed_when_its_time_is_over(script: Path, tmp_path: Path) -> None:
    script.write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run([sys.executable, str(script)], timeout=0.5)
    assert time.monotonic() - started < 10
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_nothing_outlives_the_process_that_asked(script: Path, tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(600)\n")
    script.write_text(
        f"import runpy, sys, time\nforked = runpy.run_path({str(FORKED)!r})\n"
        f"print(forked['Forked']([sys.executable, {str(tmp_path / 'sleeps.py')!r}]).pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as asked:
        assert asked.stdout
        pids = {int(asked.stdout.readline()), *children_of(asked.pid)}
        assert len(pids) == 2, "the zygote and what it has forked"
        asked.kill()
    until(lambda: not any(lives(pid) for pid in pids), what="both are gone")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
