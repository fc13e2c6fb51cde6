"""``celery -A farm doctor``: looks at everything that keeps a farm from doing its work, and says how to mend it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, json_option, write_json

if TYPE_CHECKING:
    from farm.commands.doctor.examination import Check


@click.command("doctor", cls=FarmCommand)
@click.option(
    "--op-compiler-cache-dir", cls=CeleryOption, help_group="Which",
    help="Folder of this node's kernels (default: $ASCEND_CACHE_PATH or $HOME/atc_data).",
)  # fmt: skip
@json_option
@click.pass_context
@handle_preload_options
def doctor(ctx: click.Context, op_compiler_cache_dir: str | None, as_json: bool) -> None:
    """Examine the farm as this environment finds it, its workers, and this node.

    Exit: 0 all checks are well, 1 one is not, 3 the index can not be reached.
    """
    from farm.client.connection import public  # noqa: PLC0415 - the command line loads fast
    from farm.commands.doctor.examination import SERVER, examine  # noqa: PLC0415
    from farm.commands.doctor.subject import Subject  # noqa: PLC0415

    subject = Subject(dict(os.environ), op_compiler_cache_dir)
    checks = examine(subject)
    if as_json:
        urls = {"index_url": subject.index_url and public(subject.index_url), "store_url": subject.store_url}
        write_json(urls | {"checks": [check.to_json() for check in checks]})
    else:
        _print(checks)
    if not all(check.ok for check in checks):
        sys.exit(1 if next(check.ok for check in checks if check.name == SERVER) else 3)


def _print(checks: list[Check]) -> None:
    said = ""
    for check in checks:
        click.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name:<18} {check.detail}")
        if check.fix != said and check.fix:  # what one server that is down asks for is said once
            click.echo(f"     {'':<18} fix: {check.fix}")
        said = check.fix
    failed = sum(not check.ok for check in checks)
    click.echo(f"{len(checks)} checks, {f'{failed} failed' if failed else 'all well'}")
