"""``celery -A farm job ...``: which jobs there are, how far they are; wait for one, or end it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, FarmGroup, Seconds, json_option, write_json

if TYPE_CHECKING:
    from farm.client.connection import Connection

_SHOWN_FAILURES = 5


@click.group("job", cls=FarmGroup)
def job() -> None:
    """See the jobs that live, wait for one, or end it for all its members."""


def _connection() -> Connection:
    import farm  # noqa: PLC0415 - the command line loads fast

    return farm.connect().connection


def _say(text: str) -> None:
    sys.stderr.write(f"farm: {text}\n")


@job.command("ls", cls=FarmCommand)
@click.option(
    "--limit", type=click.IntRange(min=1, max=10_000), default=100, show_default=True, cls=CeleryOption,
    help_group="Which", help="At most this many.",
)  # fmt: skip
@json_option
@click.pass_context
@handle_preload_options
def ls(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List the jobs that live, those that were heard of last first."""
    from farm.commands.jobview import list_jobs  # noqa: PLC0415

    document = list_jobs(_connection(), limit)
    if as_json:
        write_json(document)
        return
    for row in document["jobs"]:
        owner = ", ".join(f"{name} {value}" for name, value in row["owner"].items())
        click.echo(
            f"{row['job_id']:<32} {row['mode']:<8} {row['priority']:<7} members {row['members']:<4} "
            f"keys {row['keys']:<6} lease {row['lease_left_seconds']:>5.0f} s  {', '.join(row['namespaces'])}  {owner}"
        )
    more = " (there are more: --limit)" if document["more"] else ""
    click.echo(f"{len(document['jobs'])} jobs{more}")


@job.command("show", cls=FarmCommand)
@click.argument("job_id", metavar="ID")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10_000, show_default=True, cls=CeleryOption,
    help_group="Which", help="Look at this many keys of each namespace at most.",
)  # fmt: skip
@json_option
@click.pass_context
@handle_preload_options
def show(ctx: click.Context, job_id: str, limit: int, as_json: bool) -> None:
    """Show one job: its members, the toolchains it uses, and how many of its keys are there, queued, failed."""
    from farm.commands.jobview import describe_job  # noqa: PLC0415

    document = describe_job(_connection(), job_id, limit, _say)
    if as_json:
        write_json(document)
        return
    owner = ", ".join(f"{name} {value}" for name, value in document["owner"].items())
    click.echo(f"{document['job_id']}  mode {document['mode']}, priority {document['priority']}, {owner}")
    click.echo(f"since {document['created']}, members {document['members']}")
    for member in document["leases"]:
        click.echo(f"  {member['member']}  lease {member['lease_left_seconds']:.0f} s")
    for row in document["namespaces"]:
        keys = row["keys"]
        counted = ", ".join(f"{keys[state]} {state}" for state in _states() if keys[state])
        looked = "" if keys["looked_at"] >= keys["total"] else f" (of the first {keys['looked_at']})"
        click.echo(f"{row['cache']}/{row['soc']}  keys {keys['total']}: {counted or 'none'}{looked}")
        for toolchain, chosen in row["toolchains"].items():
            click.echo(f"  uses {toolchain} {chosen['version'] or '?'}, fingerprint {chosen['fingerprint'][:12]}")
        _print_failures(row["failures"])


def _states() -> tuple[str, ...]:
    from farm.index.joblist import STATES  # noqa: PLC0415

    return STATES


def _print_failures(failures: list[dict[str, Any]]) -> None:
    for failure in failures[:_SHOWN_FAILURES]:
        first = failure["error"]["message"].splitlines()[0] if failure["error"]["message"] else ""
        click.echo(f"  {failure['key'][:16]} {failure['error']['kind']}: {first}")
    if len(failures) > _SHOWN_FAILURES:
        click.echo(f"  and {len(failures) - _SHOWN_FAILURES} more that failed")


@job.command("wait", cls=FarmCommand)
@click.argument("job_id", metavar="ID")
@click.option(
    "--timeout", type=Seconds(), metavar="S", cls=CeleryOption, help_group="Wait",
    help="Give up after S seconds; the job goes on.",
)  # fmt: skip
@json_option
@click.pass_context
@handle_preload_options
def wait(ctx: click.Context, job_id: str, timeout: float | None, as_json: bool) -> None:
    """Wait until all that the job asked for is there or has failed; keeps the job alive meanwhile.

    Exit: 0 all kernels are there, 1 something failed, the job was ended or the time was over.
    """
    from farm.client.waiting import JobWait  # noqa: PLC0415
    from farm.commands.jobview import describe_wait  # noqa: PLC0415

    started = time.monotonic()
    waiting = JobWait(_connection(), job_id, _say)
    state, reason = waiting.run(timeout)
    document = describe_wait(waiting, job_id, state, reason) | {"seconds": round(time.monotonic() - started, 3)}
    if as_json:
        write_json(document)
    else:
        counted = ", ".join(f"{many} {what}" for what, many in document["counts"].items() if many)
        click.echo(f"{state}: {counted or 'nothing was asked for'} in {document['seconds']:.2f} s")
        if reason:
            click.echo(reason)
        _print_failures(document["failures"])
    sys.exit(0 if state == "done" else 1)


@job.command("cancel", cls=FarmCommand)
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_context
@handle_preload_options
def cancel(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """End a job for all its members; compiles that nobody else wants are stopped."""
    _end(job_id, "cancel", as_json)


@job.command("release", cls=FarmCommand)
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_context
@handle_preload_options
def release(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """End a job for all its members and give its pins back; compiles that run finish and are cached."""
    _end(job_id, "keep", as_json)


def _end(job_id: str, how: Any, as_json: bool) -> None:
    from farm.client.livejob import LiveJob  # noqa: PLC0415
    from farm.commands.jobview import describe_end  # noqa: PLC0415

    document = describe_end(job_id, how, LiveJob(_connection(), job_id, _say).end(how))
    if as_json:
        write_json(document)
        return
    where = ", ".join(f"{row['cache']}/{row['soc']} ({row['keys']} keys)" for row in document["namespaces"])
    click.echo(f"{job_id} {document['state']}: {where}; its {document['members']} members are told")
