"""``celery -A farm submit FILE``: get a kernel for every operator of a manifest."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
from celery.bin.base import CeleryOption, handle_preload_options

from farm.commands.base import FarmCommand, Seconds, json_option, write_json


def _option(*names: str, **attributes: Any) -> Any:
    return click.option(*names, cls=CeleryOption, help_group="Submit", **attributes)


@click.command("submit", cls=FarmCommand)
@click.argument("file")
@_option("--mode", default="enable", show_default=True, help="op_compiler_cache_mode: enable, force or disable.")
@_option("--cache", help="Name of the shared cache (default: FARM_CACHE).")
@_option("--soc", help="Processor type of operators that name none.")
@_option("--toolchain", help="Toolchain of operators that name none: NAME or NAME@FINGERPRINT.")
@_option("--op-compiler-cache-dir", help="Folder for the kernels (default: $ASCEND_CACHE_PATH or $HOME/atc_data).")
@_option("--aicore-num", metavar="CUBE|VECTOR", help="Cores to compile for, where the processor supports it.")
@_option("--jit-compile", default="auto", show_default=True, metavar="WHEN", help="true, false or auto.")
@_option(
    "--oo-constant-folding/--no-oo-constant-folding",
    default=True,
    help="Ascend's; a manifest's operators are compiled as they stand, so both mean the same.",
)
@_option("--op-debug-level", default="0", show_default=True, metavar="N", help="0 to 4; not 0: nothing is cached.")
@_option("--op-debug-config", metavar="FILE", help="File with op_debug_config= and op_debug_list=.")
@_option("--job-id", help="The same for all members of a job (default: the launcher's, else random).")
@_option("--owner", help="Labels for reports: k=v,k=v.")
@_option(
    "--priority",
    default="normal",
    show_default=True,
    metavar="CLASS",
    help="urgent, normal or bulk: whose compiles come first. The first member decides for the job.",
)
@_option(
    "--timeout",
    type=Seconds(),
    metavar="S",
    help="Answer after S seconds, whatever is pending.",
)
@_option("--no-wait", is_flag=True, help="Have compiled what is absent and return; see: celery -A farm job wait.")
@_option("--hold", type=Seconds(), default=0, metavar="S", help="Keep the pins S seconds longer.")
@json_option
@click.pass_context
@handle_preload_options
def submit(
    ctx: click.Context, file: str, mode: str, cache: str | None, soc: str | None, toolchain: str | None,
    op_compiler_cache_dir: str | None, aicore_num: str | None, jit_compile: str, oo_constant_folding: bool,
    op_debug_level: str, op_debug_config: str | None, job_id: str | None, owner: str | None, priority: str,
    timeout: float | None, no_wait: bool, hold: float, as_json: bool,
) -> None:  # fmt: skip
    """Get a kernel for every operator of FILE (.json, .yaml, .msgpack, or - for standard input).

    Exit: 0 all kernels are there (with --no-wait: or are to come), 1 an operator failed or the time was over,
    2 wrong input, 3 no farm.
    """
    import farm  # noqa: PLC0415 - the command line loads fast
    from farm.client.document import submission_document  # noqa: PLC0415
    from farm.commands.progress import view  # noqa: PLC0415
    from farm.policy.modes import read_level  # noqa: PLC0415

    started = time.monotonic()
    requests = farm.load(file, soc=soc, toolchain=toolchain)
    connection = farm.connect()
    with connection.job(
        job_id, mode, cache=cache, priority=priority, owner=owner, op_compiler_cache_dir=op_compiler_cache_dir,
        op_debug_level=read_level(op_debug_level), op_debug_config=op_debug_config, aicore_num=aicore_num,
        jit_compile=jit_compile,
    ) as job:  # fmt: skip
        with view(len(requests)) as show:
            results = job.compile(requests, progress=show, timeout=timeout, wait=not no_wait)
        document = submission_document(
            job, requests, results, time.monotonic() - started, "submitted" if no_wait else "timeout"
        )
        _print(document, as_json)
        if hold:
            job.hold(hold)
        if no_wait:
            job.detach()
    sys.exit(0 if document["state"] in ("done", "submitted") else 1)


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(document)
        return
    for op in document["ops"]:
        if op["error"]:
            again = ", remembered" if op["error"]["remembered"] else ""
            click.echo(f"{op['name']}: {op['error']['kind']}{again}: {op['error']['message']}")
            if op["error"]["log_tail"]:
                click.echo("  " + op["error"]["log_tail"].rstrip().replace("\n", "\n  "))
    shown = ", ".join(f"{many} {outcome}" for outcome, many in document["counts"].items() if many)
    number = len(document["ops"])
    what = "1 operator" if number == 1 else f"{number} operators"
    click.echo(f"{document['state']}: {what}, {shown} in {document['seconds']:.2f} s")
    if document["state"] == "submitted":
        click.echo(f"wait for them with: celery -A farm job wait {document['job_id']}")
    folders = sorted({path.rsplit("/", 2)[0] for op in document["ops"] for path in op["files"].values()})
    for folder in folders:
        click.echo(f"kernels in {folder}")
