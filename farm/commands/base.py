"""What all commands share: one JSON document on stdout, one line for an error, and the exit codes.

Exit: 0 well, 1 the work failed, 2 wrong usage or input, 3 the farm can not be reached, 130 interrupted.
"""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NoReturn

import click
from celery.bin.base import CeleryCommand, CeleryOption

from farm.errors import FarmError, InputError

INTERRUPTED = 130
TERMINATED = 143

json_option = click.option(
    "--json", "as_json", is_flag=True, cls=CeleryOption, help_group="Output",
    help="One JSON document on stdout; progress and logs on stderr.",
)  # fmt: skip


class FarmCommand(CeleryCommand):  # type: ignore[misc]
    """A command whose every error is one line (or one JSON document), with the exit code of its kind."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse; wrong usage is reported like any other wrong input."""
        as_json = "--json" in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if not as_json:
                raise
            fail(InputError(error.format_message(), f"see: celery -A farm {info_name} --help"), as_json)

    def invoke(self, ctx: Any) -> Any:
        """Run; a terminated command leaves its job as an interrupted one does."""
        signal.signal(signal.SIGTERM, _terminate)
        as_json = bool(ctx.params.get("as_json"))
        try:
            return super().invoke(ctx)
        except FarmError as error:
            fail(error, as_json)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123 - the interpreter flushes it at exit
            sys.exit(1)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


def fail(error: FarmError, as_json: bool) -> NoReturn:
    """Say what is wrong and how to mend it, and exit with the code of the error's kind."""
    if as_json:
        write_json({"error": {"code": error.code, "message": error.message, "fix": error.fix}})
    else:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Fix: {error.fix}\n" if error.fix else ""))
    sys.exit(error.exit_code)


def write_json(document: Any) -> None:
    """The one document on stdout; complete before anything else happens."""
    sys.stdout.buffer.write(json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n")
    sys.stdout.buffer.flush()


def iso(time_ms: int) -> str:
    """A time of the server's clock, for people and programs."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
