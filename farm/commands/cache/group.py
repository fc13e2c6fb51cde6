"""What the cache commands share: which namespaces they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption

from farm.commands.base import FarmGroup
from farm.errors import InputError

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


def named(cache_name: str | None, soc: str | None) -> tuple[Farm, list[Index]]:
    """As ``chosen``, for what acts on them: a name of which there is nothing is a slip. Raises InputError then."""
    farm, indexes = chosen(cache_name, soc)
    if not indexes and (cache_name is not None or soc is not None):
        given = {"--cache": cache_name, "--soc": soc}
        which = " ".join(f"{option} {value!r}" for option, value in given.items() if value is not None)
        raise InputError(f"there is no namespace of {which}", fix="see: celery -A farm cache stats")
    return farm, indexes


def size(stored_bytes: int) -> str:
    """Bytes for people."""
    return f"{stored_bytes / 1048576:.1f} MB"


def now_ms(server: Any) -> int:
    """The one clock: the server's."""
    seconds, microseconds = server.time()
    return int(seconds) * 1000 + int(microseconds) // 1000
