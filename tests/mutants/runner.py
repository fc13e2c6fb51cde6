"""Runs the tests on each mutant: collected once, then one forked process for each, which goes on as a plain pytest."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from farm.embedded.server import Server, start
from farm.index import scripts
from tests.mutants.memory import Judge, Memory
from tests.mutants.mutant import Mutant
from tests.mutants.python import swap
from tests.mutants.reached import Reached

LAYERS = {
    "lua": "tests/lua/", "coordinator": "tests/coordinator/", "walks": "tests/lua/test_walk",
    "property": "tests/property/", "fault": "tests/fault/",
}  # fmt: skip

#: Run when the others have noticed nothing.
SLOW = ("property", "fault")


def layer_of(test: str) -> str:
    """The layer of a test, by its place."""
    return max((name for name in LAYERS if test.startswith(LAYERS[name])), key=lambda name: len(LAYERS[name]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The test that noticed a mutant; None: it survived all that run it."""

    mutant: Mutant
    killer: str | None
    seconds: float


class Runner:
    """A plugin of pytest. ``labels`` names what a mutant's line is part of."""

    def __init__(
        self, root: Path, mutants: Sequence[Mutant], labels: Callable[[Mutant], set[str]], memory: Memory,
        layers: Sequence[str], tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.root = root
        self.mutants = mutants
        self.labels = labels
        self.memory = memory
        self.layers = layers
        self.tell = tell
        self.server: Server
        self.verdicts: list[Verdict] = []
        self.tests: dict[str, Judge] = {}
        self._kills: Counter[str] = Counter()
        self._tries: Counter[str] = Counter()
        #: Whether any mutant is one of Python.
        self._of_python = any(one.file.endswith(".py") for one in mutants)
        self._nowhere = Path(os.devnull).open("w")  # noqa: SIM115 (as long as the process lives)
        self._pipe: int | None = None
        self._reached: Reached | None = None
        self._stamp = int(time.time()) - 1_000_000

    def pytest_configure(self) -> None:
        """A failing example is enough; a smaller one would be sought for long."""
        import hypothesis

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile("mutants", phases=phases)
        hypothesis.settings.load_profile("mutants")

    # -- in the process that was forked ----------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only tests of the layers that are asked for."""
        items[:] = [item for item in items if layer_of(item.nodeid) in self.layers]

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Any:
        """The tests of all mutants share one server, as those of one run do."""
        if fixturedef.argname != "session_server":
            return None
        fixturedef.cached_result = (self.server, fixturedef.cache_key(request), None)
        return self.server

    @property
    def is_fork(self) -> bool:
        """Whether this process only runs the tests of one mutant."""
        return self._pipe is not None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell the first process how a test goes."""
        if self._pipe is not None:
            row = {"test": report.nodeid, "failed": report.failed, "seconds": report.duration, "reached": []}
            row["when"] = report.when
            if self._reached and report.when == "teardown":
                row["reached"] = self._reached.take()
            os.write(self._pipe, json.dumps(row).encode() + b"\n")

    # -- in the first process --------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Ask each test what it runs, then judge all mutants; a forked process leaves here and runs its tests."""
        self.server = start(self.root.parent / "server")
        try:
            return self._run_all(session)
        finally:
            if not self.is_fork:
                self.server.stop()

    def _run_all(self, session: pytest.Session) -> bool | None:
        self._ask(session)
        for name, test in self.tests.items():
            if not test.passes:
                self.tell(f"fails without any mutant, so it judges none: {name}")
        for number, mutant in enumerate(self.mutants, 1):
            if self.is_fork:
                return None
            self._judge(session, number, mutant)
        return None if self.is_fork else True

    def _ask(self, session: pytest.Session) -> None:
        self.tests = {item.nodeid: judge for item in session.items if (judge := self.memory.judge(item.nodeid))}
        unknown = [item for item in session.items if item.nodeid not in self.tests]
        for row in self._run(session, unknown, None, 3600):
            test = self.tests.setdefault(row["test"], Judge())
            test.seconds += row["seconds"]
            test.reached += row["reached"]
            test.passes &= not row["failed"]
        if not self.is_fork:
            self.memory.keep(self.tests)

    def _judge(self, session: pytest.Session, number: int, mutant: Mutant) -> None:
        began, killer = time.monotonic(), None
        chosen = self._chosen(session, mutant)
        limit_seconds = 10 + 4 * sum(self.tests[item.nodeid].seconds for item in chosen)
        for row in self._run(session, chosen, mutant, limit_seconds):
            self._tries[row["test"]] += row["when"] == "call"
            if row["failed"]:
                killer = killer or row["test"]
        if self.is_fork:
            return
        if killer:
            self._kills[killer] += 1
            self.memory.killers[mutant.name] = killer
        if number % 50 == 0:
            self.memory.keep(self.tests)
        self.verdicts.append(Verdict(mutant, killer, time.monotonic() - began))
        end = f"{killer or 'SURVIVES'} ({self.verdicts[-1].seconds:.1f} s)"
        self.tell(f"{number}/{len(self.mutants)} {mutant.name}: {end}")

    def _chosen(self, session: pytest.Session, mutant: Mutant) -> list[pytest.Item]:
        """The tests that run the mutant's line, the most promising ones first."""
        labels, last = self.labels(mutant), self.memory.killers.get(mutant.name)
        order = list(LAYERS)

        def rank(item: pytest.Item) -> tuple[bool, int, bool, float]:
            name, layer = item.nodeid, layer_of(item.nodeid)
            promise = (0.3 + self._kills[name]) / (1 + self._tries[name]) / (0.05 + self.tests[name].seconds)
            is_namesake = Path(mutant.file).stem in item.path.stem
            return name != last, order.index(layer) if layer in SLOW else 0, not is_namesake, -promise

        judges = [item for item in session.items if self.tests[item.nodeid].passes]
        if mutant.file.endswith(".lua"):  # whole farms are for the coordinator's own code
            judges = [item for item in judges if layer_of(item.nodeid) != "fault"]
        return sorted((item for item in judges if labels & set(self.tests[item.nodeid].reached)), key=rank)

    def _run(
        self, session: pytest.Session, items: list[pytest.Item], mutant: Mutant | None, limit_seconds: float
    ) -> Iterator[Any]:
        """Fork; the first process is given the rows of the tests, the new one none. Too long counts as failed."""
        text = (self.root / mutant.file).read_text() if mutant else ""
        if mutant:
            mutant.write(self.root, text)
            self._touch(mutant)
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(out)
            self._become(session, items, mutant, into)
            return
        os.close(into)
        try:
            yield from _rows(out, time.monotonic() + limit_seconds)
        finally:
            os.close(out)
            _end(child)
            if mutant:
                (self.root / mutant.file).write_text(text)
                self._touch(mutant)

    def _become(self, session: pytest.Session, items: list[pytest.Item], mutant: Mutant | None, pipe: int) -> None:
        os.setsid()
        session.config.get_terminal_writer()._file = self._nowhere
        self._pipe = pipe
        session.items = items
        if mutant is None:
            self._reached = Reached(self.root / "reached", self._of_python)
        else:
            session.config.option.maxfail = 1
            scripts.source.cache_clear()
            scripts.digest.cache_clear()
            swap(self.root, mutant.file)

    def _touch(self, mutant: Mutant) -> None:
        """Another time each time: compiled Python is kept by time and size."""
        self._stamp += 1
        os.utime(self.root / mutant.file, (self._stamp, self._stamp))


def _rows(pipe: int, deadline: float) -> Iterator[Any]:
    rest, running = b"", "the start of the tests"
    while ready := select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
        data = os.read(ready[0], 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield (row := json.loads(line))
            running = row["test"]
    yield {"test": f"tests/lua/ hangs after {running}", "failed": True, "seconds": 0.0, "when": "call"}


def _end(child: int) -> None:
    """End it and all that it has started, if it has not ended by itself."""
    deadline = time.monotonic() + 10
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.005)
