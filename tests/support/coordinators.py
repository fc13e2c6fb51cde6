"""Starts coordinators in no time, for tests: they are forked from a process that has imported everything.

python coordinators.py      reads FAILPOINT lines ("name:kill", or "-" for none), prints the process id of each
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from farm.celery import create
from farm.client.connection import open_connection
from farm.coordinator.loop import Coordinator
from farm.coordinator.messages import Messages
from farm.failpoint import VARIABLE
from farm.settings import Settings


def main() -> None:
    """Fork one for each line, until stdin closes; then they end too."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _coordinate(line.strip())
        children.append(child)
        print(child, flush=True)  # noqa: T201
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _coordinate(failpoint: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(0)
    if failpoint != "-":
        os.environ[VARIABLE] = failpoint
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} {failpoint}: %(message)s")
    connection = open_connection(Settings.read())
    Coordinator(connection, Messages(create(connection.addresses)), os.environ).run(threading.Event())
    os._exit(0)


if __name__ == "__main__":
    main()
