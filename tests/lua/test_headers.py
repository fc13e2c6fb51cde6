"""The fixed header of every Lua file says what the file does: it is read here and compared with the code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import farm.index
from farm.index import names
from farm.index.leader import Leadership
from farm.index.outcomes import Failure
from farm.index.plans import Plans
from farm.index.registry import Offer, Registry, Worker
from farm.index.scripts import source
from farm.index.sources import SourceEpochs
from farm.namespace import BundleId
from tests.lua.world import QUEUE, RULES, World, key, keys

LUA = Path(farm.index.__file__).parent / "lua"
SCRIPTS = sorted(path.stem for path in LUA.glob("*.lua"))
LIBS = sorted(path.stem for path in (LUA / "lib").glob("*.lua"))

HEADER = re.compile(
    r"""--\[\[\ (?P<name>\w+):\ (?P<purpose>[^\n]+\.)(?P<more>\n\ \ [A-Z][^\n]+)?\n
        \ \ KEYS\[1\]\ meta\ +hash[^\n]*\n
        (?P<argv>(?:\ \ ARGV\[[^\n]+\n(?:\ {10,}[^\n]+\n)*)+)
        (?:\ \ BUILDS\ (?P<builds>[^\n]+(?:\n\ {9}[^\n]+)*)\n)?
        \ \ RETURNS\ (?P<returns>[^\n]+(?:\n\ {10,}[^\n]+)*)\n\]\]\n""",
    re.VERBOSE,
)
ARGUMENT = re.compile(r"  ARGV\[(\d+|last)(\.\.\.)?\] (\w+) +(str|int|bytes)(\?)?(?: +(\S.*))?\n")
FUNCTION = re.compile(r"^local function (\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
PREFIX = re.compile(r"P \.\. '(\w+)(?=[:'])")


@dataclass(frozen=True)
class Header:
    """What a file says of itself: fixed arguments with their types, the group that repeats, what it builds."""

    fixed: dict[str, str]
    group: list[str]
    builds: set[str]


def header(name: str) -> Header:
    text = (LUA / f"{name}.lua").read_text()
    found = HEADER.match(text)
    assert found, f"{name}.lua has no header in the fixed form:\n{text[:1500]}"
    assert found["name"] == name
    rows = ARGUMENT.findall(found["argv"])
    assert rows, found["argv"]
    fixed: dict[str, str] = {}
    group: list[str] = []
    for at, (number, dots, argument, kind, _, rest) in enumerate(rows, 1):
        if dots:
            group = [argument, *re.findall(r"(\w+) \((?:int|str|bytes)\)", rest)]
        elif number != "last":
            fixed[argument] = kind
            assert int(number) == at
    last = rows[-1]
    assert (last[2], last[3], last[4]) == ("now_ms", "int", "?"), "the last argument is the time under test"
    if not group:
        del fixed["now_ms"]
    return Header(fixed, group, {word.partition(":")[0] for word in (found["builds"] or "").split()})


def body(name: str) -> str:
    """The script with what it includes, without comments."""
    return re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", source(name), flags=re.DOTALL)


def built(name: str) -> set[str]:
    """The prefixes that the script can build: its own, and those of the functions it can get to."""
    text = body(name)
    functions = {found[1]: found[0] for found in FUNCTION.finditer(text)}
    todo, reached = [FUNCTION.sub("", text)], set()
    while todo:
        for word in set(re.findall(r"\w+", todo.pop())) & functions.keys() - reached:
            reached.add(word)
            todo.append(functions[word])
    return set(PREFIX.findall(FUNCTION.sub("", text) + "".join(functions[word] for word in reached)))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_arguments_are_bound_under_the_names_of_the_header(name: str) -> None:
    said = list(header(name).fixed)
    bound: dict[int, str] = {}
    for variables, values in re.findall(r"^local ([\w, ]+) = ((?:ARGV\[\d+\](?:, )?)+)$", body(name), re.MULTILINE):
        numbers = [int(number) for number in re.findall(r"\d+", values)]
        bound |= dict(zip(numbers, variables.split(", "), strict=True))
    assert ["generation" if bound[number] == "g" else bound[number] for number in sorted(bound)] == said
    assert sorted(bound) == list(range(1, len(said) + 1))


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_script_builds_is_what_its_header_says(name: str) -> None:
    assert built(name) == header(name).builds


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_header_names_is_in_the_table_of_keys(name: str) -> None:
    table = names.__doc__ or ""
    rows = {line.split()[0].partition(":")[0] for line in table.splitlines() if line.startswith("    ")}
    assert header(name).builds <= rows


@pytest.mark.parametrize("name", SCRIPTS + [f"lib/{lib}" for lib in LIBS])
def test_no_key_is_built_but_in_the_one_form(name: str) -> None:
    """Every use of the prefix is ``P .. 'kind``, so that the test above sees it; only base makes the prefix."""
    text = re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", (LUA / f"{name}.lua").read_text(), flags=re.DOTALL)
    uses = len(re.findall(r"\bP\b", text)) - len(PREFIX.findall(text))
    allowed = {"lib/base": 1, "lib/interest": 1}.get(name, 0)
    assert uses == allowed
    assert "KEYS *" not in text and "'SCAN'" not in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_included_file_is_used_and_comes_after_what_it_needs(name: str) -> None:
    text = (LUA / f"{name}.lua").read_text()
    includes = re.findall(r"^--@include (\w+)$", text, re.MULTILINE)
    assert includes[0] == "base"
    for at, lib in enumerate(includes[1:], 1):
        lib_text = (LUA / "lib" / f"{lib}.lua").read_text()
        needs = re.search(r"Needs ([\w, ]+)\.", lib_text)
        assert needs and set(needs[1].split(", ")) <= set(includes[:at])
        offered = re.findall(r"^local (?:function )?(\w+)", lib_text, re.MULTILINE)
        assert any(re.search(rf"\b{word}\(", body(name).replace(lib_text, "")) for word in offered), lib


def tour(world: World) -> None:
    """Every operation once."""
    index, who = world.index, world.join()
    held = world.compiled(who, *keys(3))
    index.acquire(who, keys(5))
    index.choose(who, "host", "a" * 64)
    world.claim(who, key(7), key(8))
    index.renew([world.take(f"t{n}").claim for n in range(2)], 1000)
    index.fail(world.take("t1").claim, Failure("rejected", "no"), RULES)
    index.reclaim(RULES)
    index.wake(QUEUE, 1)
    index.drop(1, key(0), held[0].record.token)
    index.announce(who, held)
    index.heartbeat(who)
    index.end_lapsed()
    ended = world.join("ended")
    index.end(ended.job, ended.incarnation, "cancel", "somebody", 1000)
    world.end(who)
    index.set_limits(1000, 50, "default", ageing=True)
    index.ask_purge("operator")
    index.purge_queue()
    index.raise_to(2)
    index.drain()
    index.evict(0, 0)
    index.condemn_orphans([("path", BundleId(2, key(9), 5))])
    index.adopt([(BundleId(2, key(8), 6), held[0].record)])
    index.reserve(2, keys(2), 1000)
    index.mark_deleting(0)
    index.swept(["gone"])
    index.hold(1, 1)
    leadership = Leadership(world.redis)
    leadership.scripts = world.scripts
    leadership.lead("c1", 1000)
    plans = Plans(world.redis)
    plans.scripts = world.scripts
    plans.begin("task", {"version": 1}, {}, 1000)
    epochs = SourceEpochs(world.redis)
    epochs.scripts = world.scripts
    epochs.lease()
    registry = Registry(world.redis)
    registry.scripts = world.scripts
    registry.register(Worker("w", "host", 1, 2, (QUEUE,)), [Offer("host", "a" * 64, "1")], 1000)
    registry.workers()
    registry.slots()


def test_python_passes_what_the_header_names(world: World) -> None:
    tour(world)
    assert {name for name, _ in world.scripts.sent} == set(SCRIPTS)
    for name, arguments in world.scripts.sent:
        said = header(name)
        more = len(arguments) - len(said.fixed)
        assert more == 0 or (said.group and more > 0 and more % len(said.group) == 0), name
        for argument, (what, kind) in zip(arguments, said.fixed.items(), strict=False):
            assert kind != "int" or int(argument) >= 0, what
