"""``Popen`` and ``run`` for command lines of this Python, forked from a zygote: all is real but the start-up.

Tests of the start-up itself (shadowing folders, PYTHONPATH, other versions) take ``subprocess``.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ZYGOTE = Path(__file__).with_name("zygote.py")
_PR_SET_CHILD_SUBREAPER = 36


class Forked(subprocess.Popen[Any]):
    """A child of this process as any other; only the interpreter was there already.

    Its command line in /proc is the zygote's. It gets SIGTERM when this process ends.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._session = start_new_session
        super().__init__(argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=text)

    def _execute_child(self, args: Any, *told: Any) -> None:
        """Called by Popen once the pipes are made, with positional arguments only."""
        cwd, env = told[4:6]
        pipes = stdin, _, _, stdout, _, stderr = told[9:15]
        fds = [number if fd == -1 else fd for number, fd in enumerate((stdin, stdout, stderr))]
        request = {
            "argv": arguments(args), "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env),
            "session": self._session,
        }  # fmt: skip
        try:
            self.pid = _zygote().fork(request, fds)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(argv: Sequence[str], timeout: float = 60, **told: Any) -> subprocess.CompletedProcess[Any]:
    """Run to the end, as ``subprocess.run(capture_output=True)`` does: killed when the time is over."""
    with Forked(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **told) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def arguments(argv: Sequence[str]) -> list[str]:
    """What the interpreter is to run; of its own options only -P is known."""
    python, *rest = map(str, argv)
    assert python == sys.executable, f"not this Python: {python}"
    return rest[1:] if rest[0] == "-P" else rest


class _Zygote:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-P", "-u", str(_ZYGOTE), "for celery"], stdin=theirs)

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """The process id of a new child of this process."""
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            # Only now: what others leave behind goes to init, as ever.
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
                answer = self._socket.recv(32)
            finally:
                prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answer, f"could not be forked, see stderr: {request}"
        return int(answer)

    def close(self) -> None:
        """It ends when its socket does."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _zygote() -> _Zygote:
    """One for this process, started when it is first needed."""
    zygote = _Zygote()
    atexit.register(zygote.close)
    return zygote
