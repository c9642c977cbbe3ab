"""What one noisy second moment could reach in hindsight: the captured variance beside that of the default.

Nothing here is private. The noise has the law and the size of the default's last moment; what a private fit has to pay
for (units of columns, radii) is read from the table, and chosen by the true captured variance. So the figures are
limits of the family, and the distance to the default is what it costs to find units and radii.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from _table_errors import K, captured, with_variances

POWERS = (0.0, 0.5, 0.7, 1.0)  # of the range of a column that its unit may be
OUTSIDE = (0, 1, 3, 10, 30)  # rows that are longer than the radius
STEPS = (0.7, 0.85, 1.2, 1.4)  # by which a unit, or the radius, may be changed in the search
CLIPPED = 30  # rows, to show what clipping alone does
SHARES = (0.3, 0.5, 0.7)  # of what is left for the moment, for that of long rows
PAID = (5.0, 10.0, 15.0)  # of ε, for noisy ranges of columns
ELSE_PAID = 7.0  # of ε = 50, for scales, places, the centre, a first radius and a first moment
DRAWS, FRESH = 60, 300
COST = 1.0  # noise scales that half an octave costs a range
SIZES = 2.0 ** (np.arange(-4, 21) / 2)  # ranges, in scales of the column


def noise_of(d: int, epsilon: float, draws: int, seed: int) -> np.ndarray:
    """Noise of `matrix-laplace` on the sum of zzᵀ, rows of length at most 1, one row replaced: draws × d × d."""
    from dpeigen.privacy import PureCost, Relation
    from dpeigen.questions import WishartLaw

    law, rng = WishartLaw(), np.random.default_rng(seed)
    deviation = law.deviation(d, PureCost(epsilon), Relation.REPLACE)
    return np.array([law.made_up(d, deviation, rng) for _ in range(draws)])


def clipped(rows: np.ndarray, radius: float) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))


def longest(rows: np.ndarray, outside: int) -> float:
    """The radius that so many rows exceed."""
    return float(np.sort(np.linalg.norm(rows, axis=1))[-1 - outside])


@dataclass(frozen=True)
class Oracle:
    """A standardised table, and what is true of it."""

    rows: np.ndarray
    truth: np.ndarray

    @property
    def ranges(self) -> np.ndarray:
        return np.abs(self.rows).max(axis=0)

    def score(self, unit: np.ndarray, radius: float, noise: np.ndarray) -> float:
        """The mean captured variance: rows in these units, clipped to the radius."""
        rows, n = clipped(self.rows / unit, radius), len(self.rows)
        return self._mean(np.cov(rows.T, bias=True) + noise * (radius**2 / n), unit)

    def _mean(self, moments: np.ndarray, unit: np.ndarray) -> float:
        vectors = np.linalg.eigh(moments * np.outer(unit, unit))[1][:, :, -K:]
        return float(np.mean([captured(each.T, self.truth) for each in vectors]))

    def by_powers(self, epsilon: float, powers: tuple[float, ...] = POWERS) -> tuple[float, np.ndarray, float]:
        """The best of a few units and radii: the figure, the units and the radius."""
        noise = noise_of(len(self.truth), epsilon, DRAWS, 1)
        tried = [(self.ranges**power, outside) for power in powers for outside in OUTSIDE]
        found = [(unit, longest(self.rows / unit, outside)) for unit, outside in tried]
        return max(((self.score(*each, noise), *each) for each in found), key=lambda each: each[0])

    def searched(self, epsilon: float) -> float:
        """The same after a search over the unit of every column and the radius; with fresh noise."""
        d, noise = len(self.truth), noise_of(len(self.truth), epsilon, DRAWS, 1)
        best, unit, radius = self.by_powers(epsilon)
        for place in [*range(d + 1)] * 3:
            for step in STEPS:
                other = unit * np.where(np.arange(d) == place, step, 1.0)
                length = radius * step if place == d else radius
                if (score := self.score(other, length, noise)) > best:
                    best, unit, radius = score, other, length
        return self.score(unit, radius, noise_of(d, epsilon, FRESH, 2))

    def without_noise(self, *, exact: bool) -> float:
        """Of rows in one unit, a few of them clipped; ``exact``: with the variances of whole rows."""
        found = np.cov(clipped(self.rows, longest(self.rows, CLIPPED)).T, bias=True)
        found = with_variances(found, np.eye(len(found))) if exact else found
        return self._mean(found[None], np.ones(len(found)))

    def split(self, epsilon: float) -> float:
        """Two moments: of clipped rows, and of what clipping took from the long ones, with noise of their own radii."""
        d, n, scores = len(self.truth), len(self.rows), []
        exact = np.cov(self.rows.T, bias=True)
        for unit in (self.ranges**power for power in POWERS):
            rows = self.rows / unit
            for outside in OUTSIDE[1:]:
                short, long = longest(rows, outside), longest(rows, 0)
                for share in SHARES:
                    noise = noise_of(d, (1 - share) * epsilon, DRAWS, 1) * short**2
                    noise = noise + noise_of(d, share * epsilon, DRAWS, 2) * (long**2 - short**2)
                    scores.append(self._mean(exact / np.outer(unit, unit) + noise / n, unit))
        return max(scores)

    def paid_ranges(self, epsilon: float, paid: float, *, once: bool) -> float:
        """Ranges of columns by noisy max worth ``paid``, the rest for the moment; powers and radii in hindsight.

        ``once``: a row counts in the column alone in which it is longest, so that a replaced row changes two columns.
        """
        d, rng = len(self.truth), np.random.default_rng(3)
        half = np.subtract(*np.quantile(self.rows, [0.75, 0.25], axis=0)) / 1.35
        scale = 2 * np.where(half > 0.2, half, 1.0)
        sizes, noise = np.abs(self.rows) / scale, noise_of(d, epsilon - paid, DRAWS, 1)
        if once:
            sizes = np.where(np.arange(d) == sizes.argmax(axis=1)[:, None], sizes, 0.0)
        larger = (sizes[:, :, None] > SIZES).sum(axis=0)
        width = (2 if once else d) / paid
        scores: dict[tuple[float, int], list[float]] = {}
        for draw in range(DRAWS):
            lifted = np.abs(rng.laplace(scale=width, size=larger.shape)) - larger - COST * width * np.arange(len(SIZES))
            ranges = np.maximum(1.0, SIZES[lifted.argmax(axis=1)] / 2)
            for power in POWERS[1:]:
                unit = scale * ranges**power
                for outside in OUTSIDE[:4]:
                    radius = longest(self.rows / unit, outside)
                    figure = self.score(unit, radius, noise[draw : draw + 1])
                    scores.setdefault((power, outside), []).append(figure)
        return max(float(np.mean(each)) for each in scores.values())


def moment_share(fitted: Any) -> float:
    """The part of ε that a fit of `whitened` without δ has spent on its last moment."""
    return sum(part.cost.epsilon for part in fitted.release_.guarantee.split if part.purpose == "whitened moment")


def figures(rows: np.ndarray, truth: np.ndarray, epsilon: float, moment: float) -> Iterator[tuple[str, float]]:
    """(what, captured variance), the best in hindsight; ``moment`` is the part of ε that the default has for it."""
    oracle, left = Oracle(rows, truth), epsilon * (1 - ELSE_PAID / 50)
    yield f"no noise, {CLIPPED} rows clipped", oracle.without_noise(exact=False)
    yield "the same with exact variances of columns", oracle.without_noise(exact=True)
    yield "all units and the radius searched for, all of ε", oracle.searched(epsilon)
    yield f"the same, ε = {moment:.3g} as the default", oracle.searched(moment)
    yield "powers of exact ranges, all of ε", oracle.by_powers(epsilon)[0]
    yield f"the same, ε = {moment:.3g}", oracle.by_powers(moment)[0]
    yield f"one unit, ε = {moment:.3g}", oracle.by_powers(moment, (0.0,))[0]
    yield f"two moments, of short and of long rows, ε = {moment:.3g}", oracle.split(moment)
    for once in (False, True):
        what = "each row in one column" if once else "each column"
        yield f"paid ranges ({what})", max(oracle.paid_ranges(left, paid * epsilon / 50, once=once) for paid in PAID)
