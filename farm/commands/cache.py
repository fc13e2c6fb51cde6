"""``celery -A farm cache ...``: what the shared cache holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, json_option, write_json

if TYPE_CHECKING:
    from farm.client.connect import Farm
    from farm.index.index import Index
    from farm.index.stats import EntryRow

_cache_option = click.option("--cache", cls=CeleryOption, help_group="Which", help="Only this cache.")
_soc_option = click.option("--soc", cls=CeleryOption, help_group="Which", help="Only this processor type.")

#: Ascend's nominal limits, shown while nothing else is set: 500 MB, keep half.
_NOMINAL_LIMIT_BYTES = 500 * 1048576
_NOMINAL_KEEP_RATIO = 50


@click.group("cache")
def cache() -> None:
    """Look at the shared kernel cache."""


def _indexes(cache_name: str | None, soc: str | None) -> tuple[Farm, list[Index]]:
    import farm  # noqa: PLC0415 - the command line loads fast

    connected = farm.connect()
    wanted = [
        namespace
        for namespace in connected.namespaces()
        if cache_name in (None, namespace.cache) and soc in (None, namespace.soc)
    ]
    return connected, [connected.index(namespace) for namespace in wanted]


@cache.command("stats", cls=FarmCommand)
@_cache_option
@_soc_option
@json_option
@click.pass_context
@handle_preload_options
def stats(ctx: click.Context, cache: str | None, soc: str | None, as_json: bool) -> None:
    """Entries, bytes, pins and counters of each namespace, and the workers."""
    from farm.index.stats import read_stats  # noqa: PLC0415

    farm, indexes = _indexes(cache, soc)
    rows = []
    for index in indexes:
        figures = read_stats(index)
        rows.append({
            "cache": index.namespace.cache, "soc": index.namespace.soc, "generation": figures.generation,
            "entries": figures.entries, "bytes": figures.stored_bytes,
            "pinned_entries": figures.pinned_entries, "pinned_bytes": figures.pinned_bytes,
            "idle_entries": figures.idle_entries, "retired_entries": figures.retired_entries,
            "private_entries": 0, "tombstones": figures.tombstones,
            "limit_bytes": _NOMINAL_LIMIT_BYTES, "keep_ratio": _NOMINAL_KEEP_RATIO, "ageing": False,
            "limit_origin": "default", **figures.counters,
        })  # fmt: skip
    workers = farm.connection.registry.workers()
    document = {
        "namespaces": rows,
        "coordinator": {"alive": False, "leader": None, "holding_until": None},
        "workers": len(workers),
        "slots": sum(worker.slots for worker in workers),
    }
    if as_json:
        write_json(document)
    else:
        _print_stats(document)


def _print_stats(document: dict[str, Any]) -> None:
    for row in document["namespaces"]:
        click.echo(f"{row['cache']}/{row['soc']}  generation {row['generation']}")
        click.echo(
            f"  entries {row['entries']} ({_size(row['bytes'])}): {row['pinned_entries']} pinned "
            f"({_size(row['pinned_bytes'])}), {row['idle_entries']} idle; tombstones {row['tombstones']}"
        )
        click.echo("  " + "  ".join(f"{name} {row[name]}" for name in ("hits", "misses", "joins", "compiles")))
    if not document["namespaces"]:
        click.echo("the cache is empty")
    click.echo(f"workers {document['workers']}, slots {document['slots']}")


def _size(stored_bytes: int) -> str:
    return f"{stored_bytes / 1048576:.1f} MB"


@cache.command("ls", cls=FarmCommand)
@_cache_option
@_soc_option
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

    _, indexes = _indexes(cache, soc)
    entries: list[dict[str, Any]] = []
    for index in indexes:
        if len(entries) < limit:
            entries += [_entry(index, row) for row in list_entries(index, limit - len(entries))]
    if as_json:
        write_json({"entries": entries})
        return
    for entry in entries:
        used = "in use" if entry["pins"] else entry["last_used"] or "-"
        click.echo(
            f"{entry['key'][:16]}  {entry['cache']}/{entry['soc']}  {entry['type']:<16} {entry['name']:<28} "
            f"{entry['bytes']:>9}  pins {entry['pins']:<3} {used}  {entry['toolchain']}"
        )
    click.echo(f"{len(entries)} entries" + (f" (limit {limit})" if len(entries) == limit else ""))


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
        "last_used": None if row.last_used_ms is None else _iso(row.last_used_ms),
        "toolchain": row.record.toolchain,
    }


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


@cache.command("show", cls=FarmCommand)
@click.argument("key")
@_cache_option
@_soc_option
@json_option
@click.pass_context
@handle_preload_options
def show(ctx: click.Context, key: str, cache: str | None, soc: str | None, as_json: bool) -> None:
    """Show one entry: what it was compiled from, by whom, its files, and the jobs that hold it.

    KEY is a key, or the beginning of one (8 characters or more).
    """
    from farm.commands.entry import describe, find  # noqa: PLC0415

    farm, indexes = _indexes(cache, soc)
    documents = [_entry(index, row) | describe(farm.connection.store, index, row) for index, row in find(indexes, key)]
    if as_json:
        write_json({"entries": documents})
        return
    for document in documents:
        for name, value in document.items():
            if name == "files":
                click.echo("files")
                for file in value:
                    click.echo(f"  {file['name']}  {file['bytes']} bytes  sha256 {file['sha256']}")
            else:
                click.echo(f"{name:<12} {value}")
