"""What `--dry-run` says: what a release would do and cost. No row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from dpeigen._text import clean, json_text
from dpeigen.cli._errors import tell
from dpeigen.sources.wording import limits_text, not_asked_for

if TYPE_CHECKING:
    from dpeigen.cli._fit import Fit
    from dpeigen.estimators.rehearsal import FitPlan

__all__ = ["limits_words", "plan_facts", "print_plan"]

_MOST = 20  # columns that are named


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
        "limits": _limits(fit),
        "all_bounded": fit.bounded,
        "read_as_numbers": _undeclared(fit),
        "without_missing_codes": not_asked_for(fit.source.schema, fit.source.feature_names or []),
        "clipped": plan.clipped,
        "rows_known": not (fit.counts and rows is None),
        "guarantee": plan.guarantee.to_dict(),
        "warnings": _expected(plan),
        "ledger_left": None if left is None else {"epsilon": left.epsilon, "delta": left.delta},
    }


def _limits(fit: Fit) -> dict[str, str]:
    """The declared limits of single columns, which hold for the cells of that column alone."""
    found = {name: limits_text(said) for name, said in (fit.source.schema or {}).items()}
    return {name: text for name, text in found.items() if text}


def limits_words(limits: dict[str, str], all_bounded: bool) -> str:
    """The limits in a sentence; empty if there is nothing to say."""
    listed = "; ".join(f"{name} {text}" for name, text in list(limits.items())[:_MOST])
    more = "; …" if len(limits) > _MOST else ""
    of_all = "All columns have public bounds, so rows are clipped to them."
    if not limits:
        return of_all if all_bounded else ""
    rest = of_all if all_bounded else "Other columns are not affected."
    return f"{listed}{more}. {rest}"


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


def print_plan(fit: Fit, rows: int | None, as_json: bool) -> None:
    from dpeigen.cli import _show
    from dpeigen.privacy import Guarantee

    facts = plan_facts(fit, rows)
    for warning in facts["warnings"]:
        tell(f"warning: {warning}")
    if as_json:
        typer.echo(json_text(facts))
        return
    console = _show.console()
    guarantee = Guarantee.from_dict(facts["guarantee"])
    _show.show_guarantee(console, guarantee, "What a release would guarantee", "What the budget would be spent on")
    console.print(
        "shares     as planned. A later step gets what an earlier one does not use, so the shares of the release may "
        "differ; the total stays the same.",
        markup=False,
    )
    for line in [*_about_columns(facts), *_about_rows(fit, facts, guarantee.unit)]:
        console.print(line, markup=False)
    console.print("No row was read. Nothing was spent.", markup=False)


def _about_columns(facts: Mapping[str, Any]) -> Iterator[str]:
    """What is read from the columns."""
    if names := facts["columns"]:
        yield f"columns    {len(names)}: {_listed(names)}"
    if limits := limits_words(facts["limits"], facts["all_bounded"]):
        yield f"limits     {clean(limits)}"
    if plain := facts["read_as_numbers"]:
        yield (
            f"numbers    Read as numbers: {_listed(plain)}. Text in them counts as missing cells: declare categories, "
            "levels or dates, or leave such columns out."
        )
    if silent := facts["without_missing_codes"]:
        yield (
            f"codes      No codes for missing cells are declared for {_listed(silent)}. A code such as -99 or 9999 "
            "there would count as a value. If the codebook has codes, declare them: --missing-codes '-99|9999', or "
            "'name=-99|9999' for one column."
        )


def _about_rows(fit: Fit, facts: Mapping[str, Any], unit: str) -> Iterator[str]:
    """Clipping, passes over the rows, the ledger, and whether the number of rows is known."""
    from dpeigen.clipped import foreseen_clipping
    from dpeigen.privacy.ledger import Ledger

    if text := foreseen_clipping(facts["clipped"]):
        yield f"clipping   {text}"
    what = "rows" if unit == "row" else f"distinct {unit!r}"
    counted = f", and one more to count the {what}" if fit.counts else ""
    yield clean(f"passes     {facts['passes']} over the data{counted}")
    if (left := facts["ledger_left"]) is not None:
        place = Ledger.at(fit.estimator.ledger).place
        yield f"ledger     {place}: (ε, δ) = ({left['epsilon']:g}, {left['delta']:g}) left now"
    if not facts["rows_known"]:
        of_whom = "" if unit == "row" else f" Give the number of {what}; the number of rows is private."
        yield clean(
            f"{'rows ' if unit == 'row' else 'units'}      not counted, because counting reads them. Method and split "
            "may depend on their number. If it is public, give --rows: this run then also says whether the result "
            f"would be only noise.{of_whom}"
        )


def _listed(names: Sequence[str]) -> str:
    """The first names, safe for a terminal."""
    return f"{clean(', '.join(names[:_MOST]))}{', …' if len(names) > _MOST else ''}"
