"""Predicted errors of methods, and a plan that compares them: values, tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpeigen import _html
from dpeigen._text import table_text
from dpeigen.methods.auto import Choice

__all__ = ["Plan", "Prediction"]


@dataclass(frozen=True)
class Prediction:
    """The predicted error of a method.

    Attributes
    ----------
    method : str
        The name of the method.
    error : float
        The mean error, in the plan's metric. Errors above ``high`` enter as ``high``, so that rare failures do not
        dominate it.
    low, high : float
        An interval for the error of a single run: 5% of runs are below it, 5% above.
    success : float
        The probability with which the best attacker is right about one row, for what this method actually spends.
    epsilon : float
        The ε to which the shares compose.
    runs : int
        The number of simulated runs.
    worst : float
        The largest error among these runs.
    assumptions : tuple of str
        The assumptions of the method's guarantee, if there are any.
    """

    method: str
    error: float
    low: float
    high: float
    success: float
    epsilon: float
    runs: int
    worst: float
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Predictions from public facts and assumptions, best first.

    Attributes
    ----------
    facts : dict
        The public facts and assumptions that were given.
    metric : str
        How errors are measured.
    predictions : tuple of Prediction
        One for each method that the facts allow, by increasing error.
    refused : dict of str to str
        Methods that the facts do not allow, and why.
    choice : Choice
        The choice of method="auto", which assumes no spectrum, and its reason.
    floor : float
        The error without privacy, of the same number of rows.
    rate : float or None
        The minimax rate, whose constant is unknown; None if there is none.
    success : float
        The probability with which the best attacker is right about one row, as (ε, δ) bounds it.
    chosen : Prediction or None
        The prediction for the choice of "auto", with the options that it would choose.
    """

    facts: Mapping[str, Any]
    metric: str
    predictions: tuple[Prediction, ...]
    refused: Mapping[str, str]
    choice: Choice
    floor: float
    rate: float | None
    success: float
    chosen: Prediction | None = None

    @property
    def best(self) -> Prediction:
        """The prediction with the smallest error."""
        return self.predictions[0]

    def __getitem__(self, method: str) -> Prediction:
        return next(p for p in self.predictions if p.method == method)

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        headings, rows, last = self._table()
        return _html.box(
            "Plan, from public facts and assumptions only",
            _html.table("Best first", headings, rows),
            _html.paragraph(last),
        )

    def __str__(self) -> str:
        headings, rows, last = self._table()
        return f"{table_text(headings, rows)}\n{last}"

    def _table(self) -> tuple[list[str], list[list[str]], str]:
        """Headings, a line for each method, and the text below the table."""
        rows = [
            [p.method, f"{p.error:.3g}", f"{p.low:.3g} to {p.high:.3g}", f"{100 * p.success:.1f}%"]
            for p in self.predictions
        ]
        headings = ["method", f"predicted {self.metric}", "90% of runs", "best attack on one row"]
        chosen = self.choice.to_dict()["method"]
        return headings, rows, f"Without privacy: {self.floor:.3g}. method='auto' would choose {chosen}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            Facts, predictions, refused methods and the choice.
        """
        return {
            "facts": dict(self.facts),
            "metric": self.metric,
            "predictions": [vars(p) for p in self.predictions],
            "refused": dict(self.refused),
            "auto": {**self.choice.to_dict(), "prediction": None if self.chosen is None else vars(self.chosen)},
            "floor": self.floor,
            "minimax_rate": self.rate,
            "adversary_success": self.success,
        }
