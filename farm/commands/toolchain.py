"""``celery -A farm toolchain ...``: which compilers the farm has, and which of their versions new jobs use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, FarmGroup, json_option, write_json
from farm.errors import InputError

if TYPE_CHECKING:
    from farm.index.registry import Offer, Registry, Worker

_SHOWN_DIGITS = 12


@click.group("toolchain", cls=FarmGroup)
def toolchain() -> None:
    """See which toolchains workers offer, and choose the version that new jobs use."""


def _registry() -> Registry:
    import farm  # noqa: PLC0415 - the command line loads fast

    return farm.connect().connection.registry


@toolchain.command("ls", cls=FarmCommand)
@json_option
@click.pass_context
@handle_preload_options
def ls(ctx: click.Context, as_json: bool) -> None:
    """List toolchains: the first of a name that serves a processor type is the one that new jobs use for it."""
    registry = _registry()
    workers, defaults = registry.workers(), registry.defaults()
    document = {
        "toolchains": [_row(offer, workers, defaults) for offer in registry.preferred()],
        "workers": [_worker(worker) for worker in workers],
    }
    if as_json:
        write_json(document)
        return
    for row in document["toolchains"]:
        click.echo(
            f"{row['name']:<12} {row['version']:<12} {row['fingerprint'][:_SHOWN_DIGITS]}  "
            f"workers {row['workers']:<3} slots {row['slots']:<4} {', '.join(row['socs']) or 'any soc'}"
            f"  since {row['first_seen']}{'  default' if row['default'] else ''}"
        )
    if not document["toolchains"]:
        click.echo("no worker has ever registered a toolchain")
    for worker in document["workers"]:
        for name, reason in worker["missing"].items():
            click.echo(f"worker {worker['id']} does not offer {name}: {reason}")


def _row(offer: Offer, workers: list[Worker], defaults: dict[str, str]) -> dict[str, Any]:
    serving = [worker for worker in workers if offer.queue in worker.queues]
    first_seen = datetime.fromtimestamp(offer.first_seen_ms / 1000, UTC)
    return {
        "name": offer.toolchain,
        "version": offer.version,
        "fingerprint": offer.fingerprint,
        "queue": offer.queue,
        "socs": list(offer.socs),
        "workers": len(serving),
        "slots": sum(worker.slots for worker in serving),
        "default": defaults.get(offer.toolchain) == offer.fingerprint,
        "first_seen": first_seen.isoformat(timespec="seconds"),
    }


def _worker(worker: Worker) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "slots": worker.slots,
        "queues": list(worker.queues),
        "missing": dict(worker.missing),
    }


@toolchain.command("default", cls=FarmCommand)
@click.argument("name")
@click.argument("fingerprint", required=False)
@click.option("--unset", is_flag=True, cls=CeleryOption, help_group="Default", help="Leave the choice to the rule.")
@json_option
@click.pass_context
@handle_preload_options
def default(ctx: click.Context, name: str, fingerprint: str | None, unset: bool, as_json: bool) -> None:
    """Show or set the version of toolchain NAME that new jobs of the whole farm use.

    FINGERPRINT is its fingerprint, or the beginning of it (4 hex digits or more). Without a default, the highest
    version counts, then the first registered; those with a live worker come first. Jobs that run keep theirs.
    """
    from farm.client.toolchains import named_offer  # noqa: PLC0415
    from farm.request.model import fingerprint_digits  # noqa: PLC0415

    if unset and fingerprint:
        raise InputError("a fingerprint and --unset are both given", fix="give one of them")
    registry = _registry()
    offers = _offers(registry, name)
    if unset:
        registry.set_default(name, None)
    if fingerprint:
        digits = fingerprint_digits(fingerprint.lower(), "FINGERPRINT")
        registry.set_default(name, named_offer(offers, digits).fingerprint)
    chosen = registry.defaults().get(name)
    offer = next((one for one in offers if one.fingerprint == chosen), None)
    if as_json:
        write_json({"toolchain": name, "fingerprint": chosen, "version": offer.version if offer else None})
    elif offer:
        click.echo(f"new jobs use {name} {offer.version}, fingerprint {offer.fingerprint}")
    else:
        click.echo(f"{name} has no default: new jobs use the highest version, then the first registered")


def _offers(registry: Registry, name: str) -> list[Offer]:
    offers = registry.preferred()
    named = [offer for offer in offers if offer.toolchain == name]
    if not named:
        known = ", ".join(sorted({offer.toolchain for offer in offers}))
        raise InputError(
            f"no worker has ever offered a toolchain {name!r}", fix=f"there are: {known or 'none; start a worker'}"
        )
    return named
