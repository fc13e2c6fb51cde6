"""``celery -A farm cache export``: entries of this farm in one file, for another farm's ``cache import``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, json_option, write_json
from farm.commands.cache.group import cache, cache_option, named, size, soc_option
from farm.commands.cache.moving import Ticker, say, standard
from farm.errors import InputError

if TYPE_CHECKING:
    from farm.client.exporting import Exported


@cache.command("export", cls=FarmCommand)
@click.argument("file")
@cache_option
@soc_option
@click.option("--job", metavar="ID", cls=CeleryOption, help_group="Which", help="Only what this live job holds.")
@click.option("--overwrite", is_flag=True, cls=CeleryOption, help_group="Output", help="Replace FILE if it is there.")
@json_option
@click.pass_context
@handle_preload_options
def export(
    ctx: click.Context, file: str, cache: str | None, soc: str | None, job: str | None, overwrite: bool, as_json: bool
) -> None:
    """Write the shared entries of the current generation into FILE (- is stdout), to be imported at another farm.

    FILE is complete or not there. Nothing of the cache changes.
    """
    from farm.client.exporting import Exporting  # noqa: PLC0415 - the command line loads fast
    from farm.client.wholefile import whole_file  # noqa: PLC0415

    if file == "-" and as_json:
        raise InputError("--json and the archive can not both go to stdout", fix="give a file, or leave --json out")
    farm, indexes = named(cache, soc)
    exporting = Exporting(farm.connection, say, Ticker("written"))
    if file == "-":
        done = exporting.run(indexes, standard("stdout"), job)
        sys.stdout.buffer.flush()
    else:
        with whole_file(Path(file), overwrite) as archive:
            done = exporting.run(indexes, archive, job)
    document = _document(file, done)
    if as_json:
        write_json(document)
    else:
        _print(document, to_stderr=file == "-")


def _document(file: str, done: list[Exported]) -> dict[str, Any]:
    return {
        "file": file,
        "namespaces": [
            {
                "cache": one.namespace.cache, "soc": one.namespace.soc, "generation": one.generation,
                "entries": one.entries, "bytes": one.stored_bytes,
            }
            for one in done
        ],
        "entries": sum(one.entries for one in done),
        "bytes": sum(one.stored_bytes for one in done),
        "passed_over": [
            {"cache": one.namespace.cache, "soc": one.namespace.soc} | asdict(row) | {"key": row.key.hex()}
            for one in done
            for row in one.passed_over
        ],
    }  # fmt: skip


def _print(document: dict[str, Any], to_stderr: bool) -> None:
    for row in document["namespaces"]:
        where = f"{row['cache']}/{row['soc']}: generation {row['generation']}"
        click.echo(f"{where}, {row['entries']} entries ({size(row['bytes'])})", err=to_stderr)
    passed_over = len(document["passed_over"])
    more = f", {passed_over} passed over" if passed_over else ""
    click.echo(f"{document['entries']} entries exported ({size(document['bytes'])}){more}", err=to_stderr)
