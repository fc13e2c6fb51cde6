"""One call to compile, from requests to results: resolve, claim, wait for notices, fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from farm.client.ask import Ask
from farm.client.claiming import Claiming
from farm.client.fetch import Delivery
from farm.client.link import Link
from farm.client.part import Part
from farm.client.results import Progress, Result, count
from farm.client.tending import Tending
from farm.errors import FarmUnavailable, JobEnded
from farm.failpoint import reach
from farm.index.jobs import Holding, Scope
from farm.index.outcomes import Absent, Answer, Claimed, Failure, Hit, Joined, Refused
from farm.store.errors import StoreDamaged, StoreMissing

FETCH_THREADS = 4
#: A notice may be lost with the client that should have sent it: what waits is asked for again this often.
POLL_SECONDS = 5.0
_WAIT_MS = 500
_WAIT_WHILE_FETCHING_MS = 20
_BAD_BUNDLES_MAX = 2


class Compilation:
    """The state of one call: each ask is waiting, being fetched, or done."""

    def __init__(
        self, asks: Sequence[Ask], link: Link, claiming: Claiming, tending: Tending, delivery: Delivery,
        progress: Callable[[Progress], None],
    ) -> None:  # fmt: skip
        self._asks = asks
        self._link = link
        self._claiming = claiming
        self._tending = tending
        self._delivery = delivery
        self._progress = progress
        self._parts = list(dict.fromkeys(ask.part for ask in asks))
        self._by_key = {(ask.part, ask.key): ask for ask in asks}
        self._notices: dict[Part, str] = {}
        self._waiting: set[Ask] = set()
        #: What is fetched, and since when.
        self._fetching: dict[Future[Any], tuple[Ask, Holding, float]] = {}
        self._next_poll = time.monotonic() + POLL_SECONDS
        self._results: dict[int, Result] = {}
        self._counts = count([])
        self._total = sum(len(ask.positions) for ask in asks)
        self._compiling: tuple[str, ...] = ()
        self._store_deadline: float | None = None

    def run(self, timeout_seconds: float | None, wait: bool = True) -> list[Result]:
        """Answer all asks, or as many as the time allows; the rest are pending.

        Args:
            wait: False: only what is there already is answered.

        Raises:
            FarmUnavailable: the farm is gone for longer than the settings allow; what was fetched stays.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with ThreadPoolExecutor(FETCH_THREADS, thread_name_prefix="farm-fetch") as pool:
            try:
                for part in self._parts:
                    self._notices[part] = self._link.call(partial(part.index.last_notice, part.who.run))
                self._resolve(self._asks, pool)
                while ((wait and self._waiting) or self._fetching) and (
                    deadline is None or time.monotonic() < deadline
                ):
                    self._step(pool)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        for ask in self._asks:
            if not ask.done:
                self._results.update(ask.results())
        return [self._results[at] for at in sorted(self._results)]

    def _step(self, pool: ThreadPoolExecutor) -> None:
        told = self._wait_notices() if self._waiting else set()
        self._collect(pool, block=not self._waiting)
        if time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + POLL_SECONDS
            told |= self._waiting
        self._resolve(told & self._waiting, pool)
        if self._waiting and self._tending.due():
            self._tending.tend(_as_submitted(self._waiting), self._say)
            self._finish(ask for ask in _as_submitted(self._waiting) if ask.done)
            self._compiling = tuple(self._compile_now())
            self._report()

    def _compile_now(self) -> Iterator[str]:
        for part in self._parts:
            for key in self._link.call(part.index.compiling):
                ask = self._by_key.get((part, key))
                if ask in self._waiting:
                    yield ask.names[0]

    def _wait_notices(self) -> set[Ask]:
        told: set[Ask] = set()
        timeout_ms = (_WAIT_WHILE_FETCHING_MS if self._fetching else _WAIT_MS) // len(self._parts)
        for part in self._parts:
            position, keys = self._link.call(
                partial(part.index.wait_notices, part.who.run, self._notices[part], timeout_ms)
            )
            self._notices[part] = position
            told |= {self._by_key[part, key] for key in keys if (part, key) in self._by_key}
        return told

    def _resolve(self, asks: Iterable[Ask], pool: ThreadPoolExecutor) -> None:
        """Ask the index about these, claim what is absent, and put each where its answer says."""
        groups: dict[tuple[Part, Scope], list[Ask]] = {}
        for ask in _as_submitted(asks):  # so they are compiled
            groups.setdefault((ask.part, ask.scope), []).append(ask)
        for (part, scope), group in groups.items():
            try:
                self._resolve_in(part, scope, group, pool)
            except JobEnded as ended:
                self._cancel(part, group, ended)

    def _resolve_in(self, part: Part, scope: Scope, group: Sequence[Ask], pool: ThreadPoolExecutor) -> None:
        answers = part.acquire([ask.key for ask in group], scope)
        reach("acquire.after_acquire")
        self._use(part, group, answers)
        absent = []
        for ask, answer in zip(group, answers, strict=True):
            if isinstance(answer, Absent):
                absent.append(ask)
            else:
                self._place(ask, answer, pool)
        if absent:
            claimed = self._claiming.claim(part, absent)
            self._use(part, absent, claimed)
            for ask, answer in zip(absent, claimed, strict=True):
                self._place(ask, answer, pool)

    def _cancel(self, part: Part, group: Sequence[Ask], ended: JobEnded) -> None:
        """Somebody has ended the job: nothing of this part is waited for; what is being fetched is ours already."""
        fetched = {ask for ask, _, _ in self._fetching.values()}
        waited = {ask for ask in self._waiting if ask.part is part}
        over = [ask for ask in _as_submitted({*group, *waited} - fetched) if not ask.done]
        for ask in over:
            ask.fail(Failure("cancelled", ended.message))
        self._finish(over)

    def _use(self, part: Part, asks: Sequence[Ask], answers: Sequence[Answer]) -> None:
        """Before any is looked for: whoever cleans the node's folder leaves them there from now on."""
        hits = [ask.key for ask, answer in zip(asks, answers, strict=True) if isinstance(answer, Hit)]
        self._delivery.use(part.namespace, hits)

    def _place(self, ask: Ask, answer: Answer, pool: ThreadPoolExecutor) -> None:
        match answer:
            case Hit(generation, _):
                holding = Holding(generation, ask.key, answer.record)
                ask.part.hold(holding)
                self._waiting.discard(ask)
                future = pool.submit(self._delivery.fetch, ask.part.namespace, holding)
                self._fetching[future] = (ask, holding, time.monotonic())
            case Refused(failure, remembered):
                ask.fail(failure, remembered)
                self._finish([ask])
            case Claimed():
                ask.outcome = "compiled"
                self._waiting.add(ask)
            case Joined() if ask.outcome != "compiled":
                ask.outcome = "joined"
                self._waiting.add(ask)
            case _:
                self._waiting.add(ask)

    def _collect(self, pool: ThreadPoolExecutor, block: bool) -> None:
        if not self._fetching:
            return
        timeout = _WAIT_MS / 1000 if block else 0
        finished, _ = wait(self._fetching, timeout=timeout, return_when=FIRST_COMPLETED)
        in_order = [future for future in self._fetching if future in finished]
        again = [ask for future in in_order if (ask := self._collect_one(future))]
        self._resolve(again, pool)

    def _collect_one(self, future: Future[Any]) -> Ask | None:
        """Take one fetch's outcome; returns the ask when its bundle was bad and it must be asked again."""
        ask, holding, began = self._fetching.pop(future)
        try:
            files: dict[str, Path] = future.result()
        except (StoreMissing, StoreDamaged) as error:
            return self._drop(ask, holding, error)
        except FarmUnavailable as error:
            self._wait_for_store(error, began)
            return ask
        self._store_deadline = None
        ask.files, ask.compile_seconds = files, holding.record.compile_ms / 1000
        self._finish([ask])
        return None

    def _drop(self, ask: Ask, holding: Holding, error: Exception) -> Ask | None:
        """A bundle was bad or gone: forget the entry, warn once, and have it compiled again, once."""
        ask.part.held.pop(ask.key, None)
        index, record = ask.part.index, holding.record
        self._link.call(lambda: index.drop(holding.generation, ask.key, record.token))
        ask.bad_bundles += 1
        if ask.bad_bundles >= _BAD_BUNDLES_MAX:
            ask.fail(Failure("transient", f"the store gave {ask.bad_bundles} bad bundles in a row: {error}"))
            self._finish([ask])
            return None
        self._say(f"{ask.names[0]}: {error}; compiling it again")
        return ask

    def _wait_for_store(self, error: FarmUnavailable, began: float) -> None:
        """The store does not answer: as with the index, try for the reconnect bound, visibly."""
        if self._store_deadline is None:
            self._store_deadline = began + self._link.reconnect_seconds
            self._say(f"{error}; trying for {self._link.reconnect_seconds:g} s")
        if began >= self._store_deadline:
            raise error
        self._link.closed.wait(_WAIT_MS / 1000)

    def _finish(self, asks: Iterable[Ask]) -> None:
        for ask in asks:
            self._waiting.discard(ask)
            for at, result in ask.results():
                self._results[at] = result
                self._counts[result.outcome] += 1
                self._report(result)

    def _say(self, text: str) -> None:
        self._report(notice=text)

    def _report(self, result: Result | None = None, notice: str | None = None) -> None:
        self._progress(Progress(self._total, dict(self._counts), self._compiling, result, notice))


def _as_submitted(asks: Iterable[Ask]) -> list[Ask]:
    return sorted(asks, key=lambda ask: ask.positions)
