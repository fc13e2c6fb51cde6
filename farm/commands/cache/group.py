"""What the cache commands share: which namespaces they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption

from farm.commands.base import FarmGroup

if TYPE_CHECKING:
    from farm.client.connect import Farm
    from farm.index.index import Index

cache_option = click.option("--cache", cls=CeleryOption, help_group="Which", help="Only this cache.")
soc_option = click.option("--soc", cls=CeleryOption, help_group="Which", help="Only this processor type.")


@click.group("cache", cls=FarmGroup)
def cache() -> None:
    """Look after the shared kernel cache."""


def chosen(cache_name: str | None, soc: str | None) -> tuple[Farm, list[Index]]:
    """The farm, and the indexes of the namespaces that are meant."""
    import farm  # noqa: PLC0415 - the command line loads fast

    connected = farm.connect()
    wanted = [
        namespace
        for namespace in connected.namespaces()
        if cache_name in (None, namespace.cache) and soc in (None, namespace.soc)
    ]
    return connected, [connected.index(namespace) for namespace in wanted]


def size(stored_bytes: int) -> str:
    """Bytes for people."""
    return f"{stored_bytes / 1048576:.1f} MB"


def now_ms(server: Any) -> int:
    """The one clock: the server's."""
    seconds, microseconds = server.time()
    return int(seconds) * 1000 + int(microseconds) // 1000
