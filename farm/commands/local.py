"""``celery -A farm local ...``: the kernels that lie on this node. Needs no farm that answers."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.client.localnames import as_text
from farm.commands.base import FarmCommand, FarmGroup, iso, json_option, write_json
from farm.errors import FarmError, InputError
from farm.policy.limits import MEGABYTE

if TYPE_CHECKING:
    from pathlib import Path

    from farm.client.localcache import LocalEntry

_PREFIX_DIGITS_MIN = 8
_SHOWN_DIGITS = 16

_dir_option = click.option(
    "--op-compiler-cache-dir", cls=CeleryOption, help_group="Which",
    help="Folder of the kernels (default: $ASCEND_CACHE_PATH or $HOME/atc_data).",
)  # fmt: skip
_soc_option = click.option("--soc", cls=CeleryOption, help_group="Which", help="Only this processor type.")


@click.group("local", cls=FarmGroup)
def local() -> None:
    """Look at this node's own kernel folder, and clear it."""


def _entries(directory: str | None, soc: str | None) -> tuple[Path, list[LocalEntry]]:
    from farm.client import localcache  # noqa: PLC0415 - the command line loads fast
    from farm.client.cache_dir import find_cache_dir  # noqa: PLC0415

    root = find_cache_dir(directory, os.environ)
    return root, [row for one in localcache.socs(root) if soc in (None, one) for row in localcache.entries(root, one)]


@local.command("ls", cls=FarmCommand)
@_dir_option
@_soc_option
@json_option
@click.pass_context
@handle_preload_options
def ls(ctx: click.Context, op_compiler_cache_dir: str | None, soc: str | None, as_json: bool) -> None:
    """List the kernels on this node: what they are, their size, and whether a process uses them now.

    Says by which limits a job with this environment would age them, each processor type for itself.
    """
    from farm.client import locallimits  # noqa: PLC0415

    root, entries = _entries(op_compiler_cache_dir, soc)
    limits = locallimits.read(root, os.environ, lambda text: click.echo(f"farm: {text}", err=True))
    if as_json:
        write_json({
            "folder": as_text(root), "entries": [_row(entry) for entry in entries],
            "bytes": sum(entry.size_bytes for entry in entries), "limit_bytes": limits.limit_bytes,
            "keep_ratio": limits.keep_ratio, "ageing": limits.ageing, "limit_origin": limits.origin,
        })  # fmt: skip
        return
    for entry in entries:
        used = "in use" if entry.in_use else iso(entry.last_used_ms)
        names = ", ".join(entry.operators) or "-"
        click.echo(f"{entry.key.hex()[:_SHOWN_DIGITS]}  {entry.soc}  {entry.size_bytes:>9}  {used:<25}  {names}")
    limit = f"aged at {limits.limit_bytes // MEGABYTE} MB a soc, down to {limits.keep_ratio} %"
    click.echo(f"{_count(entries)} in {as_text(root)}, {limit if limits.ageing else 'never aged'} ({limits.origin})")


def _row(entry: LocalEntry) -> dict[str, Any]:
    return {
        "key": entry.key.hex(),
        "soc": entry.soc,
        "path": as_text(entry.path),
        "operators": list(entry.operators),
        "files": entry.files,
        "bytes": entry.size_bytes,
        "last_used": iso(entry.last_used_ms),
        "in_use": entry.in_use,
    }


def _count(entries: list[LocalEntry]) -> str:
    megabytes = sum(entry.size_bytes for entry in entries) / MEGABYTE
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} ({megabytes:.1f} MB)"


@local.command("clean", cls=FarmCommand)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--all", "everything", is_flag=True, cls=CeleryOption, help_group="Which", help="All that are not used.")
@click.option("--yes", is_flag=True, cls=CeleryOption, help_group="Which", help="Do not ask.")
@_dir_option
@_soc_option
@json_option
@click.pass_context
@handle_preload_options
def clean(
    ctx: click.Context, keys: tuple[str, ...], everything: bool, yes: bool, op_compiler_cache_dir: str | None,
    soc: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Remove kernels from this node: those with these KEYs (or beginnings of 8 digits or more), or all.

    What a live process of the node uses stays, and so does what the farm did not make. The shared cache is not
    touched: a kernel that is wanted again is fetched again.

    Exit: 0 well, 1 a KEY is in use or the answer was no, 2 wrong input.
    """
    from farm.client import localcache  # noqa: PLC0415

    if bool(keys) == everything:
        raise InputError("give either KEYs or --all", fix="see: celery -A farm local ls")
    if not yes and not sys.stdin.isatty():
        raise InputError("standard input is not a terminal, so nobody can be asked", fix="give --yes")
    root, entries = _entries(op_compiler_cache_dir, soc)
    chosen = entries if everything else _chosen(entries, keys)
    free = [entry for entry in chosen if not entry.in_use]
    if free and not yes and not click.confirm(f"Remove {_count(free)} from {as_text(root)}?", err=True):
        raise FarmError("nothing was removed")
    removed = [
        entry
        for one in sorted({entry.soc for entry in free})
        for entry in localcache.remove(root, one, [entry for entry in free if entry.soc == one])
    ]
    gone = {entry.path for entry in removed}
    kept = [entry for entry in chosen if entry.path not in gone and entry.path.is_dir()]
    if as_json:
        rows = {"removed": [_row(entry) for entry in removed], "kept": [_row(entry) for entry in kept]}
        write_json({"folder": as_text(root), **rows, "bytes": sum(entry.size_bytes for entry in removed)})
    else:
        click.echo(f"removed {_count(removed)} from {as_text(root)}")
        for entry in kept:
            click.echo(f"kept {entry.key.hex()[:_SHOWN_DIGITS]} {', '.join(entry.operators) or '-'}: in use")
    if kept and keys:
        sys.exit(1)


def _chosen(entries: list[LocalEntry], keys: tuple[str, ...]) -> list[LocalEntry]:
    chosen: list[LocalEntry] = []
    for key in keys:
        digits = key.lower()
        if not _PREFIX_DIGITS_MIN <= len(digits) <= 64 or set(digits) - set("0123456789abcdef"):
            raise InputError(f"{key!r} is no key", fix="give 8 to 64 hex digits, as local ls shows them")
        found = [entry for entry in entries if entry.key.hex().startswith(digits)]
        if not found:
            raise InputError(f"no kernel on this node has the key {key}", fix="see: celery -A farm local ls")
        if len({entry.key for entry in found}) > 1:
            raise InputError(f"{len(found)} kernels have keys that begin with {key}", fix="give more digits")
        chosen += [entry for entry in found if entry not in chosen]
    return chosen
