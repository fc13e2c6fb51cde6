"""``celery -A farm up``: the whole farm on this machine, in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import INTERRUPTED, FarmCommand

if TYPE_CHECKING:
    from farm.embedded.state import EmbeddedFarm


@click.command("up", cls=FarmCommand)
@click.option(
    "--workers", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="the cores", cls=CeleryOption,
    help_group="Embedded farm", help="Compiles at a time.",
)  # fmt: skip
@click.pass_context
@handle_preload_options
def up(ctx: click.Context, workers: int) -> None:
    """Run a farm on this machine: server, store, coordinator, planner, worker. Ctrl-C stops all of it.

    Other commands find it by FARM_STATE_DIR (default ~/.local/state/opfarm), whose data it keeps.
    """
    from farm.embedded.supervisor import run  # noqa: PLC0415 - the command line loads fast
    from farm.settings import Settings  # noqa: PLC0415

    number = run(Settings.read(), workers, _is_registered)
    sys.exit(INTERRUPTED if number == signal.SIGINT else 128 + number)


def _is_registered(farm: EmbeddedFarm) -> bool:
    from redis.exceptions import RedisError  # noqa: PLC0415

    from farm.client.connection import connect_index  # noqa: PLC0415
    from farm.index.registry import Registry  # noqa: PLC0415

    try:
        with connect_index(farm.index_url) as server:
            return bool(Registry(server).workers())
    except RedisError:
        return False
