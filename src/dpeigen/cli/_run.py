"""The course of `pca`, `covariance` and `ridge`: refuse, or plan, or pay, write and show.

What can be refused is refused before a row is read or anything is spent: parameters, the ledger, a folder that cannot
be written to. Once paid for, a release is written before anything else is tried, and elsewhere if its folder fails.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpeigen._text import clean, json_text
from dpeigen.cli._errors import UNWRITTEN, USAGE, fail, one_line_errors, one_line_warnings, tell

if TYPE_CHECKING:
    from dpeigen.cli._fit import Fit
    from dpeigen.release import Release

OURS = ("release.json", "release.safetensors", "card.html", "card.md", "figures")


def run(command: str, given: Mapping[str, Any]) -> None:
    """One of the commands with its options, by their names."""
    with one_line_errors(), one_line_warnings():
        from dpeigen.cli._fit import prepare
        from dpeigen.sources import show_progress

        fit = prepare(command, given)
        out: Path | None = given["out"]
        if given["dry_run"]:
            _print_plan(fit, given["rows"], given["as_json"])
            return
        if out is None:
            fail(USAGE, "Give --out, a folder for the release, or --dry-run to see what would be done.")
        import dpeigen.report  # noqa: F401  (what the card needs is there, or we stop here)

        with _folder(out, fit.source.n_features):
            with show_progress():
                release = fit.release()
            where = _save(release, out)
        unwritten = _card(release, where)
        with suppress(BrokenPipeError):  # a reader that has seen enough does not undo a release
            _print(command, release, where, given["as_json"])
        if unwritten or where != out:
            fail(UNWRITTEN, unwritten or f"--out {out} could not be written to. The release is in {where}: copy it.")


@contextmanager
def _folder(out: Path, n_features: int) -> Iterator[None]:
    """A folder that can be written to, made before anything is spent and removed again if nothing was released."""
    if out.exists() and not out.is_dir():
        fail(USAGE, f"--out {out} is a file. Give the path of a folder.")
    there = [name for name in OURS if (out / name).exists()]
    if there:
        holds = "already holds a release, which was paid for" if there[0] in OURS[:2] else f"already holds {there[0]}"
        fail(USAGE, f"--out {out} {holds}. Choose another folder.")
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:  # writing is tried: permissions do not tell all
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


def _save(release: Release, out: Path) -> Path:
    """The folder the release is in: the one asked for, else a temporary one, else none but standard output."""
    try:
        return release.save(out)
    except Exception as error:  # whatever it is, what was paid for must not be lost
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        tell(f"The release could not be saved in {out}: {why}.")
    try:
        return release.save(tempfile.mkdtemp(prefix="dpeigen-release-"))
    except Exception:
        from dpeigen.cli import _show

        typer.echo(json_text(_show.as_json(release, ""), None))
        fail(UNWRITTEN, "The release, which was paid for, could not be saved anywhere. It was printed: keep it.")


def _card(release: Release, folder: Path) -> str:
    """Write the card; what to do if that fails. The release is safe by then."""
    from dpeigen.cli._show import error_console
    from dpeigen.report import write_card

    try:
        with error_console().status("Drawing the card"):
            write_card(release, folder)
    except Exception as error:
        return (
            f"The release is in {folder}, but its card could not be written ({type(error).__name__}). "
            f"Try again, for free: dpeigen card {folder}"
        )
    return ""


def _print(command: str, release: Release, out: Path, as_json: bool) -> None:
    from dpeigen.cli import _show

    if as_json:
        typer.echo(json_text(_show.as_json(release, str(out))))
        return
    console = _show.console()
    _show.show_release(console, release, f"Private {'PCA' if command == 'pca' else command}")
    console.print(_show.contents_table(release))
    console.print(f"Release written to {out}", markup=False)
    if (out / "card.html").exists():
        console.print(f"Open {out / 'card.html'} in a browser, or publish the folder.", markup=False)


def _print_plan(fit: Fit, rows: int | None, as_json: bool) -> None:
    from dpeigen.cli import _show
    from dpeigen.privacy.ledger import Ledger

    plan = fit.plan()
    ledger = None if fit.estimator.ledger is None else Ledger.at(fit.estimator.ledger)
    if ledger is not None:
        ledger.require(plan.cost, split_unknown=True)
    left = None if ledger is None else ledger.remaining()
    open_choice = fit.counts and rows is None
    if as_json:
        cost = {"epsilon": plan.cost.epsilon, "delta": plan.cost.delta}
        spends = [{"purpose": s.purpose, "cost": str(s.cost), "mechanism": s.mechanism} for s in plan.split]
        text = {
            "method": plan.method,
            "cost": cost,
            "split": spends,
            "passes": plan.passes,
            "reads": plan.passes + fit.counts,
            "columns": fit.source.feature_names,
            "rows_known": not open_choice,
            "guarantee": plan.guarantee.to_dict(),
            "ledger_left": None if left is None else {"epsilon": left.epsilon, "delta": left.delta},
        }
        typer.echo(json_text(text))
        return
    console = _show.console()
    _show.show_guarantee(console, plan.guarantee, "What a release would promise", "What the budget would be spent on")
    names = fit.source.feature_names or []
    if names:
        console.print(
            f"columns    {len(names)}: {clean(', '.join(names[:20]))}{', …' if len(names) > 20 else ''}", markup=False
        )
    counted = ", and one more to count the rows" if fit.counts else ""
    console.print(f"passes     {plan.passes} over the data{counted}", markup=False)
    if left is not None and ledger is not None:
        console.print(f"ledger     {ledger.path}: (ε, δ) = ({left.epsilon:g}, {left.delta:g}) left now", markup=False)
    if open_choice:
        console.print(
            "rows       not counted, because that would read them; method and split may change with their number. "
            "Where it is public, give --rows.",
            markup=False,
        )
    console.print("No row was read. Nothing was spent.", markup=False)
