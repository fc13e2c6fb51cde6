"""``celery -A farm cache stats``: what each namespace holds, and who works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import handle_preload_options

from farm.commands.base import FarmCommand, iso, json_option, write_json
from farm.commands.cache.group import cache, cache_option, chosen, now_ms, size, soc_option

if TYPE_CHECKING:
    from farm.client.connect import Farm
    from farm.index.index import Index

COUNTERS = ("hits", "misses", "joins", "compiles", "evictions", "purges")


@cache.command("stats", cls=FarmCommand)
@cache_option
@soc_option
@json_option
@click.pass_context
@handle_preload_options
def stats(ctx: click.Context, cache: str | None, soc: str | None, as_json: bool) -> None:
    """Entries, bytes, pins and counters of each namespace, and the workers."""
    from farm.index.inforce import in_force  # noqa: PLC0415
    from farm.index.stats import read_stats  # noqa: PLC0415

    farm, indexes = chosen(cache, soc)
    for faults in in_force(farm.connection.server).faults.values():
        click.echo("\n".join(faults), err=True)
    rows = []
    for index in indexes:
        figures = read_stats(index)
        rows.append({
            "cache": index.namespace.cache, "soc": index.namespace.soc, "generation": figures.generation,
            "entries": figures.entries, "bytes": figures.stored_bytes,
            "pinned_entries": figures.pinned_entries, "pinned_bytes": figures.pinned_bytes,
            "idle_entries": figures.idle_entries, "retired_entries": figures.retired_entries,
            "private_entries": figures.private_entries, "tombstones": figures.tombstones,
            "limit_bytes": figures.limits.limit_bytes, "keep_ratio": figures.limits.keep_ratio,
            "ageing": figures.limits.ageing, "limit_origin": figures.limits.origin, **figures.counters,
        })  # fmt: skip
    workers = farm.connection.registry.workers()
    document = {
        "namespaces": rows,
        "coordinator": _coordinator(farm, indexes),
        "workers": len(workers),
        "slots": sum(worker.slots for worker in workers),
    }
    if as_json:
        write_json(document)
    else:
        _print_stats(document)


def _coordinator(farm: Farm, indexes: list[Index]) -> dict[str, Any]:
    """Who leads, and until when what lives is held after a gap."""
    from farm.index.leader import Leadership  # noqa: PLC0415

    leader = Leadership(farm.connection.server).current()
    held_ms = max((index.held_until_ms() for index in indexes), default=0)
    holding = held_ms > now_ms(farm.connection.server)
    return {
        "alive": leader is not None,
        "leader": leader.name if leader else None,
        "holding_until": iso(held_ms) if holding else None,
    }


def _print_stats(document: dict[str, Any]) -> None:
    for row in document["namespaces"]:
        click.echo(f"{row['cache']}/{row['soc']}  generation {row['generation']}")
        click.echo(
            f"  entries {row['entries']} ({size(row['bytes'])}): {row['pinned_entries']} pinned "
            f"({size(row['pinned_bytes'])}), {row['idle_entries']} idle; tombstones {row['tombstones']}"
        )
        click.echo("  " + "  ".join(f"{name} {row[name]}" for name in COUNTERS))
        rule = f"aged at {size(row['limit_bytes'])}, down to {row['keep_ratio']} %" if row["ageing"] else "not aged"
        over = ": over its limit, the rest is in use" if row["ageing"] and row["bytes"] >= row["limit_bytes"] else ""
        click.echo(f"  {rule} ({row['limit_origin']}){over}")
    if not document["namespaces"]:
        click.echo("the cache is empty")
    leader = document["coordinator"]["leader"] or "none: nothing is purged, aged or deleted"
    click.echo(f"workers {document['workers']}, slots {document['slots']}, coordinator {leader}")
