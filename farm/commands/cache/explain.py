"""``celery -A farm cache explain``: why operators are, or are not, in the cache. Looks only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, json_option, write_json
from farm.commands.cache.group import cache
from farm.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farm.client.explaining import Explanation
    from farm.request.explain import Difference
    from farm.request.model import Request

_SHOWN_DIGITS = 16
_CONTENT = "content "


def _option(*names: str, **attributes: Any) -> Any:
    return click.option(*names, cls=CeleryOption, help_group="Which", **attributes)


@cache.command("explain", cls=FarmCommand)
@click.argument("file")
@_option("--op", "op_name", metavar="NAME", help="Only this operator.")
@_option("--cache", "cache_name", help="Name of the shared cache (default: FARM_CACHE).")
@_option("--soc", help="Processor type of operators that name none.")
@_option("--toolchain", help="Toolchain of operators that name none.")
@json_option
@click.pass_context
@handle_preload_options
def explain(
    ctx: click.Context, file: str, op_name: str | None, cache_name: str | None, soc: str | None,
    toolchain: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say for each operator of FILE what the cache has of it, and how the nearest entry differs.

    The nearest entry has the same op type and, if there is one, the same tensors. Nothing is asked for: no job is
    joined and nothing is compiled.
    """
    import farm  # noqa: PLC0415 - the command line loads fast
    from farm.client.explaining import Explainer  # noqa: PLC0415

    requests = _named(farm.load(file, soc=soc, toolchain=toolchain), op_name)
    connection = farm.connect().connection
    explanations = Explainer(connection, cache_name or connection.settings.cache).explain(requests)
    if as_json:
        write_json({"ops": [_row(one) for one in explanations]})
        return
    for one in explanations:
        _print(one)


def _named(requests: list[Request], name: str | None) -> list[Request]:
    found = [request for request in requests if name in (None, request.name)]
    if not found and name is not None:
        some = ", ".join(request.name for request in requests[:5])
        raise InputError(f"no operator is named {name!r}", fix=f"the manifest has: {some}, ...")
    return found


def _row(one: Explanation) -> dict[str, Any]:
    return {
        "name": one.name,
        "key": one.key.hex(),
        "state": one.standing.state,
        "nearest": one.nearest.hex() if one.nearest else None,
        "differs": [{"part": row.part, "here": row.here, "there": row.there} for row in one.differs],
    }


def _print(one: Explanation) -> None:
    click.echo(f"{one.name}: {one.standing.state}  {one.key.hex()[:_SHOWN_DIGITS]}")
    if one.standing.failure is not None:
        click.echo(f"  {one.standing.failure.message.splitlines()[0]}")
    if one.standing.state == "present":
        return
    if one.nearest is None:
        click.echo("  the cache has nothing of this op type")
        return
    click.echo(f"  nearest: {one.nearest_name}  {one.nearest.hex()[:_SHOWN_DIGITS]}")
    for line in in_words(one.differs):
        click.echo(f"    {line}")


def in_words(differs: Sequence[Difference]) -> list[str]:
    """Each difference as one line, from the nearest entry to the operator."""
    return [_in_words(one) for one in differs]


def _in_words(one: Difference) -> str:
    from farm.request.explain import ABSENT  # noqa: PLC0415

    if one.there == ABSENT:
        return f"{one.part} added" + _value(one.here)
    if one.here == ABSENT:
        return f"{one.part} removed" + _value(one.there)
    if one.here.startswith(_CONTENT) and one.there.startswith(_CONTENT):
        return f"{one.part} changed"
    return f"{one.part}: {one.there} \N{RIGHTWARDS ARROW} {_short(one)}"


def _value(text: str) -> str:
    return "" if text.startswith(_CONTENT) else f": {text}"


def _short(one: Difference) -> str:
    """A compiler of the same name is told by its version."""
    name, _, version = one.here.partition(" ")
    is_same_name = one.part == "toolchain" and one.there.startswith(f"{name} ")
    return version if is_same_name else one.here
