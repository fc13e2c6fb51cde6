"""What fails once a command's document is out: the exit code and stderr say it."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from farm.commands.base import FarmCommand, json_option, write_json
from farm.errors import FarmUnavailable


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """A command takes SIGTERM for itself."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FarmUnavailable("the farm went", "start it"), 3, "Error: the farm went\nFix: start it\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (PermissionError(errno.EACCES, "no"), 1, "Error: internal error: PermissionError: [Errno 13] no\n"),
    ],
)
def test_what_fails_after_the_document_is_said_on_stderr(error: BaseException, code: int, said: str) -> None:
    @click.command("late", cls=FarmCommand)
    @json_option
    def late(as_json: bool) -> None:
        write_json({"state": "done"})
        raise error

    result = CliRunner().invoke(late, ["--json"])
    assert json.loads(result.stdout) == {"state": "done"}
    assert result.exit_code == code and result.stderr.startswith(said)
