"""What all commands share: one JSON document on stdout, one line for an error, and the exit codes.

Exit: 0 well, 1 the work failed, 2 wrong usage or input, 3 the farm can not be reached, 130 interrupted.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NoReturn

import click
from celery.bin.base import CeleryCommand, CeleryOption

# Loaded before Celery puts the user's folder on the path, where a file may have the name of a library of ours.
import farm.addresses  # noqa: F401
from farm.commands.streams import settle
from farm.errors import FarmError, FarmUnavailable, InputError

INTERRUPTED = 130
TERMINATED = 143

_NO_OUTPUT = (errno.EPIPE, errno.ENOSPC)
#: Set in a context's meta, which all contexts of a command line share.
_ANSWERED = "farm.answered"

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


class FarmContext(click.Context):
    """Where a command stands, by a name that can be typed: Celery's own leaves ``-A farm`` out."""

    @property
    def command_path(self) -> str:
        """The words up to here."""
        above = self.parent.command_path if isinstance(self.parent, FarmContext) else "celery -A farm"
        return f"{above} {self.info_name}"


class FarmCommand(CeleryCommand):  # type: ignore[misc]
    """A command whose every error is one line (or one JSON document), with the exit code of its kind."""

    context_class = FarmContext

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse; wrong usage is reported like any other wrong input."""
        settle()
        with _lost_output(), _usage("--json" in args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run; a terminated command leaves its job as an interrupted one does."""
        signal.signal(signal.SIGTERM, _terminate)
        with _lost_output():
            return self._run(ctx, bool(ctx.params.get("as_json")))

    def _run(self, ctx: Any, as_json: bool) -> Any:
        try:
            return super().invoke(ctx)
        except FarmError as error:
            fail(error, as_json)
        except KeyboardInterrupt:
            _ended("interrupted", INTERRUPTED, as_json)
        except Terminated:
            _ended("terminated", TERMINATED, as_json)
        except _lost_index() as error:
            fail(FarmUnavailable(f"the index server was lost meanwhile: {error}", "run the command again"), as_json)
        except click.ClickException:
            raise
        except Exception as error:  # a fault of ours is still one line and one document
            if isinstance(error, OSError) and error.errno in _NO_OUTPUT:
                raise
            fail(FarmError(f"internal error: {type(error).__name__}: {error}", "please report this"), as_json)


class FarmGroup(click.Group):
    """A group of commands that reports wrong usage as its commands do."""

    context_class = FarmContext

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """Parse the group's own part."""
        settle()
        as_json = "--json" in args
        with _lost_output(), _usage(as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta["farm.json"] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Find the sub-command and run it."""
        with _lost_output(), _usage(bool(ctx.meta.get("farm.json"))):
            return super().invoke(ctx)


@contextmanager
def _usage(as_json: bool) -> Iterator[None]:
    """Wrong usage as a document, where one is wanted; else click shows it."""
    try:
        yield
    except click.UsageError as error:
        if not as_json:
            raise
        command = error.ctx.command_path if error.ctx else "celery -A farm"
        fail(InputError(error.format_message(), f"see: {command} --help"), as_json)


@contextmanager
def _lost_output() -> Iterator[None]:
    """A command whose output nobody takes has failed, without a word when its reader has just gone."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_OUTPUT:
            raise
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the interpreter flushes it at exit
        if error.errno == errno.ENOSPC:
            fail(FarmError(f"the output can not be written: {error.strerror}", "free some space there"), False)
        sys.exit(1)


def _lost_index() -> type[Exception]:
    """Looked for only when a command has failed: the command line loads fast."""
    from redis.exceptions import RedisError  # noqa: PLC0415

    return RedisError


class Terminated(BaseException):
    """SIGTERM: the command leaves its job as an interrupted one does."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _ended(code: str, exit_code: int, as_json: bool) -> NoReturn:
    if as_json and not _is_answered():
        write_json({"error": {"code": code, "message": f"the command was {code}", "fix": "run it again"}})
    else:
        sys.stderr.write(f"{code}\n")
    sys.exit(exit_code)


def fail(error: FarmError, as_json: bool) -> NoReturn:
    """Say what is wrong and how to mend it, and exit with the code of the error's kind.

    Once the one document is out, what fails afterwards (a hold, the end of a job) is said on stderr.
    """
    if as_json and not _is_answered():
        write_json({"error": {"code": error.code, "message": error.message, "fix": error.fix}})
    else:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Fix: {error.fix}\n" if error.fix else ""))
    sys.exit(error.exit_code)


def write_json(document: Any) -> None:
    """The one document on stdout; complete before anything else happens.

    Bytes of the command line that are no text stand in it as JSON's escapes of lone surrogates.
    """
    text = json.dumps(document, ensure_ascii=False, indent=1)
    click.get_current_context().meta[_ANSWERED] = True  # also when it is stopped half-way: no second one behind it
    sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def _is_answered() -> bool:
    return bool(click.get_current_context().meta.get(_ANSWERED))


def iso(time_ms: int) -> str:
    """A time of the server's clock, for people and programs."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
