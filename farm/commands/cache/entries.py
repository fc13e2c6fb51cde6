"""``celery -A farm cache ls`` and ``show``: the entries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, iso, json_option, write_json
from farm.commands.cache.group import cache, cache_option, chosen, soc_option

if TYPE_CHECKING:
    from farm.index.index import Index
    from farm.index.stats import EntryRow


@cache.command("ls", cls=FarmCommand)
@cache_option
@soc_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, cls=CeleryOption,
    help_group="Which", help="At most this many.",
)  # fmt: skip
@json_option
@click.pass_context
@handle_preload_options
def ls(ctx: click.Context, cache: str | None, soc: str | None, limit: int, as_json: bool) -> None:
    """List entries: key, name, type, size, pins and last use."""
    from farm.index.stats import list_entries  # noqa: PLC0415

    _, indexes = chosen(cache, soc)
    entries: list[dict[str, Any]] = []
    for index in indexes:
        if len(entries) < limit:
            entries += [_entry(index, row) for row in list_entries(index, limit - len(entries))]
    if as_json:
        write_json({"entries": entries})
        return
    click.echo(f"{'key':<16}  {'namespace':<16} {'type':<16} {'name':<28} {'bytes':>9}  use")
    for entry in entries:
        used = "in use" if entry["pins"] else entry["last_used"] or "-"
        click.echo(
            f"{entry['key'][:16]}  {entry['cache']}/{entry['soc']}  {entry['type']:<16} {entry['name']:<28} "
            f"{entry['bytes']:>9}  pins {entry['pins']:<3} {used}  {entry['toolchain']}"
        )
    number = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    click.echo(number + (f" (limit {limit})" if len(entries) == limit else ""))


def _entry(index: Index, row: EntryRow) -> dict[str, Any]:
    return {
        "key": row.key.hex(),
        "cache": index.namespace.cache,
        "soc": index.namespace.soc,
        "generation": row.generation,
        "name": row.record.name,
        "type": row.record.type,
        "bytes": row.record.stored_bytes,
        "pins": row.pins,
        "last_used": None if row.last_used_ms is None else iso(row.last_used_ms),
        "toolchain": row.record.toolchain,
    }


@cache.command("show", cls=FarmCommand)
@click.argument("key")
@cache_option
@soc_option
@json_option
@click.pass_context
@handle_preload_options
def show(ctx: click.Context, key: str, cache: str | None, soc: str | None, as_json: bool) -> None:
    """Show one entry: what it was compiled from, by whom, its files, and the jobs that hold it.

    KEY is a key, or the beginning of one (8 characters or more).
    """
    from farm.commands.cache.describe import describe, find  # noqa: PLC0415

    farm, indexes = chosen(cache, soc)
    documents = [_entry(index, row) | describe(farm.connection.store, index, row) for index, row in find(indexes, key)]
    if as_json:
        write_json({"entries": documents})
        return
    for document in documents:
        _print_entry(document)


def _print_entry(document: dict[str, Any]) -> None:
    for name, value in document.items():
        if value in (None, [], {}):
            continue
        if name == "files":
            for file in value:
                click.echo(f"{'file':<16} {file['name']}  {file['bytes']} bytes  sha256 {file['sha256']}")
        elif isinstance(value, dict):
            for part, content in value.items():
                if content not in (None, [], {}, ""):
                    click.echo(
                        f"{name + ' ' + part:<24} {content if isinstance(content, str) else json.dumps(content)}"
                    )
        else:
            click.echo(f"{name:<16} {', '.join(value) if isinstance(value, list) else value}")
