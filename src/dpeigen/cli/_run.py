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

from dpeigen._text import clean, json_text
from dpeigen.cli._errors import (
    STOPPED,
    UNWRITTEN,
    USAGE,
    fail,
    one_line_errors,
    one_line_warnings,
    say_if_unrecorded,
    tell,
)

if TYPE_CHECKING:
    from dpeigen.cli._fit import Fit
    from dpeigen.cli._keep import FolderKeeper
    from dpeigen.estimators.rehearsal import FitPlan
    from dpeigen.release import Release

__all__ = ["pay_and_write", "plan_facts", "run"]

_RELEASE = ("release.json", "release.safetensors")


def run(command: str, given: Mapping[str, Any]) -> None:
    """Run one of the commands with its options, given by name."""
    with one_line_errors(), one_line_warnings():
        from dpeigen.cli._fit import prepare

        fit = prepare(command, given)
        out: Path | None = given["out"]
        if given["dry_run"]:
            _print_plan(fit, given["rows"], given["as_json"])
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


def _expected(plan: FitPlan) -> list[str]:
    """What a user should know before paying."""
    found = plan.warnings
    if plan.cost.delta == 0:
        found.append(
            "delta is 0. That is pure privacy, which needs far more rows for the same error. A small delta, well below "
            "1 / number of people, such as --delta 1e-6, is usual."
        )
    return found


def plan_facts(fit: Fit, rows: int | None) -> dict[str, Any]:
    """What a release would do and cost, and what the ledger has left; refuses if the ledger has no room."""
    from dpeigen.privacy.ledger import Ledger

    plan = fit.plan()
    ledger = None if fit.estimator.ledger is None else Ledger.at(fit.estimator.ledger)
    if ledger is not None:
        ledger.require(plan.cost, split_unknown=True)
    left = None if ledger is None else ledger.remaining()
    return {
        "method": plan.method,
        "cost": {"epsilon": plan.cost.epsilon, "delta": plan.cost.delta},
        "split": [{"purpose": s.purpose, "cost": str(s.cost), "mechanism": s.mechanism} for s in plan.split],
        "passes": plan.passes,
        "reads": plan.passes + fit.counts,
        "columns": fit.source.feature_names,
        "read_as_numbers": _undeclared(fit),
        "rows_known": not (fit.counts and rows is None),
        "guarantee": plan.guarantee.to_dict(),
        "warnings": _expected(plan),
        "ledger_left": None if left is None else {"epsilon": left.epsilon, "delta": left.delta},
    }


def _undeclared(fit: Fit) -> list[str]:
    """Columns of a text file that are read as numbers, if missing cells are accepted and no limits are declared.

    A column of text among them would be missing as a whole, and the budget would be spent on it.
    """
    if not fit.counts or fit.estimator._missing() == "refuse":
        return []
    settled = {"categories", "levels", "transform", "lower", "upper"}
    told = {
        feature
        for name, said in (fit.source.schema or {}).items()
        if settled & set(said.to_dict()) or said.to_dict().get("type", "number") != "number"
        for feature in said.features(name)
    }
    return [name for name in fit.source.feature_names or () if name not in told]


def _print_plan(fit: Fit, rows: int | None, as_json: bool) -> None:
    from dpeigen.cli import _show
    from dpeigen.privacy import Guarantee
    from dpeigen.privacy.ledger import Ledger

    facts = plan_facts(fit, rows)
    for warning in facts["warnings"]:
        tell(f"warning: {warning}")
    if as_json:
        typer.echo(json_text(facts))
        return
    left = facts["ledger_left"]
    console = _show.console()
    guarantee = Guarantee.from_dict(facts["guarantee"])
    _show.show_guarantee(console, guarantee, "What a release would guarantee", "What the budget would be spent on")
    console.print(
        "shares     as planned. A later step gets what an earlier one does not use, so the shares of the release may "
        "differ; the total stays the same.",
        markup=False,
    )
    names = fit.source.feature_names or []
    if names:
        console.print(
            f"columns    {len(names)}: {clean(', '.join(names[:20]))}{', …' if len(names) > 20 else ''}", markup=False
        )
    if plain := facts["read_as_numbers"]:
        console.print(
            f"numbers    Read as numbers: {clean(', '.join(plain[:20]))}{', …' if len(plain) > 20 else ''}. Text in "
            "them counts as missing cells: declare categories, levels or dates, or leave such columns out.",
            markup=False,
        )
    unit = guarantee.unit
    what = "rows" if unit == "row" else f"distinct {unit!r}"
    counted = f", and one more to count the {what}" if fit.counts else ""
    console.print(clean(f"passes     {facts['passes']} over the data{counted}"), markup=False)
    if left is not None:
        place = Ledger.at(fit.estimator.ledger).place
        console.print(f"ledger     {place}: (ε, δ) = ({left['epsilon']:g}, {left['delta']:g}) left now", markup=False)
    if not facts["rows_known"]:
        of_whom = "" if unit == "row" else f" Give the number of {what}; the number of rows is private."
        console.print(
            clean(
                f"{'rows ' if unit == 'row' else 'units'}      not counted, because counting reads them. Method and "
                f"split may depend on their number. If it is public, give --rows: this run then also says whether "
                f"the result would be only noise."
                f"{of_whom}"
            ),
            markup=False,
        )
    console.print("No row was read. Nothing was spent.", markup=False)
