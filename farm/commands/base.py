"""What all commands share: one JSON document on stdout, one line for an error, and the exit codes.

Exit: 0 well, 1 the work failed, 2 wrong usage or input, 3 the farm can not be reached, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import json
import math
import signal
import sys
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NoReturn

import click
from celery.bin.base import CeleryCommand, CeleryOption

# Loaded before Celery puts the user's folder on the path, where a file may have the name of a library of ours.
import farm.addresses  # noqa: F401
from farm.errors import FarmError, FarmUnavailable, InputError

INTERRUPTED = 130
TERMINATED = 143

json_option = click.option(
    "--json", "as_json", is_flag=True, cls=CeleryOption, help_group="Output",
    help="One JSON document on stdout; progress and logs on stderr.",
)  # fmt: skip


class Seconds(click.FloatRange):
    """A number of seconds, a year of them at most; ``nan`` is none, though it passes every comparison."""

    def __init__(self) -> None:
        super().__init__(min=0, max=31_536_000)

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


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
        _show_every_letter()
        as_json = bool(ctx.params.get("as_json"))
        try:
            return super().invoke(ctx)
        except FarmError as error:
            fail(error, as_json)
        except KeyboardInterrupt:
            _ended("interrupted", INTERRUPTED, as_json)
        except Terminated:
            _ended("terminated", TERMINATED, as_json)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123 - the interpreter flushes it at exit
            if error.errno == errno.ENOSPC:
                fail(FarmError(f"the output can not be written: {error.strerror}", "free some space there"), False)
            sys.exit(1)
        except _lost_index() as error:
            fail(FarmUnavailable(f"the index server was lost meanwhile: {error}", "run the command again"), as_json)
        except click.ClickException:
            raise
        except Exception as error:  # a fault of ours is still one line and one document
            fail(FarmError(f"internal error: {type(error).__name__}: {error}", "please report this"), as_json)


class FarmGroup(click.Group):
    """A group of commands that reports wrong usage as its commands do."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """Parse the group's own part."""
        as_json = "--json" in args
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if not as_json:
                raise
            fail(InputError(error.format_message(), f"see: celery -A farm {info_name} --help"), as_json)
        context.meta["farm.json"] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Find the sub-command and run it."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not ctx.meta.get("farm.json"):
                raise
            fail(InputError(error.format_message(), f"see: celery -A farm {ctx.info_name} --help"), True)


def _show_every_letter() -> None:
    """Names that the terminal's locale has no letters for are shown with escapes, as stderr does."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _lost_index() -> type[Exception]:
    """Looked for only when a command has failed: the command line loads fast."""
    from redis.exceptions import RedisError  # noqa: PLC0415

    return RedisError


class Terminated(BaseException):
    """SIGTERM: the command leaves its job as an interrupted one does."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _ended(code: str, exit_code: int, as_json: bool) -> NoReturn:
    if as_json:
        write_json({"error": {"code": code, "message": f"the command was {code}", "fix": "run it again"}})
    else:
        sys.stderr.write(f"{code}\n")
    sys.exit(exit_code)


def fail(error: FarmError, as_json: bool) -> NoReturn:
    """Say what is wrong and how to mend it, and exit with the code of the error's kind."""
    if as_json:
        write_json({"error": {"code": error.code, "message": error.message, "fix": error.fix}})
    else:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Fix: {error.fix}\n" if error.fix else ""))
    sys.exit(error.exit_code)


def write_json(document: Any) -> None:
    """The one document on stdout; complete before anything else happens.

    Bytes of the command line that are no text stand in it as JSON's escapes of lone surrogates.
    """
    text = json.dumps(document, ensure_ascii=False, indent=1)
    sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def iso(time_ms: int) -> str:
    """A time of the server's clock, for people and programs."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
