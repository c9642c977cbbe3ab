"""The steps of `pca`, `covariance`, `ridge` and `scoremap`: refuse, or plan, or pay, write and show.

Everything that can be refused is refused before a row is read or anything is spent: parameters, the ledger, a folder
that cannot be written to. After noise was drawn, a release is saved before the ledger commits and before anything else
is tried. If its folder fails, it is saved elsewhere.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpeigen._text import json_text
from dpeigen.cli._errors import (
    STOPPED,
    UNWRITTEN,
    USAGE,
    fail,
    one_line_errors,
    one_line_warnings,
    say_if_unrecorded,
)

if TYPE_CHECKING:
    from dpeigen.cli._keep import FolderKeeper
    from dpeigen.release import Release

__all__ = ["pay_and_write", "run"]

_RELEASE = ("release.json", "release.safetensors")


def run(command: str, given: Mapping[str, Any]) -> None:
    """Run one of the commands with its options, given by name."""
    with one_line_errors(), one_line_warnings():
        from dpeigen.cli._fit import prepare

        fit = prepare(command, given)
        out: Path | None = given["out"]
        if given["dry_run"]:
            from dpeigen.cli._dry_run import print_plan

            print_plan(fit, given["rows"], given["as_json"])
            return
        if out is None:
            fail(USAGE, "Give --out, a folder for the release, or --dry-run to see what would be done.")
        import dpeigen.report  # fails here if a package for the card is missing
        from dpeigen.cli._keep import FolderKeeper

        pay_and_write(
            fit.release,
            FolderKeeper(out, fit.completed),
            fit.source.n_features,
            ledger=fit.estimator.ledger,
            others=("card.html", "card.md", "figures"),
            draw=dpeigen.report.write_card,
            again="Try again, at no cost: dpeigen card {folder}",
            show=partial(_print, command, as_json=given["as_json"]),
        )


def pay_and_write(
    work: Callable[[], object],
    keeper: FolderKeeper,
    n_features: int,
    *,
    ledger: object,
    others: tuple[str, ...],
    draw: Callable[[Any, Path], object],
    again: str,
    show: Callable[[Any, Path], None],
) -> None:
    """Pay, save, draw, show. After noise was drawn, the release is kept whatever fails, and the message names it.

    ``others`` are the files that ``draw`` writes beside the release; ``again`` says how to draw them again.
    """
    from dpeigen.cli._keep import Stopped, signals_wait

    with signals_wait(keeper):
        try:
            with _folder(keeper.out, n_features, others):
                wrong = _paid(work, keeper)
            say_if_unrecorded(ledger)
            if keeper.where is not None:
                wrong += _drawn(keeper, draw, again)
                with suppress(BrokenPipeError):  # a closed pipe does not undo a release
                    show(keeper.release, keeper.where)
        except KeyboardInterrupt as stop:
            number = stop.number if isinstance(stop, Stopped) else 2
            if keeper.release is None:
                fail(STOPPED + number, f"Stopped. {keeper.words}")
            wrong = ["Stopped after the release was made."]
    if keeper.where is None:
        wrong.append("The release, which was paid for, could not be saved anywhere. It was printed: keep it.")
    elif keeper.where != keeper.out:
        wrong.append(f"--out {keeper.out} could not be written to. The release is in {keeper.where}: copy it.")
    elif wrong and not any(str(keeper.where) in text for text in wrong):
        wrong.append(f"The release is in {keeper.where}.")
    if wrong:
        fail(UNWRITTEN, " ".join(wrong))


def _paid(work: Callable[[], object], keeper: FolderKeeper) -> list[str]:
    """Make the release, which the keeper then has; returns what went wrong after it was made."""
    from dpeigen.estimators.course import PaidError, kept_by
    from dpeigen.sources import show_progress

    try:
        with show_progress(), kept_by(keeper):
            work()
    except PaidError as error:
        if keeper.release is None:
            fail(UNWRITTEN, error)
        return [str(error).replace(" This error holds it as its attribute 'release'.", "")]
    except Exception as error:
        if keeper.release is None and (keeper.course is None or not keeper.course.drawn):
            raise
        # The message is not shown: it may contain values of the data.
        text = f"Unexpected {type(error).__name__} after noise was drawn; this is a bug, please report. {keeper.words}"
        if keeper.release is None:
            fail(UNWRITTEN, text)
        return [text]
    return []


def _drawn(keeper: FolderKeeper, draw: Callable[[Any, Path], object], again: str) -> list[str]:
    """Draw, unless a signal waits; returns what to do if that fails. The release is already saved."""
    from dpeigen.cli._show import error_console

    folder, why = keeper.where, "stopped by a signal"
    if folder is None:
        raise AssertionError("a release that is nowhere has no pictures")
    if not keeper.signal:
        try:
            with error_console().status("Drawing"):
                draw(keeper.release, folder)
            return []
        except Exception as error:
            why = type(error).__name__
        except KeyboardInterrupt:
            pass
    return [f"The release is in {folder}, but its pictures could not be written ({why}). {again.format(folder=folder)}"]


@contextmanager
def _folder(out: Path, n_features: int, others: tuple[str, ...]) -> Iterator[None]:
    """A writable folder, made before anything is spent and removed again if nothing was released."""
    if out.exists() and not out.is_dir():
        fail(USAGE, f"--out {out} is a file. Give the path of a folder.")
    there = [name for name in (*_RELEASE, *others) if (out / name).exists()]
    if there:
        holds = "already holds a release, which was paid for" if there[0] in _RELEASE else f"already holds {there[0]}"
        fail(USAGE, f"--out {out} {holds}. Choose another folder.")
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:  # try to write: permissions are not enough to know
            probe.write(b"dpeigen")
    except OSError as error:
        _remove(out, made)
        fail(USAGE, f"--out {out} cannot be written to: {error.strerror}. Choose another folder.")
    needed = 16 * n_features**2 + 2**23
    if shutil.disk_usage(out).free < needed:
        _remove(out, made)
        fail(USAGE, f"--out {out} has no room for the release ({needed >> 20} MB). Choose another folder.")
    try:
        yield
    except BaseException:
        _remove(out, made)
        raise


def _remove(folder: Path, made: bool) -> None:
    if made and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _print(command: str, release: Release, out: Path, *, as_json: bool) -> None:
    from dpeigen.cli import _show

    if as_json:
        typer.echo(json_text(_show.as_json(release, str(out))))
        return
    console = _show.console()
    _show.show_release(console, release, f"Private {'PCA' if command == 'pca' else command}")
    for table in _show.contents_tables(release):
        console.print(table)
    console.print(f"Release written to {out}", markup=False)
    if (out / "card.html").exists():
        console.print(f"Open {out / 'card.html'} in a browser, or publish the folder.", markup=False)
