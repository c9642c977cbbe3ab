"""Budgets and costs: frozen values that say what may be spent and what was spent.

A `Budget` is an upper limit (ε, δ). A cost is what one mechanism uses: `PureCost` for ε-DP, `GaussianCost` for
μ-Gaussian DP (Dong, Roth, Su 2022), `ConcentratedCost` for zCDP, `ApproximateCost` for (ε, δ) alone. A `Spend` is one
share with its purpose. `accounting` composes spends. Nothing here touches data.

>>> Budget(1.0, 1e-6).split(0.25, 0.75)
(Budget(epsilon=0.25, delta=2.5e-07), Budget(epsilon=0.75, delta=7.5e-07))
>>> Budget(0.5) + Budget(0.5) <= Budget(1.0)
True
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from dpeigen._validate import check_delta, check_positive, complain, nearest

__all__ = [
    "ApproximateCost",
    "Budget",
    "ConcentratedCost",
    "Cost",
    "GaussianCost",
    "PureCost",
    "Relation",
    "Spend",
    "gaussian_share",
    "pure_epsilon",
]


class Relation(str, Enum):
    """When two data sets are neighbours.

    ``REPLACE``: one row has other values; the number of rows is public.
    ``ADD_REMOVE``: one row more or less; the number of rows is private.
    """

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"

    @classmethod
    def parse(cls, value: Any, owner: str = "dpeigen") -> Relation:
        """Read a relation from a member of the enum or its text.

        Parameters
        ----------
        value : Relation or str
            "replace" or "add_remove".
        owner : str, default="dpeigen"
            The object whose parameter it is, for the message.

        Returns
        -------
        Relation
            The relation.
        """
        try:
            return cls(value)
        except ValueError:
            raise ValueError(
                complain("relation", owner, "'replace' or 'add_remove'", value, nearest(value, [r.value for r in cls]))
            ) from None

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) budget. Addition is basic composition; ``≤`` compares ε and δ, and both must hold.

    Parameters
    ----------
    epsilon : float
        ε > 0.
    delta : float, default=0.0
        δ in [0, 1).
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, "Budget"))
        object.__setattr__(self, "delta", check_delta(self.delta, "Budget"))

    @property
    def is_pure(self) -> bool:
        """Whether δ = 0."""
        return self.delta == 0.0

    def __add__(self, other: Budget) -> Budget:
        return Budget(self.epsilon + other.epsilon, self.delta + other.delta)

    def __le__(self, other: Budget) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def __ge__(self, other: Budget) -> bool:
        return other <= self

    def __lt__(self, other: Budget) -> bool:
        return self <= other and self != other

    def __gt__(self, other: Budget) -> bool:
        return other < self

    def split(self, *weights: float) -> tuple[Budget, ...]:
        """Split the budget into shares. By basic composition they add up to no more than the whole.

        Parameters
        ----------
        *weights : float
            Weights > 0; shares are proportional to them.

        Returns
        -------
        tuple of Budget
            One share for each weight.
        """
        if not weights or any(not (math.isfinite(w) and w > 0) for w in weights):
            raise ValueError(complain("weights", "Budget.split", "finite numbers > 0", weights))
        total = math.fsum(weights)
        shares = [Budget(self.epsilon * w / total, self.delta * w / total) for w in weights]
        if math.fsum(s.epsilon for s in shares) > self.epsilon or math.fsum(s.delta for s in shares) > self.delta:
            down = 1 - 2**-50  # rounded down, so that the shares never add up to more than the budget
            shares = [Budget(s.epsilon * down, s.delta * down) for s in shares]
        return tuple(shares)


@dataclass(frozen=True)
class PureCost:
    """The cost of a mechanism that is ε-DP.

    Parameters
    ----------
    epsilon : float
        ε > 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, "PureCost"))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g}"


@dataclass(frozen=True)
class GaussianCost:
    """The cost of a mechanism that reveals no more than N(0, 1) against N(μ, 1).

    Parameters
    ----------
    mu : float
        μ > 0: the sensitivity divided by the standard deviation of the noise.
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_positive("mu", self.mu, "GaussianCost"))

    def __str__(self) -> str:
        return f"μ = {self.mu:.4g} (Gaussian)"


@dataclass(frozen=True)
class ConcentratedCost:
    """The cost of a mechanism that is ρ-zero-concentrated DP (Bun and Steinke 2016).

    Parameters
    ----------
    rho : float
        ρ > 0.
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", check_positive("rho", self.rho, "ConcentratedCost"))

    def __str__(self) -> str:
        return f"ρ = {self.rho:.4g} (concentrated)"


@dataclass(frozen=True)
class ApproximateCost:
    """The cost of a mechanism that is only known to be (ε, δ)-DP.

    Parameters
    ----------
    epsilon : float
        ε > 0.
    delta : float
        δ in [0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, "ApproximateCost"))
        object.__setattr__(self, "delta", check_delta(self.delta, "ApproximateCost"))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g}, δ = {self.delta:.3g}"


Cost = PureCost | GaussianCost | ConcentratedCost | ApproximateCost
_KINDS: dict[str, type[Any]] = {
    "pure": PureCost,
    "gaussian": GaussianCost,
    "concentrated": ConcentratedCost,
    "approximate": ApproximateCost,
}


def pure_epsilon(cost: Cost) -> float:
    """The ε of a pure cost. Any other kind is a programming error."""
    if not isinstance(cost, PureCost):
        raise TypeError(f"this mechanism is paid for in pure ε, not by {cost}")
    return cost.epsilon


def gaussian_share(cost: Cost) -> float:
    """The μ of a Gaussian cost. Any other kind is a programming error."""
    if not isinstance(cost, GaussianCost):
        raise TypeError(f"Gaussian noise is paid for in μ, not by {cost}")
    return cost.mu


@dataclass(frozen=True)
class Spend:
    """One share of the budget: what it was spent on, by which mechanism, at which cost.

    Parameters
    ----------
    purpose : str
        What was measured.
    mechanism : str
        How noise was added.
    cost : Cost
        `PureCost`, `GaussianCost`, `ConcentratedCost` or `ApproximateCost`.
    """

    purpose: str
    mechanism: str
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            What `from_dict` reads.
        """
        kind = next(k for k, t in _KINDS.items() if isinstance(self.cost, t))
        return {"purpose": self.purpose, "mechanism": self.mechanism, "kind": kind, **asdict(self.cost)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Spend:
        """Make a share from plain values, the inverse of `to_dict`; refuses unknown kinds.

        Parameters
        ----------
        data : dict
            What `to_dict` returned, or a file held.

        Returns
        -------
        Spend
            The share.
        """
        rest = dict(data)
        purpose, mechanism, kind = rest.pop("purpose"), rest.pop("mechanism"), rest.pop("kind")
        if kind not in _KINDS:
            raise ValueError(complain("kind", "Spend", f"one of {sorted(_KINDS)}", kind))
        return cls(purpose, mechanism, _KINDS[kind](**rest))
