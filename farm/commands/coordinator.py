"""``celery -A farm coordinator``: keeps the cache inside its limits and serves purges; any number may run."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

import click
from celery.bin.base import handle_preload_options

from farm.commands.base import INTERRUPTED, FarmCommand


@click.command("coordinator", cls=FarmCommand)
@click.pass_context
@handle_preload_options
def coordinator(ctx: click.Context) -> None:
    """Run a coordinator: one of all that run leads, the others stand by. Ctrl-C stops it.

    The leader serves force purges one at a time, ages idle entries above the limits of its environment
    (ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO, FARM_MAX_TOTAL_SIZE_MB), acts on leases that
    ended, and deletes what was condemned.
    """
    from farm.celery import create  # noqa: PLC0415 - the command line loads fast
    from farm.client.connection import open_connection  # noqa: PLC0415
    from farm.coordinator.loop import Coordinator  # noqa: PLC0415
    from farm.coordinator.messages import Messages  # noqa: PLC0415
    from farm.settings import Settings  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s coordinator: %(message)s", stream=sys.stderr)
    connection = open_connection(Settings.read())
    stop, ended_by = threading.Event(), [0]

    def end(number: int, frame: object) -> None:
        ended_by[0] = number
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    Coordinator(connection, Messages(create(connection.addresses)), os.environ).run(stop)
    sys.exit(INTERRUPTED if ended_by[0] == signal.SIGINT else 0)
