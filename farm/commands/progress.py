"""Shows a submission as it goes: a bar on a terminal, one line a change elsewhere; always on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from farm.client.results import Progress

_SHOWN = 3


class View(Protocol):
    """Takes the moments of a submission; a context manager."""

    def __call__(self, progress: Progress) -> None:
        """Show one moment."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def view(total: int) -> View:
    """The view that fits stderr."""
    return BarView(total, sys.stderr) if sys.stderr.isatty() else LineView(sys.stderr)


class LineView:
    """One line for each operator that is answered and for each notice."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = 0

    def __call__(self, progress: Progress) -> None:
        """Write what has changed."""
        if progress.notice:
            self._stream.write(f"farm: {progress.notice}\n")
        if (result := progress.result) is not None:
            self._done += 1
            seconds = "" if result.compile_seconds is None else f" ({result.compile_seconds:.2f} s to compile)"
            why = f": {result.error.failure.message.splitlines()[0]}" if result.error else seconds
            self._stream.write(f"[{self._done}/{progress.total}] {result.name} {result.outcome}{why}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class BarView:
    """A bar with the counts, the elapsed time and what is being compiled."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"), TextColumn("{task.fields[now]}", markup=False),
            console=Console(file=stream),
        )  # fmt: skip
        self._task = self._bars.add_task("kernels", total=total, counts="", now="")

    def __call__(self, progress: Progress) -> None:
        """Redraw; notices and failures stay above the bar."""
        if progress.notice:
            self._bars.console.print(f"farm: {progress.notice}", markup=False)
            return
        if progress.result is not None and progress.result.error is not None:
            first = progress.result.error.failure.message.splitlines()[0]
            self._bars.console.print(f"{progress.result.name} failed: {first}", markup=False)
        counts = progress.counts
        shown = " ".join(f"{name} {counts[name]}" for name in ("hit", "compiled", "joined", "failed") if counts[name])
        names = progress.compiling
        now = ("compiling " + ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")) if names else ""
        self._bars.update(self._task, completed=sum(counts.values()), counts=shown, now=now)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
