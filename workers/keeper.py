"""Runs one compiler below two keepers, so that nothing of it outlives its worker.

    worker ──── stdin: the job, then held open as long as the compile is wanted ────► outer keeper
       ▲                                                                                  │ down: held open
       └──── stdout: one JSON line; closed when both keepers are gone ◄───────────────────┤ up: report
                                                                                     inner keeper
                                                                                          │ log
                                                                      the compiler and all that it starts

Both keepers are child subreapers: what a dead process leaves behind becomes a child of the nearest keeper,
in whatever session it runs. Each ends everything below it when what is above it goes, on SIGTERM, at the time
limit and when the process that it watches has ended:

    killed -9     who notices                          who cleans up
    worker        both keepers: stdin ended            both
    outer keeper  inner: the pipe from above ended     inner
    inner keeper  outer: its child has ended           outer, to whom the processes come

A script of its own that needs the standard library only: ``python -I -S keeper.py``, started by path, so that
nothing of the worker is imported and a start costs some 25 ms.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: The outer keeper's own time limit is this much longer: it only matters when the inner one is stuck.
INNER_GRACE_SECONDS = 10.0
#: Python ignores two of these for itself, and nohup hands others down; compilers expect neither.
RESET_SIGNALS = ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGCHLD")


class Output:
    """The beginning and the end of an output of any length."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self.head, self.tail = bytearray(), bytearray()
        self.head_bytes, self.tail_bytes = head_bytes, tail_bytes
        self.seen_bytes = 0

    def add(self, data: bytes) -> None:
        """Keep what fits into the head, then the last of the rest."""
        self.seen_bytes += len(data)
        room_bytes = self.head_bytes - len(self.head)
        self.head += data[:room_bytes]
        self.tail += data[room_bytes:]
        if len(self.tail) > 2 * self.tail_bytes + 65536:
            del self.tail[: len(self.tail) - self.tail_bytes]

    def joined(self) -> tuple[bytes, int]:
        """Head and tail with a line between them that says how much is missing, and that number."""
        tail = self.tail[max(0, len(self.tail) - self.tail_bytes) :]
        cut_bytes = self.seen_bytes - len(self.head) - len(tail)
        gap = b"\n[... %d bytes cut ...]\n" % cut_bytes if cut_bytes else b""
        return bytes(self.head + gap + tail), cut_bytes


def read_ready(fd: int) -> bytes | None:
    """What a pipe that does not block holds now: None when nothing, b"" when its other side has gone."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None


def children() -> list[int]:
    """The direct children. Only they are ever signalled: their ids are not reused before we wait for them."""
    found, me = [], os.getpid()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  (pathlib would double the start-up)
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == me:
            found.append(int(name))
    return found


def reap(statuses: dict[int, int]) -> bool:
    """Note the status of every child that has ended; False when there is no child at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        statuses[pid] = status


def kill_all_below(statuses: dict[int, int]) -> None:
    """Kill children until there are none: what a killed one had started becomes our child and is next."""
    pause_seconds = 0.0005
    while reap(statuses):
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        time.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, 0.05)


class Signals:
    """SIGCHLD and SIGTERM as a readable descriptor, so that one poll sees everything."""

    def __init__(self) -> None:
        self.terminated = False
        self.fd, write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, *_: object) -> None:
        self.terminated = True


def watch(child: int, output: Output, output_fd: int, above: tuple[int, ...], end_at: float) -> tuple[str, int]:
    """Collect output until the child has ended or must end, then end all; returns outcome, wait status."""
    signals, statuses = Signals(), {}  # type: tuple[Signals, dict[int, int]]
    os.set_blocking(output_fd, False)
    poll = select.poll()
    for fd in (signals.fd, output_fd, *above):
        poll.register(fd, select.POLLIN)
    outcome = "exited"
    while outcome == "exited" and reap(statuses) and child not in statuses:
        left_ms = max(0.0, end_at - time.monotonic()) * 1000
        ready = {fd for fd, _ in poll.poll(min(left_ms + 1, 1_000_000))}
        if signals.fd in ready:
            read_ready(signals.fd)
        if output_fd in ready and (data := read_ready(output_fd)) is not None:
            output.add(data)
            if not data:
                poll.unregister(output_fd)
        if signals.terminated or any(not os.read(fd, 4096) for fd in above if fd in ready):
            outcome = "cancelled"
        elif time.monotonic() >= end_at:
            outcome = "timeout"
    kill_all_below(statuses)
    while data := read_ready(output_fd):
        output.add(data)
    return outcome, statuses[child]


def report(outcome: str, status: int, start: float, output: Output) -> str:
    """The JSON line that the worker gets."""
    outcome = "signalled" if outcome == "exited" and os.WIFSIGNALED(status) else outcome
    log, cut_bytes = output.joined()
    fields = {
        "outcome": outcome,
        "code": os.WEXITSTATUS(status) if outcome == "exited" else None,
        "signal": os.WTERMSIG(status) if outcome == "signalled" else None,
        "seconds": round(time.monotonic() - start, 6),
        "max_rss_kb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        "log": log.decode(errors="replace"),
        "log_cut_bytes": cut_bytes,
    }
    return json.dumps(fields) + "\n"


def exec_compiler(job: dict[str, Any], log_fd: int, failure_fd: int) -> None:
    """Become the compiler; only ever ends this process, the reason in the failure pipe."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for name in RESET_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.umask(0o022)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.chdir(job["cwd"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if job["memory_mb"] is not None:
            limit_bytes = job["memory_mb"] << 20
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        os.execvpe(job["argv"][0], job["argv"], job["env"])
    except BaseException as error:
        os.write(failure_fd, f"{job['argv'][0]}: {error}".encode(errors="replace")[:4096])
    finally:
        os._exit(127)


def run_inner(job: dict[str, Any], above: tuple[int, ...], up_fd: int) -> None:
    """Start the compiler, watch it, and report upwards once nothing of it is left."""
    start = time.monotonic()
    log_fd, log_write_fd = os.pipe()
    failure_fd, failure_write_fd = os.pipe()
    compiler = os.fork()
    if compiler == 0:
        exec_compiler(job, log_write_fd, failure_write_fd)
    os.close(log_write_fd)
    os.close(failure_write_fd)
    log = Output(job["log_head_bytes"], job["log_tail_bytes"])
    outcome, status = watch(compiler, log, log_fd, above, start + job["timeout_seconds"])
    if not_started := os.read(failure_fd, 4096):
        outcome = "not_started"
        log.add(not_started)
    try:
        with os.fdopen(up_fd, "w") as up:
            up.write(report(outcome, status, start, log))
    except BrokenPipeError:
        pass  # the outer keeper has gone: nobody wants the report


def main() -> int:
    """Read the job, fork the inner keeper, pass its report on; nothing is left below when this returns."""
    job = json.loads(sys.stdin.buffer.readline() or "null")
    if job is None:
        return 1
    start = time.monotonic()
    down_fd, down_write_fd = os.pipe()
    up_fd, up_write_fd = os.pipe()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    inner = os.fork()
    if inner == 0:
        os.close(down_write_fd)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        run_inner(job, (0, down_fd), up_write_fd)
        os._exit(0)
    os.close(up_write_fd)
    passed_on = Output(1 << 30, 0)
    outcome, status = watch(inner, passed_on, up_fd, (0,), start + job["timeout_seconds"] + INNER_GRACE_SECONDS)
    line, _ = passed_on.joined()
    if not line.endswith(b"\n"):
        outcome = "keeper_lost" if outcome == "exited" else outcome
        line = report(outcome, status, start, Output(0, 0)).encode()
    try:
        os.write(1, line)
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
