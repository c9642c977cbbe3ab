"""The guarantee of a release: what is guaranteed, for whom, under which assumptions, and how the budget was spent.

Every release has one. It states (ε, δ), which data sets are neighbours, who must be trusted, whether the guarantee
holds for every data set or only under a model, whether the noise was drawn exactly, and the shares of the budget.

>>> from dpeigen.privacy.budget import PureCost
>>> g = Guarantee(1.0, 0.0, Relation.REPLACE, "laplace", split=(Spend("moment", "laplace", PureCost(1.0)),))
>>> g.is_private, g.epsilon
(True, 1.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dpeigen import _html
from dpeigen._validate import check_choice, check_delta, check_epsilon, complain
from dpeigen.privacy.accounting import compose, compose_delta
from dpeigen.privacy.attack import best_guess
from dpeigen.privacy.budget import Relation, Spend

__all__ = [
    "LARGEST_USUAL",
    "MIXED",
    "Basis",
    "Guarantee",
    "Numerics",
    "Trust",
    "UnitWarning",
    "WeakBudgetWarning",
    "weak_budget",
]

Trust = Literal["central", "local", "shuffled"]
Basis = Literal["worst-case", "distributional", "none"]
Numerics = Literal["exact", "idealised", "seeded"]

_NUMERICS_WORDS = {
    "exact": "exact: integer statistics, integer noise drawn exactly",
    "idealised": "idealised: proven for real-valued noise, drawn in floating point and rounded to a grid",
    "seeded": "seeded: not private (random_state was set; for tests and papers only)",
}
LARGEST_USUAL = 20.0  # a larger ε gives a warning
MIXED = "factor analysis of mixed data"
_ABOUT = {
    "covariance": "the covariance matrix of the columns",
    "correlation": "the correlation matrix of the columns",
    MIXED: "the correlation matrix of the columns, in which indicators of categories are "
    "divided by the square root of their released frequency instead (factor analysis of mixed data, Pagès 2004)",
    "second moment": "the second moment of the columns about 0",
    "covariance of columns in public units": "the covariance matrix of the columns, each divided by a public number",
    "spatial signs": "the directions of rows from a centre, whatever their lengths (spatial signs)",
    "Kendall's tau": "the directions of differences of rows, whatever their lengths (Kendall's tau)",
}


class UnitWarning(UserWarning):
    """The guarantee protects one row, but the column names suggest that a person may have several."""


class WeakBudgetWarning(UserWarning):
    """The budget is so large that the guarantee protects little."""


def weak_budget(epsilon: float, delta: float, n_units: int | None, unit: str = "row") -> str | None:
    """A warning about a budget that protects little, from public facts; None if there is nothing to warn about.

    >>> weak_budget(1.0, 1e-6, 5000) is None
    True
    """
    if epsilon > LARGEST_USUAL:
        text = f"epsilon={epsilon:g} allows an attacker to guess right about one {unit} nearly always"
        return f"The budget is weak: {text}. Usual values are 0.1 to 10."
    if n_units is not None and delta * n_units >= 1:
        text = f"delta={delta:g} is not below 1 / number of {'rows' if unit == 'row' else 'units'} ({n_units:,})"
        least = 10.0 ** min(-6, -math.ceil(math.log10(n_units)) - 1)
        allowed = f"which would allow a mechanism to publish a person's data unchanged. Use {least:.0e} or less"
        return f"The budget is weak: {text}, {allowed}."
    return None


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy, with everything that is needed to judge it.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0.
    delta : float
        δ in [0, 1).
    relation : Relation
        The neighbouring relation: one row replaced, or one row added or removed.
    mechanism : str
        The method that added the noise.
    split : tuple of Spend
        What each share of the budget was spent on. Together they cost at most (ε, δ).
    trust : {"central", "local", "shuffled"}
        Who sees rows: the curator, nobody, or nobody who could tell which person they belong to.
    basis : {"worst-case", "distributional", "none"}
        Whether the guarantee holds for every table, only under ``assumptions``, or not at all.
    numerics : {"exact", "idealised", "seeded"}
        How the noise was drawn. "seeded" is not private.
    reference : str
        The paper with the proof.
    assumptions : tuple of str
        What must hold for the guarantee, in words.
    notes : tuple of str
        Further remarks.
    estimand : str
        What the release estimates; "" if that is not stated.
    unit : str
        What neighbours differ in: "row", or the name of a column; then all rows that share a value of it.
    """

    epsilon: float
    delta: float
    relation: Relation
    mechanism: str
    split: tuple[Spend, ...] = ()
    trust: Trust = "central"
    basis: Basis = "worst-case"
    numerics: Numerics = "exact"
    reference: str = ""
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    estimand: str = ""  # what the release estimates; "" if that is not stated
    unit: str = "row"  # what neighbours differ in: one row, or all rows that share a value of this column

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon, "Guarantee"))
        object.__setattr__(self, "delta", check_delta(self.delta, "Guarantee"))
        object.__setattr__(self, "relation", Relation.parse(self.relation, "Guarantee"))
        check_choice("trust", self.trust, get_args(Trust), "Guarantee")
        check_choice("basis", self.basis, get_args(Basis), "Guarantee")
        check_choice("numerics", self.numerics, get_args(Numerics), "Guarantee")
        if not isinstance(self.unit, str) or not self.unit.strip():
            raise ValueError(complain("unit", "Guarantee", "'row' or the name of a unit", self.unit))
        if self.basis == "distributional" and not self.assumptions:
            raise ValueError(complain("assumptions", "Guarantee", "stated when the basis is distributional", ()))
        if self.split and compose_delta(self.split, self.epsilon) > self.delta * (1 + 1e-12):
            spent = compose_delta(self.split, self.epsilon)
            raise ValueError(
                complain("split", "Guarantee", f"worth at most δ={self.delta} at ε={self.epsilon}", f"δ={spent}")
            )

    @property
    def is_private(self) -> bool:
        """False if the noise can be reproduced from a seed, or if there is no proof."""
        return self.numerics != "seeded" and self.basis != "none"

    @property
    def about(self) -> str:
        """What the release estimates, in words; "" if that is not stated."""
        return _ABOUT.get(self.estimand, self.estimand)

    @property
    def protected(self) -> str:
        """What neighbours differ in, in words: one row, or all rows of one unit."""
        return "one row" if self.unit == "row" else f"all rows of one {self.unit!r}"

    @property
    def neighbours(self) -> str:
        """The neighbouring relation in words."""
        return f"{self.protected} {'replaced' if self.relation is Relation.REPLACE else 'added or removed'}"

    @property
    def attack_words(self) -> str:
        """The best attack in one sentence; "" if there is no worst-case guarantee.

        Under add/remove the attack is on presence in the table: changed values are a removal and an addition, two
        steps.
        """
        if not self.is_private or self.basis != "worst-case":
            return ""
        replaced, by_row = self.relation is Relation.REPLACE, self.unit == "row"
        knows = "every other row" if by_row else f"all rows of every other {self.unit!r}"
        guesses = (
            f"the {'values' if by_row else 'rows'} of the remaining one (between two candidates)"
            if replaced
            else f"whether {'a given row' if by_row else f'a given {self.unit!r}'} is in the table"
        )
        return (
            f"Even someone who knows {knows} guesses {guesses} correctly at most {100 * self.best_attack():.1f}% of "
            "the time (a coin: 50%)."
        )

    @property
    def spent_epsilon(self) -> float:
        """The ε of the recorded shares at this δ, by exact composition; never above `epsilon`."""
        return compose(self.split, self.delta) if self.split else self.epsilon

    def best_attack(self) -> float:
        """Compute the highest probability of guessing which of two neighbouring data sets was used, with prior 1/2.

        It is (1 + TV)/2, where TV is the total variation distance: at most (e^ε − 1 + 2δ)/(e^ε + 1) (Kairouz, Oh,
        Viswanath 2015), and at most the δ of the recorded shares at ε = 0.

        Returns
        -------
        float
            Between 0.5, a coin toss, and 1.
        """
        success = best_guess(self.epsilon, self.delta)
        if self.split:
            success = min(success, 0.5 + compose_delta(self.split, 0.0) / 2)
        return success

    def with_notes(self, *notes: str) -> Guarantee:
        """Return the same guarantee with remarks added.

        Parameters
        ----------
        *notes : str
            The remarks.

        Returns
        -------
        Guarantee
            A new one; this one does not change.
        """
        return replace(self, notes=self.notes + notes) if notes else self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            What `from_dict` reads.
        """
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation.value,
            "mechanism": self.mechanism,
            "split": [spend.to_dict() for spend in self.split],
            "trust": self.trust,
            "basis": self.basis,
            "numerics": self.numerics,
            "reference": self.reference,
            "assumptions": list(self.assumptions),
            "notes": list(self.notes),
            "estimand": self.estimand,
            "unit": self.unit,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Guarantee:
        """Make a guarantee from plain values, the inverse of `to_dict`.

        Parameters
        ----------
        data : dict
            What `to_dict` returned, or a file held.

        Returns
        -------
        Guarantee
            The guarantee, checked like a new one.
        """
        rest = dict(data)
        rest["split"] = tuple(Spend.from_dict(s) for s in rest["split"])
        rest["assumptions"], rest["notes"] = tuple(rest["assumptions"]), tuple(rest["notes"])
        return cls(**rest)

    def __str__(self) -> str:
        promise = f"({self.epsilon:g}, {self.delta:g})-differential privacy, {self.neighbours}"
        if self.basis == "distributional":
            promise = f"under the assumptions below ONLY: {promise}"
        about = [f"about      {self.about}"] if self.estimand else []
        lines = [
            promise if self.is_private else f"NOT PRIVATE (the noise is that of {promise})",
            *about,
            f"mechanism  {self.mechanism}" + (f"  [{self.reference}]" if self.reference else ""),
            f"trust      {self.trust}",
            f"basis      {self.basis}" + "".join(f"\n             - {a}" for a in self.assumptions),
            f"numerics   {_NUMERICS_WORDS[self.numerics]}",
        ]
        if self.attack_words:
            lines.append(f"attack     {self.attack_words}")
        lines += [f"spent on   {spend.purpose}: {spend.cost} ({spend.mechanism})" for spend in self.split]
        lines += [f"note       {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks."""
        promise = f"({self.epsilon:g}, {self.delta:g})-differential privacy, {self.neighbours}"
        rows = [
            *([("about", self.about)] if self.estimand else []),
            ("mechanism", self.mechanism + (f" [{self.reference}]" if self.reference else "")),
            ("trust", self.trust),
            ("basis", self.basis),
            ("numerics", _NUMERICS_WORDS[self.numerics]),
            *([("attack", self.attack_words)] if self.attack_words else []),
            *(("assumption", text) for text in self.assumptions),
            *(("note", text) for text in self.notes),
        ]
        spends = [(spend.purpose, str(spend.cost), spend.mechanism) for spend in self.split]
        return _html.box(
            promise,
            ""
            if self.is_private
            else _html.paragraph("NOT PRIVATE: this is only the noise of that guarantee.", loud=True),
            _html.table("", (), rows),
            _html.table("What the budget is spent on", ("purpose", "cost", "mechanism"), spends) if spends else "",
        )
