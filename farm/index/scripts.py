"""Loads the Lua files, joins what they include, and runs them by digest, one or many in a pipeline."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import NoScriptError

Argument = str | bytes | int

_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


@cache
def source(name: str) -> str:
    """The text of an operation's script, with the files it includes put in place."""
    lua = files("farm.index") / "lua"
    text = (lua / f"{name}.lua").read_text()
    return _INCLUDE.sub(lambda found: (lua / "lib" / f"{found[1]}.lua").read_text(), text)


@cache
def digest(name: str) -> str:
    """The name under which a server keeps the script."""
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """Runs scripts against one namespace: KEYS[1] is its meta, the last argument is the time under test."""

    def __init__(self, server: redis.Redis, meta_key: str) -> None:
        self.server: Any = server
        self.meta_key = meta_key

    def run(self, name: str, *arguments: Argument, now_ms: int | None = None) -> Any:
        """One call; a server that does not know the script yet (new, restarted, flushed) is given it."""
        return self.run_many(name, [arguments], now_ms=now_ms)[0]

    def run_many(self, name: str, calls: Iterable[Sequence[Argument]], *, now_ms: int | None = None) -> list[Any]:
        """Many calls of one script in one round trip, each atomic by itself.

        Raises:
            redis.exceptions.RedisError: nothing is known about the effect; the calls are safe to send again.
        """
        last: Argument = "" if now_ms is None else now_ms
        batch = [(*arguments, last) for arguments in calls]
        try:
            return self._send(name, batch)
        except NoScriptError:
            self.server.script_load(source(name))
            return self._send(name, batch)

    def _send(self, name: str, batch: list[tuple[Argument, ...]]) -> list[Any]:
        sha = digest(name)
        if len(batch) == 1:
            return [self.server.execute_command("EVALSHA", sha, 1, self.meta_key, *batch[0])]
        with self.server.pipeline(transaction=False) as pipe:
            for arguments in batch:
                pipe.execute_command("EVALSHA", sha, 1, self.meta_key, *arguments)
            replies: list[Any] = pipe.execute()
            return replies
