"""A Python that has imported what the farm's processes need, and forks one for each request: no start-up to pay for.

python -P zygote.py      reads {"argv", "cwd", "env", "session"} with three descriptors from the socket on stdin

A request is a command line for ``python``: ``-m MODULE WORDS...`` or ``SCRIPT WORDS...``. What is forked becomes a
child of the process that asked (see ``forked.py``), which gets its process id once that is so. It ends as any Python
does: exit code, atexit, and a traceback for what nobody caught. Here one thread runs and obstore is never used, or
a fork would carry a broken state along.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any

MODULES = (
    "celery.bin.celery", "celery.apps.worker", "celery.worker.consumer", "celery.worker.strategy",
    "celery.backends.redis", "celery.fixups.django", "kombu.transport.redis", "farm.celery", "farm.client.connect",
    "farm.client.job", "farm.commands.progress", "farm.coordinator.loop", "farm.coordinator.messages",
    "farm.request.manifest", "farm.request.yaml_document", "farm.store.objects", "workers.pool", "workers.worker",
)  # fmt: skip
#: More than any request.
_REQUEST_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until the other end of the socket is closed."""
    for name in MODULES:
        import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        raise RuntimeError("an import has started a thread: a fork would lose it")
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, parent = socket.socket(fileno=os.dup(0)), os.getppid()
    while True:
        data, fds, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not data:
            return
        read_fd, write_fd = os.pipe()
        between = os.fork()
        if between == 0:
            requests.close()
            os.close(read_fd)
            break
        os.waitpid(between, 0)
        for fd in (write_fd, *fds):
            os.close(fd)
        requests.send(os.read(read_fd, 32))
        os.close(read_fd)
    if os.fork():
        os._exit(0)  # what is forked becomes a child of ``parent``, which is a subreaper now
    while os.getppid() != parent:
        time.sleep(0.0005)
    _become(json.loads(data), fds, write_fd)


def _become(request: dict[str, Any], fds: list[int], ready_fd: int) -> None:
    """Be that command line, to its end; what Popen promises is done before it hears of the process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.write(ready_fd, str(os.getpid()).encode())
    os.close(ready_fd)
    first, *words = request["argv"]
    if first == "-m":
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *words]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
