"""Composition: the cost of several spends together.

Gaussian spends compose exactly: μ² = Σμᵢ² (Dong, Roth, Su 2022, Corollary 3.3), also adaptively. A pure ε₀ step is
dominated by randomised response, whose privacy loss is +ε₀ with probability p = e^ε₀/(1+e^ε₀) under the first data
set and −ε₀ otherwise (Kairouz, Oh, Viswanath 2015). Dominating pairs compose (Zhu, Dong, Wang 2022), so Gaussian and
pure spends together have the exact worst-case profile

    δ(ε) = E_loss[ δ_Gauss(ε − loss) ],   the expectation over the 2^m signs of the m pure steps.

The ε and δ of `ApproximateCost` spends are added to that. The library calibrates with this closed form, which needs no
optional package, so results do not depend on what is installed. `compose_pld` computes the same with dp-accounting's
privacy-loss distributions, as an independent check and for long lists of pure spends.

>>> round(compose([Spend("a", "m", GaussianCost(0.3)), Spend("b", "m", GaussianCost(0.4))], delta=1e-5), 4)
1.9931
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from dpeigen._validate import complain
from dpeigen.privacy.budget import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    Cost,
    GaussianCost,
    PureCost,
    Spend,
)
from dpeigen.privacy.calibration import discrete_allowance, largest_mu, log_gaussian_delta

__all__ = [
    "LEAST_SENSITIVITY",
    "K",
    "allocate",
    "compose",
    "compose_delta",
    "compose_pld",
    "log_concentrated_delta",
    "log_mixed_delta",
]

_MAX_SIGNS = 12  # 2^12 sign patterns at most; the ε of longer lists of pure spends are added (basic composition)


def _log_sum_exp(values: list[float]) -> float:
    top = max(values)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(v - top) for v in values))


def _loss_distribution(pure: Iterable[float]) -> list[tuple[float, float]]:
    """(loss, ln probability) of composed randomised responses under the first data set."""
    pure = list(pure)
    if len(pure) > _MAX_SIGNS:
        pure = [math.fsum(pure)]
    kept, total = [-math.log1p(math.exp(-e)) for e in pure], math.fsum(pure)
    patterns = []
    for signs in itertools.product((1.0, -1.0), repeat=len(pure)):
        loss = math.fsum(s * e for s, e in zip(signs, pure, strict=True))
        # ln(e^ε/(1+e^ε)) for +, and that minus ε for −
        log_probability = math.fsum([*kept, (loss - total) / 2])
        patterns.append((loss, log_probability))
    return patterns


def log_concentrated_delta(epsilon: float, rho: float) -> float:
    """ln δ(ε) implied by ρ-zero-concentrated DP (Canonne, Kamath, Steinke 2020, Proposition 12).

    The infimum over the Rényi orders α is taken over a fine grid around the best one: any α gives a valid bound.
    """
    middle = math.log(max((epsilon - rho) / (2 * rho), 1e-3))  # where the exponent is least
    a = np.exp(np.concatenate([np.linspace(middle - 4, middle + 4, 801), np.linspace(-12, 12, 97)]))  # α − 1
    log_delta = a * ((a + 1) * rho - epsilon) - np.log(a) - (a + 1) * np.log1p(1 / a)
    return min(0.0, float(log_delta.min()))


def log_mixed_delta(epsilon: float, mu: float, pure: Iterable[float], *, concentrated: bool = False) -> float:
    """ln δ(ε) of a μ-Gaussian (or, ``concentrated``, μ²/2-zCDP) spend, μ = 0 for none, together with pure spends.

    For every outcome of the pure steps, with privacy loss l, the other steps add at most their δ(ε − l).
    """

    def main(rest: float) -> float:
        return log_concentrated_delta(rest, mu * mu / 2) if concentrated else log_gaussian_delta(rest, mu)

    terms = []
    for loss, log_probability in _loss_distribution(pure):
        if mu > 0:
            terms.append(log_probability + main(epsilon - loss))
        elif loss > epsilon:
            terms.append(log_probability + math.log(-math.expm1(epsilon - loss)))
    return _log_sum_exp(terms) if terms else -math.inf


@dataclass(frozen=True)
class _Total:
    """Totals of spends by kind. If any spend is concentrated, Gaussian spends are counted as μ²/2-zCDP too."""

    mu: float
    concentrated: bool
    pure: list[float]
    epsilon: float
    delta: float

    def log_delta(self, epsilon: float) -> float:
        return log_mixed_delta(epsilon - self.epsilon, self.mu, self.pure, concentrated=self.concentrated)


def _sort(costs: Sequence[Cost]) -> _Total:
    rho = math.fsum(c.rho for c in costs if isinstance(c, ConcentratedCost))
    mu_squared = math.fsum(c.mu**2 for c in costs if isinstance(c, GaussianCost))
    rest = [c for c in costs if isinstance(c, ApproximateCost)]
    return _Total(
        mu=math.sqrt(mu_squared + 2 * rho),
        concentrated=rho > 0,
        pure=[c.epsilon for c in costs if isinstance(c, PureCost)],
        epsilon=math.fsum(c.epsilon for c in rest),
        delta=math.fsum(c.delta for c in rest),
    )


def compose_delta(spends: Iterable[Spend], epsilon: float) -> float:
    """Compute the δ of all shares together at an ε.

    Parameters
    ----------
    spends : iterable of Spend
        The shares.
    epsilon : float
        ε ≥ 0.

    Returns
    -------
    float
        δ, at most 1.
    """
    return _composed_delta(tuple(spend.cost for spend in spends), epsilon)


@lru_cache(maxsize=512)  # a fit asks for the same values several times
def _composed_delta(costs: tuple[Cost, ...], epsilon: float) -> float:
    total = _sort(costs)
    if total.mu == 0 and math.fsum(total.pure) + total.epsilon <= epsilon:
        return total.delta
    # Never 0, even if it underflows: Gaussian noise must not be reported as pure privacy.
    return min(1.0, total.delta + max(math.exp(total.log_delta(epsilon)), 5e-324))


def compose(spends: Iterable[Spend], delta: float) -> float:
    """Compute the ε of all shares together at a δ.

    Parameters
    ----------
    spends : iterable of Spend
        The shares.
    delta : float
        δ in [0, 1).

    Returns
    -------
    float
        ε; infinite if no ε is enough.
    """
    spends = list(spends)
    total = _sort([spend.cost for spend in spends])
    ceiling = math.fsum(total.pure) + total.epsilon
    if total.mu == 0 and delta <= total.delta:
        if delta < total.delta:
            raise ValueError(complain("delta", "compose", f"≥ {total.delta}, the spends' own sum", delta))
        return ceiling
    if delta <= total.delta:
        raise ValueError(complain("delta", "compose", f"> {total.delta}, because Gaussian noise needs some", delta))
    if compose_delta(spends, 0.0) <= delta:
        return 0.0
    low, high = 0.0, max(ceiling, 1.0)
    while compose_delta(spends, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if compose_delta(spends, middle) <= delta else (middle, high)
    return high


# Lattice statistics are scaled so that their sensitivity for every Gaussian share is at least this, in grid steps.
LEAST_SENSITIVITY = 2.0**32


K = TypeVar("K", bound=str)


def allocate(
    budget: Budget,
    *,
    pure: Mapping[K, float] | None = None,
    main: Mapping[K, float],
    sampled: Mapping[K, float] | None = None,
    coordinates: int = 1,
) -> dict[K, Cost]:
    """Split a budget into costs, named as in ``pure``, ``main`` and ``sampled``.

    With δ = 0 all shares are pure. With δ > 0 the main shares are Gaussian. They split the largest μ² for which
    everything composes to the budget, less the allowance for drawing discrete instead of continuous noise.

    Parameters
    ----------
    budget : Budget
        What all shares together may cost.
    pure : dict of name to float, default=None
        Fractions of ε; these shares are always pure (ε-DP).
    main : dict of name to float
        Weights for the rest of the budget.
    sampled : dict of name to float, default=None
        Weights like the main ones, for exponential mechanisms: pure with δ = 0, else concentrated. Gaussian shares are
        then counted as concentrated too, so that discrete noise needs no allowance.
    coordinates : int, default=1
        How many numbers get discrete noise.

    Returns
    -------
    dict of name to Cost
        The cost of each share.
    """
    sampled = dict(sampled or {})
    pure = dict(pure or {})
    weight, taken = math.fsum([*main.values(), *sampled.values()]), math.fsum(pure.values())
    if not (0 <= taken < 1 and weight > 0):
        raise ValueError(complain("shares", "allocate", "pure fractions summing to < 1 and positive weights", pure))
    steps = {name: budget.epsilon * fraction for name, fraction in pure.items()}
    costs: dict[K, Cost] = {name: PureCost(step) for name, step in steps.items()}
    if budget.is_pure:
        # Rounded down, so that the shares never add up to more than the budget, however little is left.
        left = budget.epsilon * (1 - 2**-45) - math.fsum(steps.values())
        return costs | {name: PureCost(left * w / weight) for name, w in (*main.items(), *sampled.items())}
    if sampled:
        rho = _largest_rho(budget, tuple(steps.values()))
        costs |= {name: GaussianCost(math.sqrt(2 * rho * w / weight)) for name, w in main.items()}
        return costs | {name: ConcentratedCost(rho * w / weight) for name, w in sampled.items()}
    mu = _largest_mixed_mu(budget, tuple(steps.values()), coordinates)
    return costs | {name: GaussianCost(mu * math.sqrt(w / weight)) for name, w in main.items()}


@lru_cache(maxsize=512)  # the same splits are asked for many times
def _largest_rho(budget: Budget, pure: tuple[float, ...]) -> float:
    def log_delta(mu: float) -> float:
        return log_mixed_delta(budget.epsilon, mu, pure, concentrated=True)

    return largest_mu(log_delta, math.log(budget.delta)) ** 2 / 2


@lru_cache(maxsize=512)
def _largest_mixed_mu(budget: Budget, pure: tuple[float, ...], coordinates: int) -> float:
    def solve(epsilon: float, delta: float) -> float:
        return largest_mu(lambda mu: log_mixed_delta(epsilon, mu, pure), math.log(delta))

    mu = solve(budget.epsilon, budget.delta)
    eta, log_tau = discrete_allowance(LEAST_SENSITIVITY / (mu * math.sqrt(2)), coordinates)
    tail = math.exp(min(log_tau + eta + budget.epsilon + math.log(2), 0.0))
    epsilon, delta = budget.epsilon - 2 * eta, (budget.delta - tail) * math.exp(-eta)
    if not (epsilon > 0 and delta > 0):
        raise ValueError(
            f"epsilon={budget.epsilon}, delta={budget.delta} leave no room for the rounding of {coordinates} noisy "
            "integers. Use fewer columns, or a more usual budget (say ε between 0.001 and 50)."
        )
    return solve(epsilon, delta)


def compose_pld(spends: Iterable[Spend], delta: float) -> float:
    """Compute the ε of all shares at a δ by privacy-loss distributions (needs the ``accounting`` extra).

    Sensitivities are folded into the noise multiplier 1/μ and the neighbouring relation left at add/remove, because
    dp-accounting's REPLACE_ONE would double a Gaussian's sensitivity a second time.

    Parameters
    ----------
    spends : iterable of Spend
        The shares.
    delta : float
        δ in [0, 1).

    Returns
    -------
    float
        ε.
    """
    try:
        from dp_accounting.pld import common, privacy_loss_distribution  # takes 1-2 s, so it is imported only here
    except ImportError as error:
        raise ImportError("compose_pld needs dp-accounting: pip install 'dpeigen[accounting]'") from error
    total = privacy_loss_distribution.identity()
    for spend in spends:
        cost = spend.cost
        if isinstance(cost, GaussianCost):
            part = privacy_loss_distribution.from_gaussian_mechanism(
                1 / cost.mu, sensitivity=1, value_discretization_interval=1e-4
            )
        else:
            if isinstance(cost, ConcentratedCost):
                raise ValueError("A concentrated spend has no privacy-loss distribution; use `compose`.")
            own_delta = cost.delta if isinstance(cost, ApproximateCost) else 0.0
            part = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(cost.epsilon, own_delta),
                value_discretization_interval=1e-4,
            )
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))
