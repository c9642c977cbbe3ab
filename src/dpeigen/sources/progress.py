"""Progress of a pass: a bar on a terminal with rows per second and the time left; nothing elsewhere.

It is off unless asked for (`show_progress`, which the command line uses). Programs that run a command may name a file
in the environment variable ``DPEIGEN_PROGRESS``: from time to time a line of JSON is written to it, with the number of
the pass and, if public, the rows read. If the number of rows is private, only the number of the pass and the time are
shown. With units it is private: how many units were read after so many rows depends on how many rows each has.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

__all__ = ["FILE", "meter", "rows_are_public", "show_progress"]

_bars: ContextVar[Any] = ContextVar("bars", default=None)  # rich's Progress, or None
_rows_public: ContextVar[bool] = ContextVar("rows_public", default=True)
FILE = "DPEIGEN_PROGRESS"
_STEP = 0.2  # seconds between lines


class _Lines:
    """The part of rich's Progress that is used here, as lines in a file. Errors in writing them are ignored."""

    def __init__(self, path: str) -> None:
        self._path, self._last = path, 0.0
        self.task_ids: list[int] = []
        self._totals: list[int | None] = []

    def add_task(self, _: str, *, total: int | None, number: int, **__: Any) -> int:
        self.task_ids.append(number)
        self._totals.append(total)
        self._write(number, 0, total)
        return len(self.task_ids) - 1

    def update(self, task: int, *, completed: int, total: int | None = None, **__: Any) -> None:
        ended = total is not None
        if ended or time.monotonic() - self._last >= _STEP:
            known = self._totals[task]
            self._write(self.task_ids[task], None if ended else completed, known, ended)

    def _write(self, number: int, rows: int | None, total: int | None, ended: bool = False) -> None:
        self._last = time.monotonic()
        line = json.dumps({"pass": number, "rows": rows, "of": total, "ended": ended})
        with suppress(OSError), open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


@contextmanager
def show_progress(console: Any = None) -> Iterator[None]:
    """Show a bar for every pass over rows inside this context, if standard error is a terminal.

    Parameters
    ----------
    console : rich.console.Console, default=None
        Where to show it; None: standard error.

    Examples
    --------
    >>> with show_progress():
    ...     pass  # PrivatePCA(...).fit("rows.parquet")
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if path := os.environ.get(FILE):
        token = _bars.set(_Lines(path))
        try:
            yield
        finally:
            _bars.reset(token)
        return
    console = console if console is not None else Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("pass {task.fields[number]}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        token = _bars.set(bars)
        try:
            yield
        finally:
            _bars.reset(token)


@contextmanager
def rows_are_public(public: bool) -> Iterator[None]:
    """Set whether progress bars may show the number of rows."""
    token = _rows_public.set(public)
    try:
        yield
    finally:
        _rows_public.reset(token)


@contextmanager
def meter(total: int | None) -> Iterator[Callable[[int], None]]:
    """A function for one pass, to be called with the number of rows just read."""
    bars = _bars.get()
    if bars is None:
        yield lambda _: None
        return
    public = _rows_public.get()
    task = bars.add_task("", total=total if public else None, number=len(bars.task_ids) + 1, rate="")
    done, start, lock = 0, time.monotonic(), threading.Lock()

    def advance(rows: int) -> None:
        nonlocal done
        if public:
            with lock:
                done += rows
                bars.update(task, completed=done, rate=_rate(done, total, time.monotonic() - start))

    yield advance
    bars.update(task, total=1, completed=1)


def _rate(done: int, total: int | None, seconds: float) -> str:
    """Rows per second, and the time left if the number of rows is known."""
    speed = done / max(seconds, 1e-9)
    left = "" if total is None else f", {max(0, total - done) / speed:.0f} s left"
    return f"{speed:,.0f} rows/s{left}"
