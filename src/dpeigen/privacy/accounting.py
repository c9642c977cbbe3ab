"""What several spends cost together.

Gaussian spends compose exactly: μ² = Σμᵢ² (Dong, Roth, Su 2022, Corollary 3.3), adaptively too. A pure ε₀ step is
dominated by randomised response, whose privacy loss is +ε₀ with probability p = e^ε₀/(1+e^ε₀) under the first data
set and −ε₀ otherwise (Kairouz, Oh, Viswanath 2015). Dominating pairs compose (Zhu, Dong, Wang 2022), so Gaussian and
pure spends together have the exact worst-case profile

    δ(ε) = E_loss[ δ_Gauss(ε − loss) ],   the expectation over the 2^m signs of the m pure steps.

`ApproximateCost` spends add up on top. This closed form is what the library calibrates with; it needs no
optional package, and results do not depend on what is installed. `compose_pld` prices the same spends through
dp-accounting's privacy-loss distributions, as an independent check and for long lists of pure spends.

>>> round(compose([Spend("a", "m", GaussianCost(0.3)), Spend("b", "m", GaussianCost(0.4))], delta=1e-5), 4)
1.9931
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from dpeigen._validate import complain
from dpeigen.privacy.budget import ApproximateCost, Budget, Cost, GaussianCost, PureCost, Spend
from dpeigen.privacy.calibration import discrete_allowance, largest_mu, log_gaussian_delta

_MAX_SIGNS = 12  # 2^12 sign patterns at most; longer lists of pure spends are summed pairwise-safely (basic) instead


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
        # ln(e^ε/(1+e^ε)) for +, and ε less for −
        log_probability = math.fsum([*kept, (loss - total) / 2])
        patterns.append((loss, log_probability))
    return patterns


def log_mixed_delta(epsilon: float, mu: float, pure: Iterable[float]) -> float:
    """ln δ(ε) of a μ-Gaussian spend (μ = 0 for none) together with pure spends."""
    terms = []
    for loss, log_probability in _loss_distribution(pure):
        if mu > 0:
            terms.append(log_probability + log_gaussian_delta(epsilon - loss, mu))
        elif loss > epsilon:
            terms.append(log_probability + math.log(-math.expm1(epsilon - loss)))
    return _log_sum_exp(terms) if terms else -math.inf


def _sort(spends: Iterable[Spend]) -> tuple[float, list[float], float, float]:
    mu_squared, pure, epsilon, delta = [], [], [], []
    for spend in spends:
        cost = spend.cost
        if isinstance(cost, GaussianCost):
            mu_squared.append(cost.mu**2)
        elif isinstance(cost, PureCost):
            pure.append(cost.epsilon)
        else:
            epsilon.append(cost.epsilon)
            delta.append(cost.delta)
    return math.sqrt(math.fsum(mu_squared)), pure, math.fsum(epsilon), math.fsum(delta)


def compose_delta(spends: Iterable[Spend], epsilon: float) -> float:
    """The δ that all spends together reach at ε."""
    mu, pure, extra_epsilon, extra_delta = _sort(spends)
    if mu == 0 and math.fsum(pure) + extra_epsilon <= epsilon:
        return extra_delta
    # Never 0 from here on, though it may underflow: Gaussian noise must not pass for pure privacy.
    own_delta = max(math.exp(log_mixed_delta(epsilon - extra_epsilon, mu, pure)), 5e-324)
    return min(1.0, extra_delta + own_delta)


def compose(spends: Iterable[Spend], delta: float) -> float:
    """The ε that all spends together reach at δ."""
    spends = list(spends)
    mu, pure, extra_epsilon, extra_delta = _sort(spends)
    ceiling = math.fsum(pure) + extra_epsilon
    if mu == 0 and delta <= extra_delta:
        if delta < extra_delta:
            raise ValueError(complain("delta", "compose", f"≥ {extra_delta}, the spends' own sum", delta))
        return ceiling
    if delta <= extra_delta:
        raise ValueError(complain("delta", "compose", f"> {extra_delta}, because Gaussian noise needs some", delta))
    if compose_delta(spends, 0.0) <= delta:
        return 0.0
    low, high = 0.0, max(ceiling, 1.0)
    while compose_delta(spends, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if compose_delta(spends, middle) <= delta else (middle, high)
    return high


# Lattice statistics are scaled so that every Gaussian share has at least this sensitivity in grid steps.
LEAST_SENSITIVITY = 2.0**32


def allocate(
    budget: Budget,
    *,
    pure: Mapping[str, float] | None = None,
    main: Mapping[str, float],
    coordinates: int = 1,
) -> dict[str, Cost]:
    """Split a budget into costs, named as in ``pure`` and ``main``.

    ``pure`` shares are fractions of ε and always ε-DP; ``main`` shares are weights for the rest. With δ = 0 the main
    shares are pure too. With δ > 0 they are Gaussian and split the largest μ² for which everything composes to the
    budget, less the allowance for ``coordinates`` draws of discrete instead of continuous noise.
    """
    pure = dict(pure or {})
    weight, taken = math.fsum(main.values()), math.fsum(pure.values())
    if not (0 <= taken < 1 and weight > 0):
        raise ValueError(complain("shares", "allocate", "pure fractions summing to < 1 and positive weights", pure))
    steps = {name: budget.epsilon * fraction for name, fraction in pure.items()}
    costs: dict[str, Cost] = {name: PureCost(step) for name, step in steps.items()}
    if budget.is_pure:
        # Rounding never adds up to more than the whole, however little of it is left.
        left = budget.epsilon * (1 - 2**-45) - math.fsum(steps.values())
        return costs | {name: PureCost(left * w / weight) for name, w in main.items()}
    mu = _largest_mixed_mu(budget, list(steps.values()), coordinates)
    return costs | {name: GaussianCost(mu * math.sqrt(w / weight)) for name, w in main.items()}


def _largest_mixed_mu(budget: Budget, pure: list[float], coordinates: int) -> float:
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
    """The ε of all spends at δ by privacy-loss distributions (needs the ``accounting`` extra).

    Sensitivities are folded into the noise multiplier 1/μ and the neighbouring relation left at add/remove, because
    dp-accounting's REPLACE_ONE would double a Gaussian's sensitivity a second time.
    """
    try:
        from dp_accounting.pld import common, privacy_loss_distribution  # 1-2 s to import: only here
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
            own_delta = cost.delta if isinstance(cost, ApproximateCost) else 0.0
            part = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(cost.epsilon, own_delta),
                value_discretization_interval=1e-4,
            )
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))
