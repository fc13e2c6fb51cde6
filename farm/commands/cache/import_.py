"""``celery -A farm cache import``: entries that another farm has exported become entries of this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, fail, json_option, write_json
from farm.commands.cache.group import cache as cache_group
from farm.commands.cache.group import size
from farm.commands.cache.moving import Ticker, say, standard
from farm.errors import InputError

if TYPE_CHECKING:
    from farm.client.importing import Report

_SHOWN_DIGITS = 12


@cache_group.command("import", cls=FarmCommand)
@click.argument("file")
@click.option(
    "--cache", cls=CeleryOption, help_group="Which", help="Put all into this cache (default: where they came from)."
)
@json_option
@click.pass_context
@handle_preload_options
def import_(ctx: click.Context, file: str, cache: str | None, as_json: bool) -> None:
    """Verify the entries of FILE (- is stdin) and put those into the cache that it has not got.

    What is there is never replaced. Run again after an interruption, it goes on where it was. Exit 1 when something in
    FILE was damaged, or not all of it was read; what is good has landed.
    """
    import farm  # noqa: PLC0415 - the command line loads fast
    from farm.client.importing import Importing  # noqa: PLC0415

    with _opened(file) as archive:
        report = Importing(farm.connect().connection, cache, say, Ticker("imported or present")).run(archive)
    document = _document(file, report)
    if as_json:
        write_json(document)
    else:
        _print(document)
        if report.stopped:
            fail(report.stopped, as_json)
    sys.exit(1 if report.damaged or report.stopped else 0)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield standard("stdin")
        return
    try:
        archive = Path(file).open("rb")  # noqa: SIM115 - closed below, and its errors are not those of the block
    except OSError as error:
        raise InputError(f"can not read {file}: {error.strerror}", fix="give a file of cache export") from None
    with archive:
        yield archive


def _document(file: str, report: Report) -> dict[str, Any]:
    rows = [
        {
            "cache": namespace.cache, "soc": namespace.soc, "generation": one.generation, "imported": one.entries,
            "present": one.present, "in_flight": one.in_flight, "bytes": one.stored_bytes,
        }
        for namespace, one in report.namespaces.items()
    ]  # fmt: skip
    made_by = {
        one: {"toolchain": one[0], "fingerprint": one[1], "version": one[2], "entries": entries}
        for one, entries in sorted(report.toolchains.items())
    }
    stopped = report.stopped
    return {
        "file": file,
        "namespaces": rows,
        **{field: sum(row[field] for row in rows) for field in ("imported", "present", "in_flight", "bytes")},
        "damaged": [{"member": one.name, "reason": one.reason} for one in report.damaged],
        "toolchains": list(made_by.values()),
        "unknown_toolchains": [row for one, row in made_by.items() if one not in report.known],
        "stopped": stopped and {"code": stopped.code, "message": stopped.message, "fix": stopped.fix},
    }


def _print(document: dict[str, Any]) -> None:
    for row in document["namespaces"]:
        click.echo(
            f"{row['cache']}/{row['soc']}: generation {row['generation']}, {row['imported']} imported "
            f"({size(row['bytes'])}), {row['present']} present"
        )
    for row in document["unknown_toolchains"]:
        say(
            f"{row['entries']} entries were compiled by {row['toolchain']} {row['version']}, fingerprint "
            f"{row['fingerprint'][:_SHOWN_DIGITS]}: no worker here ever had it, so nobody can hit them yet"
        )
    others = {
        "present": document["present"],
        "being compiled here": document["in_flight"],
        "damaged": len(document["damaged"]),
    }
    counted = "".join(f", {number} {what}" for what, number in others.items() if number)
    click.echo(f"{document['imported']} entries imported ({size(document['bytes'])}){counted}")
