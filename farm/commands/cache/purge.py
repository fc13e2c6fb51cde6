"""``celery -A farm cache purge``: entries made before now serve nobody who asks later."""

from __future__ import annotations

import secrets
import sys
import time
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, json_option, write_json
from farm.commands.cache.group import cache, cache_option, named, size, soc_option
from farm.errors import FarmUnavailable, InputError

if TYPE_CHECKING:
    from farm.index.index import Index

_POLL_SECONDS = 0.1


@cache.command("purge", cls=FarmCommand)
@cache_option
@soc_option
@click.option("--yes", is_flag=True, cls=CeleryOption, help_group="Purge", help="Do not ask.")
@json_option
@click.pass_context
@handle_preload_options
def purge(ctx: click.Context, cache: str | None, soc: str | None, yes: bool, as_json: bool) -> None:
    """Purge the cache, or what --cache and --soc name: all is compiled anew when it is asked for again.

    Jobs that run keep what they use until they end. Purges of others that wait are served by the same one.
    """
    farm, indexes = named(cache, soc)
    _confirm(indexes, yes)
    deadline = time.monotonic() + farm.connection.settings.force_timeout_seconds
    asks = [(index, secrets.token_hex(8)) for index in indexes]
    reports = [_wait(index, ask, deadline) for index, ask in asks]
    if as_json:
        write_json({"purges": reports})
        return
    for report in reports:
        removed = f"{report['removed_entries']} entries ({size(report['removed_bytes'])})"
        where = f"{report['cache']}/{report['soc']}: generation {report['generation']}"
        click.echo(f"{where}; removed {removed}, kept {report['kept_entries']} in use")
        for holder in report["kept_for"]:
            labels = ", ".join(f"{name} {value}" for name, value in holder["owner"].items())
            click.echo(f"  kept for job {holder['job']} ({labels})")
    if not reports:
        click.echo("there is nothing to purge")


def _confirm(indexes: list[Index], yes: bool) -> None:
    if yes or not indexes:
        return
    names = ", ".join(str(index.namespace) for index in indexes)
    if not sys.stdin.isatty():
        raise InputError(f"purge of {names} is not confirmed", fix="give --yes, or run it in a terminal")
    if not click.confirm(f"Purge {names}?", err=True):
        raise InputError("not purged", fix="answer y, or give --yes")


def _wait(index: Index, ask: str, deadline: float) -> dict[str, Any]:
    from farm.index.purgelog import read_report  # noqa: PLC0415
    from farm.index.upkeep import Purged  # noqa: PLC0415

    while True:
        answer = index.ask_purge(ask)
        report = read_report(index, answer.generation) if isinstance(answer, Purged) else None
        if report is not None:
            where = {"id": ask, "cache": index.namespace.cache, "soc": index.namespace.soc}
            return where | report
        if time.monotonic() >= deadline:
            raise FarmUnavailable(
                f"no coordinator purged {index.namespace} in time",
                fix="start one with: celery -A farm coordinator   (see also FARM_FORCE_TIMEOUT_SECONDS)",
            )
        time.sleep(_POLL_SECONDS)
