"""The private scale of a batch of vectors: the top eigenvalue of their covariance; and ratios of their eigenvalues.

Guarantee: (ε, δ)-DP for every data set under replacement. The vectors come in a random order (`sources.shuffled`, or
`in_random_order` for a table given here) and are cut into groups by their positions in it; each group gives one label,
computed from its own vectors alone (a power of two taken out, rounded to integers whose sums of products are exact), so
one vector changes one label, and the labels' histogram over infinitely many bins is released by `privacy.histogram`:
discrete Laplace noise of scale 2/ε, δ for the threshold. No bound on the vectors is needed.

Algorithm 4 of Liu, Kong, Jain, Oh 2022: differences of disjoint pairs, bins [2^(j/4), 2^((j+1)/4)), and one for 0. Bins
so narrow need groups of thousands to agree; where groups are smaller (a public fact) the bins are wider, up to a
factor of 4. The differences are divided by √2, so the answer is about the vectors' own covariance (the paper's is
about twice it), and the middle of the bin is returned instead of its lower end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_delta, check_epsilon, complain
from dpeigen.privacy import Budget, PureCost, Relation, randomness
from dpeigen.privacy.histogram import failure_of, most_popular, noise_scale, stable_histograms, threshold
from dpeigen.privacy.randomness import Randomness
from dpeigen.stats.frame import Frame, exact_bits
from dpeigen.stats.products import exact_product

_ZERO = -1e6  # the label of the bin that holds 0 alone
_LARGEST_EXPONENT = 900.0


def histogram_share(budget: Budget) -> tuple[PureCost, float]:
    """The whole budget for one histogram: ε for the counts, δ for the threshold (as a chance of failure)."""
    # A hair below ε and δ, so that rounding in the sums of an accountant cannot exceed the whole.
    return PureCost(budget.epsilon * (1 - 2**-40)), failure_of(budget.delta * (1 - 2**-40), budget.epsilon)


def groups_needed(budget: Budget) -> int:
    """Labels that make the most frequent of two equally frequent bins stand out, but for a chance of about e^−4."""
    cost, failure = histogram_share(budget)
    return math.ceil(2.2 * (threshold(cost, 1, failure, Relation.REPLACE) + 4 * noise_scale(cost, 1, Relation.REPLACE)))


def bins_per_doubling(size: int) -> float:
    """4, 2, 1 or ½: the bins into which the labels of groups of this size mostly fall in ones or twos.

    The top eigenvalue of a group of squares of Gaussian variables has a relative deviation of √(14/size), others less,
    and a bin is made at least 3.5·√(16/size) wide, in units of log₂, but never wider than two doublings.
    """
    width = 2.0 ** math.ceil(math.log2(3.5 * math.sqrt(16 / size)))
    return 1 / min(max(width, 0.25), 2.0)


def top_eigenvalue(vectors: Floats, budget: Budget, rng: Randomness) -> float | None:
    """The top eigenvalue of the covariance, within a bin; 0 for constant vectors, None if no bin stands out.

    Spends ``budget``; the vectors are finite.
    """
    groups = groups_needed(budget)
    size = len(vectors) // 2 // groups
    pairs = vectors[: 2 * size * groups].reshape(groups, size, 2, vectors.shape[1])
    halves = pairs[:, :, 0] / 2 - pairs[:, :, 1] / 2  # halved first: a difference of finite numbers may overflow
    # (x − y)/√2 = √2·(x/2 − y/2), and one more doubling for its square
    return _released(_log_spectra(halves)[:, 0] + 1.0, bins_per_doubling(size), budget, rng)


def eigenvalue_ratios(vectors: Floats, k: int, budget: Budget, rng: Randomness) -> list[float | None]:
    """λ_{j+1}/λ_j of the second moment for j ≤ k, each from its own part of the vectors; None if no bin stands out.

    What is released is −log₂ of the ratio, between 2^−9 and 2^6, within a factor of 2 (4 for groups below 50): how fast
    power steps converge. Each part spends ``budget``.
    """
    groups = groups_needed(budget)
    size = len(vectors) // k // groups
    parts = vectors[: k * groups * size].reshape(groups, size, k, vectors.shape[1])
    ratios: list[float | None] = []
    for j in range(k):
        logs = _log_spectra(parts[:, :, j], j + 2)
        with np.errstate(invalid="ignore"):
            slope = logs[:, j] - logs[:, j + 1]
        slope = np.clip(np.nan_to_num(slope, nan=0.0, posinf=64.0), 2.0**-9, 64.0)
        found = _released(np.log2(slope), 1.0 if size >= 50 else 0.5, budget, rng)
        ratios.append(None if found is None else 2.0**-found)
    return ratios


def _log_spectra(groups: Floats, count: int = 1) -> Floats:
    """log₂ of the largest eigenvalues of (1/size)·Σxxᵀ in each group (groups × size × d); −∞ for 0.

    A group's numbers depend on its own vectors alone: its products are sums of integers that are exact in doubles.
    """
    _, size, d = groups.shape
    bits = exact_bits(max(size, d))
    _, exponents = np.frexp(np.abs(groups).max(axis=(1, 2)))
    exponents = np.maximum(exponents.astype(np.int64), -900)  # so that 2^(bits − exponent) is a number
    scaled = np.rint(groups * np.ldexp(1.0, bits - exponents)[:, None, None])
    across = scaled.transpose(0, 2, 1)
    products = exact_product(scaled, across) if size < d else exact_product(across, scaled)
    values = np.linalg.eigvalsh(products)[:, ::-1]
    if values.shape[1] < count:
        values = np.pad(values, ((0, 0), (0, count - values.shape[1])))
    with np.errstate(divide="ignore"):
        logs = np.log2(np.maximum(values[:, :count], 0.0)) - math.log2(size)
    # Below the rounding of the decomposition there is nothing but rounding.
    logs[values[:, :count] <= values[:, :1] * 2.0**-40] = -math.inf
    return logs + 2.0 * (exponents - bits)[:, None]


def _released(logs: Floats, per_doubling: float, budget: Budget, rng: Randomness) -> float | None:
    labels = np.where(np.isfinite(logs), np.floor(logs * per_doubling), _ZERO)
    cost, failure = histogram_share(budget)
    (histogram,) = stable_histograms(labels[:, None], cost, failure, Relation.REPLACE, rng)
    label = most_popular(histogram)
    if label is None or label == _ZERO:
        return None if label is None else 0.0
    return float(np.exp2(np.clip((label + 0.5) / per_doubling, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))


@own_error_state
def private_top_eigenvalue(X: ArrayLike, *, epsilon: float, delta: float, random_state: Any = None) -> float | None:
    """The top eigenvalue of the covariance of the rows of X, within a factor of 2 or better. No bound is needed.

    (ε, δ)-differentially private, one row replaced, δ > 0. Returns 0.0 for constant rows, and None where the rows'
    groups do not agree well enough. Refuses, before anything is read, fewer rows than the noise asks for.
    """
    owner = "private_top_eigenvalue"
    budget = check_budget(epsilon, delta, owner)
    rows = check_rows(X, owner)
    check_size(len(rows), 2 * 2 * groups_needed(budget), owner)
    rng = randomness(random_state)
    return top_eigenvalue(in_random_order(rows, rng), budget, rng)


def in_random_order(rows: Floats, rng: Randomness) -> Floats:
    """The rows of a table in a random order: groups by position must not depend on how the table is sorted."""
    return Frame(rows.shape[1]).image(rows)[rng.permutation(len(rows))]


def check_budget(epsilon: Any, delta: Any, owner: str) -> Budget:
    """A budget with δ > 0: without it unboundedly many bins cannot be told apart from none."""
    budget = Budget(check_epsilon(epsilon, owner), check_delta(delta, owner))
    if budget.is_pure:
        raise ValueError(complain("delta", owner, "> 0", delta, "Give a delta well below 1/n such as 1e-6."))
    return budget


def check_rows(X: Any, owner: str) -> Floats:
    """Rows × columns of numbers; whether they are finite is looked at by a frame."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "fiub":
        raise ValueError(f"X of {owner} must be a table of real numbers, rows × columns.")
    return rows.astype(np.float64, copy=False)


def check_size(rows: int, needed: int, owner: str) -> None:
    """Refuse fewer rows than the noise asks for."""
    if rows < needed:
        remedy = (
            f"It needs at least {needed} rows at this budget: give more rows or a larger epsilon. Nothing was spent."
        )
        raise ValueError(complain("X", owner, "long enough for the noise", f"{rows} rows", remedy))
