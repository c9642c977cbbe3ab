"""The private mean of vectors without a bound: ranges from histograms, a radius, and a truncated mean.

Guarantee: (ε, δ)-DP for every data set under replacement, if the scale (a top eigenvalue of the covariance) is public
or released from other rows. These spends on the same vectors are composed exactly by `privacy.accounting`:

- ranges: for each of the d coordinates the most frequent bin of width τ = 2·√scale, by d stability histograms that are
  one Gaussian mechanism of ℓ2 sensitivity √(2d) on the counts, with a probability of failure paid for in δ
  (`questions.ranges`). A coordinate in which no bin is shown starts from 0;
- a radius about that point that holds about 95% of the vectors, by the sparse-vector technique (`questions.radius`),
  pure ε, made a little wider;
- the mean of the vectors clipped to that ball (`questions.mean`), with exact discrete Gaussian noise;
- radius and sum again, about that mean: bins are as wide as the widest coordinate needs, so the first centre is rough
  in all others, and the second ball is usually much smaller.

This is Algorithm 5 of Liu, Kong, Jain, Oh 2022 with two changes. Composition is exact instead of their Lemma B.4, and
vectors are clipped to a ball with a private radius instead of a box of half-width 3K√scale·log^a(Bd/ζ), whose
sensitivity is √d times its width for any vectors. ``box=True`` keeps the box, K = a = 1, ζ = 0.01, composed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_positive
from dpeigen.curator import Curator, DataCurator, Purpose
from dpeigen.methods.one_pass.spread import check_budget, check_rows, check_size
from dpeigen.methods.radius import rows_needed
from dpeigen.privacy import (
    Budget,
    Cost,
    GaussianCost,
    PureCost,
    Randomness,
    Relation,
    Spend,
    allocate,
    gaussian_mu,
    randomness,
)
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.histogram import failure_of, noise_scale, tail_spend, threshold
from dpeigen.questions import BoxMean, ClippedMean, RadiusHolding, Ranges
from dpeigen.questions.radius import MECHANISM
from dpeigen.sources import ArraySource, Source
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.norms import GRID

__all__ = [
    "ROUNDS",
    "MeanRelease",
    "MeanShares",
    "NearShares",
    "ask_mean",
    "ask_near_mean",
    "least_look",
    "mean_of",
    "private_mean",
    "vectors_needed",
]

ROUNDS = ((Purpose.FIRST_MEAN_RADIUS, Purpose.FIRST_MEAN), (Purpose.RADIUS, Purpose.MEAN))
_TAIL_SHARE = 0.1  # of δ, for the threshold of the histograms
_RADIUS_SHARE = 0.06  # of ε, twice
_ROUGH_SHARE = 0.08  # of the Gaussian budget, for the first mean
_STANDS_OUT = 4.0  # noise deviations by which the best bin should exceed the threshold
_BEST_BIN = 0.3  # a cautious fraction of the vectors in the best bin of width 2·√scale
_MOST_RANGES, _LEAST_RANGES = 0.5, 0.02  # of the Gaussian budget
_RADII = slice(*(int(np.searchsorted(GRID, radius)) for radius in (2.0**-4, 2.0**20)))  # in units of about √scale
_FEWEST = 5000  # vectors for the first mean, if there are as many
_ZETA = 0.01
_LOOK = {Purpose.FIRST_MEAN_RADIUS: 0.2, Purpose.RADIUS: 0.4}  # of ε, for a measurement about a predicted centre
_ROUGH_ENOUGH = 0.3  # a rough mean is not asked for if its noise exceeds this fraction of the radius


@dataclass(frozen=True)
class MeanShares:
    """The shares of the budget of one mean; they depend on the number of vectors and columns, both public."""

    costs: dict[Purpose, Cost]
    failure: float  # the probability that is paid for in δ
    budget: Budget
    box: bool = False

    @classmethod
    def of(cls, budget: Budget, n: int, d: int, *, box: bool = False) -> MeanShares:
        """The split for n vectors of d columns; the ranges get only what they need."""
        tail = _TAIL_SHARE * budget.delta
        failure = failure_of(tail, budget.epsilon)
        rest = Budget(budget.epsilon * (1 - 2**-40), budget.delta - tail)
        share = float(np.clip(_ranges_needed(rest, failure, d, n) ** 2, _LEAST_RANGES, _MOST_RANGES))
        main = {Purpose.RANGES: share} if box else {Purpose.RANGES: share, Purpose.FIRST_MEAN: _ROUGH_SHARE}
        main[Purpose.MEAN] = 1 - math.fsum(main.values())
        pure = {} if box else {radius: _RADIUS_SHARE for radius, _ in ROUNDS}
        costs = allocate(rest, pure=pure, main=main, coordinates=4 * d)
        return cls(costs, failure, budget, box)

    @property
    def _tail(self) -> Spend:
        return tail_spend(Purpose.RANGES_THRESHOLD.value, self.failure, self.budget.epsilon)

    @property
    def shares(self) -> dict[Purpose, Cost]:
        """The shares for a curator."""
        return {**self.costs, Purpose.RANGES_THRESHOLD: self._tail.cost}

    def spends(self) -> tuple[Spend, ...]:
        """The record; together the spends cost the budget."""
        names = {radius: MECHANISM for radius, _ in ROUNDS}
        names[Purpose.RANGES] = "stability histograms, discrete Gaussian"
        paid = [Spend(name.value, names.get(name, "discrete Gaussian"), cost) for name, cost in self.costs.items()]
        return (*paid, self._tail)


def vectors_needed(budget: Budget, d: int, *, box: bool = False) -> int:
    """The number of vectors from which ranges and radius exceed their noise."""
    rest = Budget(budget.epsilon, (1 - _TAIL_SHARE) * budget.delta)
    ranges = _ranges_needed(rest, failure_of(_TAIL_SHARE * budget.delta, budget.epsilon), d, 1) / math.sqrt(
        _MOST_RANGES
    )
    if box:
        return math.ceil(ranges)
    shares = MeanShares.of(budget, math.ceil(ranges), d)
    return max(math.ceil(ranges), 2 * rows_needed(shares.costs[Purpose.RADIUS]))


def _ranges_needed(budget: Budget, failure: float, d: int, n: int) -> float:
    """The fraction of μ for which the best bin of n vectors is `_STANDS_OUT` deviations above the threshold."""
    whole = GaussianCost((1 - 2 * _RADIUS_SHARE) * gaussian_mu(budget.epsilon, budget.delta))
    above = threshold(whole, d, failure, Relation.REPLACE) + _STANDS_OUT * noise_scale(whole, d, Relation.REPLACE)
    return above / (_BEST_BIN * n)


@dataclass(frozen=True)
class MeanRelease:
    """A private mean, and public facts about it."""

    mean: Floats
    radius: float  # released: vectors were clipped to this distance from the ranges' middle (box: half-width)
    deviation: float  # of the noise on a coordinate


def ask_mean(curator: Curator, n: int, d: int, scale: float, shares: MeanShares, widen: float = 2**0.25) -> MeanRelease:
    """The mean of n rows of d columns; spends ``shares``. ``scale`` > 0 is public or released from other rows.

    ``widen``: rows are clipped to this factor times the radius that contains 95% of them; larger for skewed ones.
    """
    exponent = int(np.clip(round(math.log2(scale) / 2), -450, 450))
    unit = math.ldexp(1.0, exponent)  # a power of two: dividing by it is exact, except near under- or overflow
    curator = curator.seen(Frame(d, weights=np.full(d, 1 / unit)))
    width = 2 * math.sqrt(scale / unit**2)
    question = Ranges(Frame(d), width, shares.failure)
    ranges = curator.measure(question, purpose=Purpose.RANGES, cost=shares.costs[Purpose.RANGES])
    center = np.array([0.0 if middle is None else middle for middle in ranges])
    if shares.box:
        found = _ask_box_mean(curator, n, center, width / 2, shares)
    else:
        found = _ask_ball_mean(curator, n, center, shares, widen)
    return MeanRelease(found.mean * unit, found.radius * unit, found.deviation * unit)


def _ask_ball_mean(curator: Curator, n: int, center: Floats, shares: MeanShares, widen: float) -> MeanRelease:
    radius, deviation = 0.0, 0.0
    few = max(n // 4, _FEWEST, 10 * rows_needed(shares.costs[Purpose.FIRST_MEAN_RADIUS]))
    for radius_share, mean_share in ROUNDS:
        asked = curator if mean_share is Purpose.MEAN else curator.first(min(few, n))  # enough for a rough mean
        center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
        frame = Frame(len(center), center)
        question = RadiusHolding(frame, within=_RADII)
        radius = widen * asked.measure(question, purpose=radius_share, cost=shares.costs[radius_share])
        found = asked.measure(ClippedMean(Lattice(frame, radius)), purpose=mean_share, cost=shares.costs[mean_share])
        center, deviation = center + found.mean, found.error / math.sqrt(len(center))
    return MeanRelease(center, radius, deviation)


def _ask_box_mean(curator: Curator, n: int, center: Floats, deviation: float, shares: MeanShares) -> MeanRelease:
    d = len(center)
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    half = 3 * deviation * math.log(n * d / _ZETA)
    cost = shares.costs[Purpose.MEAN]
    found = curator.measure(BoxMean(Frame(d, center), half), purpose=Purpose.MEAN, cost=cost)
    return MeanRelease(center + found.mean, half, found.error / math.sqrt(d))


# --- about a centre that is known roughly from earlier releases -------------------------------------------------------


@dataclass(frozen=True)
class NearShares:
    """The budget of one mean about a predicted centre: two parts of the vectors, each for the whole budget.

    The first part pays for a rough mean, if there are enough vectors for it to be useful, and a radius about it. The
    second pays for the mean of the vectors clipped to that ball. The split depends on public numbers only.
    """

    look: dict[Purpose, Cost]
    mean: dict[Purpose, Cost]
    few: int  # vectors of the first part

    @classmethod
    def of(cls, budget: Budget, n: int, d: int) -> NearShares:
        """The split for n vectors of d columns."""
        few = min(n // 2, max(least_look(budget), n // 10))
        whole = Budget(budget.epsilon * (1 - 2**-40), budget.delta)
        mean = allocate(whole, main={Purpose.MEAN: 1.0}, coordinates=4 * d)
        rough = allocate(whole, pure=_LOOK, main={Purpose.FIRST_MEAN: 1.0}, coordinates=4 * d)
        if 2 * math.sqrt(d) / (gaussian_share(rough[Purpose.FIRST_MEAN]) * few) > _ROUGH_ENOUGH:
            rough = {Purpose.RADIUS: PureCost(whole.epsilon)}  # a rough mean would be mere noise
        return cls(rough, mean, few)

    def spends(self) -> dict[str, list[Spend]]:
        """The record: each part costs the budget."""
        names = {radius: MECHANISM for radius, _ in ROUNDS}
        return {
            part: [Spend(name.value, names.get(name, "discrete Gaussian"), cost) for name, cost in costs.items()]
            for part, costs in (("look", self.look), ("mean", self.mean))
        }


def least_look(budget: Budget) -> int:
    """The number of vectors from which the radii of the first part exceed their noise."""
    return 2 * rows_needed(PureCost(min(_LOOK.values()) * budget.epsilon))


def ask_near_mean(
    look: Curator, mean: Curator, center: Floats, scale: float, shares: NearShares, widen: float = 2**0.25
) -> MeanRelease:
    """The mean of the vectors of ``mean``, near a point; ``look`` has other vectors of the same kind.

    ``center`` and ``scale``, the order of magnitude of their distances, are public or released from other rows.
    """
    unit, d = math.ldexp(1.0, int(np.clip(round(math.log2(scale)), -450, 450))), len(center)
    frame = Frame(d, weights=np.full(d, 1 / unit))
    look, mean, center = look.seen(frame), mean.seen(frame), np.clip(center / unit, -LARGEST_FACT, LARGEST_FACT)
    if Purpose.FIRST_MEAN in shares.look:
        first, cost = Frame(d, center), shares.look
        question = RadiusHolding(first)
        radius = widen * look.measure(question, purpose=Purpose.FIRST_MEAN_RADIUS, cost=cost[Purpose.FIRST_MEAN_RADIUS])
        rough = ClippedMean(Lattice(first, radius))
        center = center + look.measure(rough, purpose=Purpose.FIRST_MEAN, cost=cost[Purpose.FIRST_MEAN]).mean
    frame = Frame(d, center)
    radius = widen * look.measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=shares.look[Purpose.RADIUS])
    found = mean.measure(ClippedMean(Lattice(frame, radius)), purpose=Purpose.MEAN, cost=shares.mean[Purpose.MEAN])
    return MeanRelease((center + found.mean) * unit, radius * unit, found.error / math.sqrt(d) * unit)


def mean_of(source: Source, scale: float, shares: MeanShares, rng: Randomness) -> MeanRelease:
    """The mean of the rows of a table; spends ``shares``."""
    curator = DataCurator(source, Relation.REPLACE, shares.shares, shares.budget, rng)
    return ask_mean(curator, source.count_rows(), source.n_features, scale, shares)


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
    return mean_of(ArraySource(rows), scale, MeanShares.of(budget, n, d), randomness(random_state)).mean
