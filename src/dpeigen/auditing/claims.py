"""The claim of a release, and lower bounds on ε from the counts of an event.

A claim is a list of spends: a whole privacy profile δ(ε), not one point. An event with probability ≥ p on one data set
and ≤ q on its neighbour refutes the profile if p > e^ε·q + δ(ε) for some ε. Two lower bounds on the real ε follow:

- ``plain`` = ln((p − δ)/q): for any mechanism. For Gaussian noise it stays far below ε with any number of runs, since
  the worst events have a probability near δ.
- ``fitted``: the ε, at the stated δ, of the claim scaled by t (ε₀ → tε₀, μ → tμ, ρ → t²ρ), where t is the largest
  factor that the event refutes. For Gaussian spends t·μ = Φ⁻¹(p) − Φ⁻¹(q). It is a bound if the loss has the stated
  form. It is above the stated ε exactly if the event refutes the claim, so as a test it needs no assumption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from dpeigen.privacy import ApproximateCost, Budget, ConcentratedCost, Cost, GaussianCost, PureCost, Spend
from dpeigen.privacy.accounting import compose, compose_delta

__all__ = ["Claim", "Finding"]

_LARGEST_FACTOR, _STEPS, _GRID = 64.0, 40, 48


@dataclass(frozen=True)
class Finding:
    """Lower bounds on ε at the stated δ.

    Attributes
    ----------
    plain : float
        From the definition of (ε, δ)-DP alone.
    fitted : float
        From the form of the mechanism's shares, which is tighter.
    refuted : bool
        Whether the claim is refuted.
    """

    plain: float
    fitted: float
    refuted: bool

    @property
    def epsilon(self) -> float:
        """The larger bound."""
        return max(self.plain, self.fitted)


@dataclass(frozen=True)
class Claim:
    """A claim: a budget, and the shares that compose to it.

    Attributes
    ----------
    budget : Budget
        The stated (ε, δ).
    spends : tuple of Spend
        The shares.
    """

    budget: Budget
    spends: tuple[Spend, ...]

    def judge(self, p: float, q: float) -> Finding:
        """Judge the claim by the probabilities of an event.

        Parameters
        ----------
        p : float
            A lower bound on its probability on one data set.
        q : float
            An upper bound on its probability on the neighbouring one.

        Returns
        -------
        Finding
            Lower bounds on ε, and whether the claim is refuted.
        """
        plain = max(0.0, math.log((p - self.budget.delta) / q)) if p > self.budget.delta else 0.0
        factor = self._factor(p, q)
        fitted = self._price(factor)
        return Finding(plain, fitted, plain > self.budget.epsilon or factor > 1.0)

    def _factor(self, p: float, q: float) -> float:
        """The largest t whose scaled claim the event refutes; 0 if none."""
        if p <= q:
            return 0.0
        costs = [spend.cost for spend in self.spends]
        if all(isinstance(c, GaussianCost) for c in costs):
            mu = math.sqrt(math.fsum(c.mu**2 for c in costs if isinstance(c, GaussianCost)))
            return max(0.0, float(ndtri(p) - ndtri(q)) / mu)
        low, high = 0.0, _LARGEST_FACTOR
        if self._refutes(high, p, q):
            return high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._refutes(middle, p, q) else (low, middle)
        return low

    def _refutes(self, factor: float, p: float, q: float) -> bool:
        if factor <= 0:
            return True
        scaled = self._scaled(factor)
        # If every part is pure (or a bare (ε, δ)), the mechanisms together claim only the end of the profile.
        if not any(isinstance(s.cost, GaussianCost | ConcentratedCost) for s in scaled):
            epsilon = math.fsum(s.cost.epsilon for s in scaled if isinstance(s.cost, PureCost | ApproximateCost))
            delta = math.fsum(s.cost.delta for s in scaled if isinstance(s.cost, ApproximateCost))
            return p > math.exp(min(epsilon, 700.0)) * q + delta
        reach = math.log(p / q)
        return any(p > math.exp(e) * q + compose_delta(scaled, e) for e in np.linspace(0.0, reach, _GRID))

    def _scaled(self, factor: float) -> list[Spend]:
        return [replace(spend, cost=_scale(spend.cost, factor)) for spend in self.spends]

    def _price(self, factor: float) -> float:
        if factor <= 0:
            return 0.0
        if factor == 1.0:
            return self.budget.epsilon
        return compose(self._scaled(factor), self.budget.delta)


def _scale(cost: Cost, factor: float) -> Cost:
    if isinstance(cost, PureCost):
        return PureCost(cost.epsilon * factor)
    if isinstance(cost, GaussianCost):
        return GaussianCost(cost.mu * factor)
    if isinstance(cost, ConcentratedCost):
        return ConcentratedCost(cost.rho * factor**2)
    return ApproximateCost(cost.epsilon * factor, cost.delta)
