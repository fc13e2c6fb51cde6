"""A compiler that tests can steer: its source is a JSON object that says what to do.

counter   file to which one line is appended for each run (so "compiled once" can be asserted)
seconds   how long it runs                      files   names and sizes of what it leaves
noise     the files are such that packing does not make them smaller
stamp     text put into every file              exit    exit code, after writing `say` to stderr
signal    signal with which it ends itself      helper  start a helper in a session of its own, for `helper` s
gate      path that must exist before it goes on
kills_worker  kill -9 the Celery worker above it, and wait
once      do as told only on the first run (a file beside the counter remembers it), then succeed
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    """Do what the source says."""
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    told = json.loads(source.read_text())
    if counter := told.get("counter"):
        with Path(counter).open("a") as file:
            file.write(f"{os.getpid()} {told.get('id', '')}\n")
    if "once" in told:
        try:
            Path(told["once"]).touch(exist_ok=False)
        except FileExistsError:
            told = {"files": told.get("files", {"kernel.o": 100}), "stamp": told.get("stamp", "")}
    if seconds := told.get("helper"):
        import subprocess  # seldom needed, and as slow to load as all the rest

        subprocess.Popen(["setsid", "sleep", str(seconds)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if told.get("kills_worker"):
        kill_worker()
    time.sleep(told.get("seconds", 0))
    while "gate" in told and not Path(told["gate"]).exists():
        time.sleep(0.02)
    if number := told.get("signal"):
        os.kill(os.getpid(), number)
    sys.stderr.write(told.get("say", ""))
    for name, size in told.get("files", {"kernel.o": 100}).items():
        stamp = (told.get("stamp", "") or told.get("id", "")).encode()
        body = os.urandom(size) if told.get("noise") else b"k" * size
        (out / name).write_bytes((stamp + b"\n" + body)[: max(size, 0)] if size else b"")
    return int(told.get("exit", 0))


def kill_worker() -> None:
    """Find the process above the keepers, and be killed by them in turn."""
    pid = os.getppid()
    while b"celery" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    time.sleep(600)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
