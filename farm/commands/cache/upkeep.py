"""``celery -A farm cache age``, ``verify`` and ``rebuild``: what the coordinator does by itself, on request."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, iso, json_option, write_json
from farm.commands.cache.group import cache, cache_option, chosen, named, now_ms, size, soc_option
from farm.errors import FarmUnavailable

if TYPE_CHECKING:
    from farm.index.index import Index

_REBUILD_SECONDS = 3600


@cache.command("age", cls=FarmCommand)
@cache_option
@soc_option
@click.option(
    "--dry-run", is_flag=True, cls=CeleryOption, help_group="Age", help="Say what would go and why; change nothing."
)
@json_option
@click.pass_context
@handle_preload_options
def age(ctx: click.Context, cache: str | None, soc: str | None, dry_run: bool, as_json: bool) -> None:
    """Age by the limits in force: idle entries above the limit go, the least recently used first.

    Limits and idle time are the coordinator's, whatever is set here.
    """
    from farm.index.inforce import in_force  # noqa: PLC0415

    farm, indexes = named(cache, soc)
    min_idle_ms = in_force(farm.connection.server).min_idle_ms
    if min_idle_ms is None:
        min_idle_ms = round(farm.connection.settings.min_idle_seconds * 1000)
    rows = [_plan(index, min_idle_ms) for index in indexes]
    if not dry_run:
        for index, row in zip(indexes, rows, strict=True):
            row["evicted"] = _evict(index, row["target_bytes"], min_idle_ms)
    if as_json:
        write_json({"namespaces": rows})
        return
    for row in rows:
        where = f"{row['cache']}/{row['soc']}: {size(row['bytes'])} of {size(row['limit_bytes'])}"
        done = f"{len(row['victims'])} would go" if dry_run else f"{row['evicted']} evicted"
        click.echo(f"{where}; {row['why']}; {done}")
        for victim in row["victims"] if dry_run else ():
            click.echo(f"  {victim['key'][:16]}  {victim['name']:<28} {victim['bytes']:>9}  {victim['last_used']}")


def _plan(index: Index, min_idle_ms: int) -> dict[str, Any]:
    from farm.index.candidates import idle_entries  # noqa: PLC0415
    from farm.index.stats import read_stats  # noqa: PLC0415
    from farm.policy.ageing import target, victims  # noqa: PLC0415
    from farm.policy.limits import Limits  # noqa: PLC0415

    stats = read_stats(index)
    rule = stats.limits
    limits = Limits(rule.limit_bytes, rule.keep_ratio, rule.origin, rule.ageing)
    goal = target(stats.stored_bytes, limits)
    found = dict(idle_entries(index)) if goal is not None else {}
    before = now_ms(index.server) - min_idle_ms
    going = [] if goal is None else victims(found, stats.stored_bytes, goal, before)
    if goal is None:
        why = "below its limit" if limits.ageing else "ageing is off"
    else:
        why = f"{stats.pinned_entries} in use and {len(found) - len(going)} idle stay"
    return {
        "cache": index.namespace.cache, "soc": index.namespace.soc, "bytes": stats.stored_bytes,
        "limit_bytes": limits.limit_bytes, "target_bytes": goal, "why": why, "in_use_entries": stats.pinned_entries,
        "idle_entries": stats.idle_entries,
        "victims": [
            {"key": one.key.hex(), "name": found[one].name, "bytes": one.stored_bytes,
             "last_used": iso(one.idle_since_ms)}
            for one in going
        ],
    }  # fmt: skip


def _evict(index: Index, goal: int | None, min_idle_ms: int) -> int:
    evicted = 0
    while goal is not None and (gone := index.evict(goal, min_idle_ms).entries):
        evicted += gone
    return evicted


@cache.command("verify", cls=FarmCommand)
@cache_option
@soc_option
@click.option("--repair", is_flag=True, cls=CeleryOption, help_group="Verify", help="Forget bad entries.")
@json_option
@click.pass_context
@handle_preload_options
def verify(ctx: click.Context, cache: str | None, soc: str | None, repair: bool, as_json: bool) -> None:
    """Check the invariants of the index, and every bundle against its entry. Exit 1 when something is wrong.

    A bad entry that is repaired is compiled again when it is asked for; jobs that hold it keep their own copies.
    """
    from farm.commands.cache.checks import check  # noqa: PLC0415

    farm, indexes = named(cache, soc)
    rows = [check(index, farm.connection.store, repair) for index in indexes]
    clean = not any(row["violations"] or (row["damaged"] and not repair) for row in rows)
    if as_json:
        write_json({"clean": clean, "namespaces": rows})
    else:
        for row in rows:
            click.echo(f"{row['cache']}/{row['soc']}: {row['entries']} entries checked")
            for problem in row["violations"]:
                click.echo(f"  {problem}")
            for one in row["damaged"]:
                click.echo(f"  {one['key'][:16]} {one['name']}: {one['reason']}" + (" (forgotten)" if repair else ""))
        click.echo("all is well" if clean else "something is wrong")
    sys.exit(0 if clean else 1)


@cache.command("rebuild", cls=FarmCommand)
@json_option
@click.pass_context
@handle_preload_options
def rebuild(ctx: click.Context, as_json: bool) -> None:
    """Have the coordinator make the index agree with the store: entries from bundles, rows without bundle dropped."""
    from farm.coordinator.chores import ask_rebuild  # noqa: PLC0415
    from farm.index import names  # noqa: PLC0415
    from farm.index.leader import Leadership  # noqa: PLC0415

    server = chosen(None, None)[0].connection.server
    if Leadership(server).current() is None:
        raise FarmUnavailable("no coordinator leads", fix="start one with: celery -A farm coordinator")
    ask, deadline = ask_rebuild(server), time.monotonic() + _REBUILD_SECONDS
    while server.hget(names.CHORES, "rebuild_done") != ask.encode():
        if time.monotonic() >= deadline:
            raise FarmUnavailable("the rebuild is not done within an hour", fix="see the coordinator's log")
        time.sleep(0.2)
    fields = ("adopted", "dropped", "damaged")
    figures = server.hmget(names.CHORES, *[f"rebuild_{field}" for field in fields])
    document = {field: int(value or 0) for field, value in zip(fields, figures, strict=True)}
    if as_json:
        write_json(document)
    else:
        click.echo(", ".join(f"{number} {field}" for field, number in document.items()))
