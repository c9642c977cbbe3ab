"""Saving a paid release: in its folder, or in another one if that fails; signals wait until it is saved.

Ctrl-C and SIGTERM stop a command at once if no noise was drawn for the rows yet. After that the budget is spent, so
they wait until the release is saved and the ledger has committed it.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import typer

from dpeigen.cli._errors import tell
from dpeigen.estimators.course import Keeper
from dpeigen.privacy import Guarantee

__all__ = ["FolderKeeper", "Stopped", "signals_wait"]

_WAITS = b"dpeigen: stopping waits until the release is saved: noise was drawn, so its budget is spent.\n"


class Stopped(KeyboardInterrupt):
    """A signal that asks to stop."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = int(number)


class FolderKeeper(Keeper):
    """Saves a release in a folder as soon as it is made."""

    def __init__(self, out: Path, complete: Callable[[Any], Any] = lambda release: release) -> None:
        self.out, self._complete = out, complete
        self.release: Any = None
        self.where: Path | None = None  # None for a release that could only be printed
        self.signal = 0  # a signal that waits

    @property
    def busy(self) -> bool:
        """Whether stopping now would lose a paid release."""
        return self.course is not None and self.course.drawn and not self.course.over

    def keep(self, release: Any) -> None:
        try:
            self.release = self._complete(release)
        except Exception as error:  # whatever it is, what was paid for must not be lost
            self.release = release
            tell(f"The release could not be completed ({type(error).__name__}). It is saved as it was drawn.")
        self.where = _save(self.release, self.out)

    @property
    def words(self) -> str:
        """What happened to the budget."""
        return "Nothing was spent." if self.course is None else self.course.words


def _save(release: Any, out: Path) -> Path | None:
    """Save in the requested folder, else in a new one beside it, else in a temporary one, else on standard output."""
    folders: list[Callable[[], Path]] = [
        lambda: out,
        lambda: Path(tempfile.mkdtemp(prefix=f"{out.name}-", dir=out.absolute().parent)),  # for its owner only
        lambda: Path(tempfile.mkdtemp(prefix="dpeigen-release-")),
    ]
    for folder in folders:
        try:
            where: Path = release.save(folder())
        except Exception as error:  # whatever it is, what was paid for must not be lost
            why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            if folder is folders[0]:
                tell(f"The release could not be saved in {out}: {why}.")
            continue
        if where != out:
            tell(f"The release is in {where}.")
        return where
    plain = {field.name: _plain(getattr(release, field.name)) for field in fields(release)}
    typer.echo(json.dumps(plain, default=str))
    return None


def _plain(value: Any) -> Any:
    """A part of a release as JSON."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Guarantee):
        return value.to_dict()
    return dict(value) if hasattr(value, "keys") else value


@contextmanager
def signals_wait(keeper: FolderKeeper) -> Iterator[None]:
    """Signals raise `Stopped`, but wait while the keeper is busy."""

    def stop(number: int, _: FrameType | None) -> None:
        if not keeper.busy:
            raise Stopped(number)
        keeper.signal = number
        os.write(2, _WAITS)  # printing is not safe inside a handler

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
