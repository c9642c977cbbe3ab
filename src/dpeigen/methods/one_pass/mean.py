"""The private mean of vectors without a bound: ranges from histograms, a radius, and a truncated mean.

Guarantee: (ε, δ)-DP for every data set under replacement, the scale (a top eigenvalue of the covariance) being public
or released from other rows. These spends on the same vectors are composed exactly by `privacy.accounting`:

- ranges: for each of the d coordinates the most frequent bin of width τ = 2·√scale, by d stability histograms that are
  one Gaussian mechanism of ℓ2 sensitivity √(2d) on the counts, and a chance of failure paid for in δ
  (`privacy.histogram`). A coordinate whose bins do not stand out takes the fallback, which is public or released;
- a radius about that point that holds about 95% of the vectors, by the sparse-vector technique (`questions.radius`),
  pure ε, made a little wider;
- the sum of the vectors clipped to that ball: integers of norm at most 2^20, so ℓ2 sensitivity 2·2^20 whatever the
  vectors are; exact discrete Gaussian noise;
- radius and sum once more about the mean that came out: bins are as wide as the widest coordinate asks for, so the
  first centre is rough in all others, and the second ball is mostly much smaller.

This is Algorithm 5 of Liu, Kong, Jain, Oh 2022 with the exact composition in place of their Lemma B.4, and a ball,
whose radius follows the vectors, in place of a box of half-width 3K√scale·log^a(Bd/ζ), whose sensitivity is √d times
its width whatever the vectors do. ``box=True`` keeps the box, K = a = 1, ζ = 0.01, still composed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_positive
from dpeigen.methods.one_pass.spread import check_budget, check_rows, check_size, in_random_order
from dpeigen.methods.one_pass.streaming import finite
from dpeigen.methods.radius import rows_needed
from dpeigen.privacy import (
    Budget,
    Cost,
    GaussianCost,
    Relation,
    Spend,
    allocate,
    gaussian_mu,
    randomness,
)
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.histogram import failure_of, most_popular, noise_scale, stable_histograms, tail_spend, threshold
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Randomness
from dpeigen.questions import RadiusHolding
from dpeigen.questions.radius import MECHANISM
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, RowSums
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.norms import GRID

RANGES, MEAN = "ranges", "mean"
ROUNDS = (("radius for the first mean", "first mean"), ("radius", MEAN))
_TAIL_SHARE = 0.1  # of δ, for the threshold of the histograms
_RADIUS_SHARE = 0.06  # of ε, twice
_ROUGH_SHARE = 0.08  # of the Gaussian budget, for the first mean
_STANDS_OUT = 4.0  # deviations of the noise above the threshold that the best bin is to have
_BEST_BIN = 0.3  # the share of the vectors that the best bin of width 2·√scale holds, with room to spare
_MOST_RANGES, _LEAST_RANGES = 0.5, 0.02  # of the Gaussian budget
_RADII = slice(*(int(np.searchsorted(GRID, radius)) for radius in (2.0**-4, 2.0**20)))  # in units of about √scale
_FEWEST = 5000  # vectors for the first mean, where there are as many
_ROW_UNIT = int(LEAST_SENSITIVITY) // LEVELS
_ZETA = 0.01


@dataclass(frozen=True)
class MeanShares:
    """The budget of one mean, split; depends on the number of vectors and columns, both public."""

    costs: dict[str, Cost]
    failure: float  # the chance that is paid for in δ
    epsilon: float  # of the whole
    box: bool = False

    @classmethod
    def of(cls, budget: Budget, n: int, d: int, *, box: bool = False) -> MeanShares:
        """The split for n vectors of d columns: the ranges get what they need and no more."""
        tail = _TAIL_SHARE * budget.delta
        failure = failure_of(tail, budget.epsilon)
        rest = Budget(budget.epsilon * (1 - 2**-40), budget.delta - tail)
        share = float(np.clip(_ranges_needed(rest, failure, d, n) ** 2, _LEAST_RANGES, _MOST_RANGES))
        main = {RANGES: share} if box else {RANGES: share, "first mean": _ROUGH_SHARE}
        main[MEAN] = 1 - math.fsum(v for name, v in main.items() if name != MEAN)
        pure = {} if box else {radius: _RADIUS_SHARE for radius, _ in ROUNDS}
        costs = allocate(rest, pure=pure, main=main, coordinates=4 * d)
        return cls(costs, failure, budget.epsilon, box)

    def spends(self) -> tuple[Spend, ...]:
        """The record; all of it together is worth the budget."""
        names = {RANGES: "stability histograms, discrete Gaussian"} | {radius: MECHANISM for radius, _ in ROUNDS}
        paid = [Spend(name, names.get(name, "discrete Gaussian"), cost) for name, cost in self.costs.items()]
        return (*paid, tail_spend("threshold of the ranges", self.failure, self.epsilon))


def vectors_needed(budget: Budget, d: int, *, box: bool = False) -> int:
    """Vectors from which on ranges and radius stand out of their noise."""
    rest = Budget(budget.epsilon, (1 - _TAIL_SHARE) * budget.delta)
    ranges = _ranges_needed(rest, failure_of(_TAIL_SHARE * budget.delta, budget.epsilon), d, 1) / math.sqrt(
        _MOST_RANGES
    )
    if box:
        return math.ceil(ranges)
    shares = MeanShares.of(budget, math.ceil(ranges), d)
    return max(math.ceil(ranges), 2 * rows_needed(shares.costs["radius"]))


def _ranges_needed(budget: Budget, failure: float, d: int, n: int) -> float:
    """The fraction of μ for which the best bin of n vectors is `_STANDS_OUT` deviations above the threshold."""
    whole = GaussianCost((1 - 2 * _RADIUS_SHARE) * gaussian_mu(budget.epsilon, budget.delta))
    above = threshold(whole, d, failure, Relation.REPLACE) + _STANDS_OUT * noise_scale(whole, d, Relation.REPLACE)
    return above / (_BEST_BIN * n)


@dataclass(frozen=True)
class MeanRelease:
    """A private mean and what is publicly known about it."""

    mean: Floats
    radius: float  # released: vectors were clipped to this distance from the ranges' middle (box: half-width)
    deviation: float  # of the noise on a coordinate


def mean_of(
    vectors: Floats,
    scale: float,
    shares: MeanShares,
    rng: Randomness,
    fallback: Floats | None = None,
    widen: float = 2**0.25,
) -> MeanRelease:
    """The mean of finite vectors; spends ``shares``. ``scale`` > 0 is public or released from other rows.

    ``widen``: vectors are clipped to so many times the radius that holds 95% of them; more for skew ones.
    """
    d = vectors.shape[1]
    exponent = int(np.clip(round(math.log2(scale) / 2), -450, 450))
    unit = math.ldexp(1.0, exponent)  # a power of two: dividing by it is exact but at the ends of the doubles
    with np.errstate(over="ignore"):
        vectors = finite(vectors * (1 / unit))
        width = 2 * math.sqrt(scale / unit**2)
        labels = vectors * (1 / width)
        labels = finite(np.floor(labels, out=labels))
    ranges = stable_histograms(labels, shares.costs[RANGES], shares.failure, Relation.REPLACE, rng)
    start = np.zeros(d) if fallback is None else fallback / unit
    best = [most_popular(histogram) for histogram in ranges]
    center = np.array([s if b is None else (b + 0.5) * width for s, b in zip(start, best, strict=True)])
    if shares.box:
        found = _box_mean(vectors, center, width / 2, shares, rng)
    else:
        found = _ball_mean(vectors, center, shares, rng, widen)
    return MeanRelease(found.mean * unit, found.radius * unit, found.deviation * unit)


def _ball_mean(vectors: Floats, center: Floats, shares: MeanShares, rng: Randomness, widen: float) -> MeanRelease:
    radius, deviation, everything = 0.0, 0.0, vectors
    few = max(len(vectors) // 4, _FEWEST, 10 * rows_needed(shares.costs[ROUNDS[0][0]]))
    for radius_share, mean_share in ROUNDS:
        vectors = everything if mean_share == MEAN else everything[:few]  # a part is enough for a rough mean
        center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
        frame = Frame(len(center), center)
        cost = shares.costs[radius_share]
        question = RadiusHolding(frame, within=_RADII)
        noise = question.draw(cost, Relation.REPLACE, rng)
        norms = ArraySource(vectors).reduce(question.statistic())
        radius = widen * question.answer(norms, noise, cost, Relation.REPLACE, rng)
        lattice = Lattice(frame, radius)
        total = RowSums(lattice).update(vectors).total
        cost = shares.costs[mean_share]
        shift, deviation = _noisy_mean(total, len(vectors), lattice.step, 2.0 * LEVELS, cost, rng)
        center = center + shift
    return MeanRelease(center, radius, deviation)


def _box_mean(vectors: Floats, center: Floats, deviation: float, shares: MeanShares, rng: Randomness) -> MeanRelease:
    n, d = vectors.shape
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    half = 3 * deviation * math.log(n * d / _ZETA)
    step = half / LEVELS
    with np.errstate(over="ignore"):
        inside = np.clip(np.rint((vectors - center) / step), -LEVELS, LEVELS)
    total = inside.sum(axis=0).astype(np.int64)  # integers below 2^53: exact in any order
    shift, deviation = _noisy_mean(total, n, step, 2.0 * LEVELS * math.sqrt(d), shares.costs[MEAN], rng)
    return MeanRelease(center + shift, half, deviation)


def _noisy_mean(
    total: NDArray[np.int64], n: int, step: float, reach: float, cost: Cost, rng: Randomness
) -> tuple[Floats, float]:
    """The noisy mean in the vectors' units, and the deviation of its noise; ``reach``: the ℓ2 sensitivity in steps."""
    noisy = perturb(total.astype(object) * _ROW_UNIT, cost, l2=reach * _ROW_UNIT, l1=math.inf, rng=rng)
    unit = step / n
    return noisy.astype(np.float64) * (unit / _ROW_UNIT), reach / gaussian_share(cost) * unit


@own_error_state
def private_mean(
    X: ArrayLike, top_eigenvalue: float, *, epsilon: float, delta: float, random_state: Any = None
) -> Floats:
    """The mean of the rows of X. No bound on the rows is needed, but a rough scale: their covariance's top eigenvalue.

    (ε, δ)-differentially private, one row replaced, δ > 0, provided that ``top_eigenvalue`` is a public number or was
    released, for instance by `private_top_eigenvalue`, and paid for: on the same rows the two costs add up, on
    disjoint halves the larger counts. The scale may be wrong by a factor of 4 either way at little loss. Refuses,
    before anything is read, fewer rows than the noise asks for.
    """
    owner = "private_mean"
    budget = check_budget(epsilon, delta, owner)
    scale = check_positive("top_eigenvalue", top_eigenvalue, owner)
    rows = check_rows(X, owner)
    n, d = rows.shape
    check_size(n, vectors_needed(budget, d), owner)
    rng = randomness(random_state)
    return mean_of(in_random_order(rows, rng), scale, MeanShares.of(budget, n, d), rng).mean
