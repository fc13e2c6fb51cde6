"""What is changed in a file, that all of it is still a program, and that a reason is written for mutants there are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import redis

from farm.embedded.server import Server
from tests.mutants import lua, python
from tests.mutants.__main__ import COORDINATOR, SCRIPTS, files, mutants_of
from tests.mutants.reviewed import reviewed

FENCE = """
-- a comment with 'if' in it
if not row[1] or row[2] ~= token and now < tonumber(row[3] or '0') then
  redis.call('ZADD', P .. 'tombs', 'NX', now, path)
  count(math.max(a, b + 1))
  return 'lost'
end
redis.call('HSET', key, 'state', 'queued', 'worker', worker)
local gone = redis.call('ZRANGEBYSCORE', P .. 'running', '-inf', now, 'LIMIT', 0, limit)
made[ref] = true
"""


def test_what_is_changed_in_lua() -> None:
    changes = {one.change for one in lua.mutants("x.lua", FENCE)}
    condition = "not row[1] or row[2] ~= token and now < tonumber(row[3] or …"
    assert changes == {
        f"{condition} is true", f"{condition} is false", "not row[1] is false",
        "row[2] ~= token and now < tonumber(row[3] or '0') is false", "row[2] ~= token is true",
        "now < tonumber(row[3] or '0') is true", "row[3] is false", "'0' is false", "< is <=", "+ is -",
        "without redis.call('ZADD', P .. 'tombs', 'NX', now, path)", "without 'NX'",
        "without count(math.max(a, b + 1))", "math.max(a, b + 1) is a", "math.max(a, b + 1) is b + 1",
        "without redis.call('HSET', key, 'state', 'queued', 'worker', worker)", "without 'state', 'queued'",
        "without 'worker', worker", "now is '+inf'", "without 'LIMIT', 0, limit", "without made[ref] = true",
    }  # fmt: skip


RULE = """
def serve(self):
    if self.leads and now >= self.until:
        logger.info("leading")
        self.hold(max(a, b))
    while more():
        done += 1
    self.seen[x] = [y for y in rows if y.lives]
"""


def test_what_is_changed_in_python() -> None:
    changes = {one.change for one in python.mutants("x.py", RULE)}
    assert changes == {
        "self.leads and now >= self.until is True", "self.leads and now >= self.until is False", "self.leads is True",
        "now >= self.until is True", "now >= self.until is now > self.until", "without self.hold(max(a, b))",
        "max(a, b) is a", "max(a, b) is b", "more() is False", "without done += 1", "y.lives is True",
        "without self.seen[x] = [y for y in rows if y.lives]",
    }  # fmt: skip


@pytest.mark.parametrize("file", [file for file in files([]) if file.startswith(SCRIPTS)])
def test_each_is_still_lua(server: Server, file: str) -> None:
    text = Path(file).read_text()
    names = [one.name for one in mutants_of(file)]
    assert len(names) == len(set(names))
    with redis.Redis.from_url(server.url) as client:
        for one in mutants_of(file):
            changed = text[: one.start] + one.new + text[one.end :]

            client.script_load(changed)


@pytest.mark.parametrize("file", [file for file in files([]) if file.startswith(COORDINATOR)])
def test_each_is_still_python(file: str) -> None:
    text = Path(file).read_text()
    for one in mutants_of(file):
        ast.parse(text[: one.start] + one.new + text[one.end :])


def test_each_reason_is_one_of_a_mutant() -> None:
    names = {one.name for file in files([]) for one in mutants_of(file)}
    assert set(reviewed()) <= names
    assert all(len(why) > 10 for why in reviewed().values())
