"""What clipping rows to a radius took away from their second moment, as far as that can be told.

Known are the moment of the clipped rows, the radius, and about how many rows were longer. Among elliptical rows, normal
or with the tails of Student's t, those are looked for of which as many are longer; their clipped moment then tells the
whole one, and how much squares of clipped rows vary. That is a model, not a proof: a moment does not show what was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtri

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.stats.elliptical import normal_squares

_FREEDOMS = (np.inf, 30.0, 15.0, 10.0, 7.0, 5.5, 4.5, 3.5)
_PRIOR = 0.25  # by what power of e a step to heavier tails is less likely beforehand
_ROUNDS = 60
_PLACES = 2 ** (-np.array([1, 3, 5]) / 12)  # squares of radii between that of the grid and the one before


@dataclass(frozen=True)
class Clipping:
    """``gains``: what the variances along the eigenvectors of a clipped moment are multiplied by to be whole.

    ``kurtosis`` is a third of the excess kurtosis of the clipped rows. ``sizes`` are draws of the mean gain, as far as
    it is known, relative to that of the ``gains``.
    """

    gains: Floats
    kurtosis: float
    sizes: Floats


def whole_rows(d: int, draws: int) -> Clipping:
    """Nothing was clipped: of signs of d columns, squares vary by 2/d more than those of normal rows."""
    return Clipping(np.ones(d), 2.0 / d, np.ones(draws))


def clipping(
    values: Floats, radius: float, outside: tuple[float, float] | None, draws: int, rng: Generator
) -> Clipping:
    """For the eigenvalues of the second moment of rows clipped to a radius.

    ``outside`` is the share of rows that are longer, about, and the scale of the noise that it was found with. The
    radius is the first on a grid that so few rows are longer than: how many are between it and the one before is not
    known. None: the radius is public. Then rows are taken to be normal.
    """
    clipped = np.maximum(values, 1e-9 * max(float(values.max()), 1e-300)) / radius**2
    clipped = clipped * min(1.0, 0.95 / clipped.sum())
    if outside is None:
        normal = _under(clipped, _FREEDOMS[0])
        return Clipping(normal.gains, normal.kurtosis, np.ones(draws))
    laws = [_under(clipped, freedom) for freedom in _FREEDOMS]
    share, noise = outside
    drawn = np.maximum(share + noise * rng.laplace(size=(2, draws)).sum(axis=0), 0.1 * share)
    places, heaviness = rng.integers(len(_PLACES), size=draws), np.empty(draws)
    steps = np.arange(-1, len(laws))  # −1: no row is clipped; 0: normal rows, and so on
    for place in range(len(_PLACES)):
        shares = np.maximum.accumulate([0.0, *(law.shares[place] for law in laws)])
        heaviness[places == place] = np.interp(drawn[places == place], shares, steps)
    likely = np.exp(-_PRIOR * heaviness)
    heaviness = heaviness[np.searchsorted(np.cumsum(likely), rng.random(draws) * likely.sum())]
    means = np.interp(heaviness, steps, [1.0, *(float(law.gains.mean()) for law in laws)])
    gains = np.array(
        [np.interp(heaviness, steps, [1.0, *(law.gains[j] for law in laws)]).mean() for j in range(len(values))]
    )
    kurtosis = np.interp(heaviness, steps, [laws[0].kurtosis, *(law.kurtosis for law in laws)])
    return Clipping(gains, float(kurtosis.mean()), means / means.mean())


@dataclass(frozen=True)
class _Law:
    """Rows of one law: gains, kurtosis, and shares of rows that are longer than radii at `_PLACES`."""

    gains: Floats
    kurtosis: float
    shares: list[float]


def _under(clipped: Floats, freedom: float) -> _Law:
    """For rows of Student's t with so many degrees of freedom, in units of the radius."""
    squares, tails = normal_squares(len(clipped)), _tails(freedom, len(normal_squares(len(clipped))))
    values = clipped.copy()
    for _ in range(_ROUNDS):
        lengths = tails * (squares @ values)
        weights = tails / np.maximum(lengths, 1.0)
        ratio = clipped / (values * (weights @ squares) / len(squares))
        values = values * np.minimum(ratio, 3.0)
        if np.abs(ratio - 1).max() < 1e-3:
            break
    fourth = (weights**2 @ squares**2) / len(squares)
    kurtosis = float(np.average(fourth / 3 / ((weights @ squares) / len(squares)) ** 2 - 1, weights=values))
    normal = float((squares**2).mean() / 3)  # of the points, 1 but for their number
    shares = [float((lengths > place).mean()) for place in _PLACES]
    return _Law(values / clipped, max((1 + kurtosis) / normal - 1, 0.0), shares)


@lru_cache(maxsize=32)
def _tails(freedom: float, count: int) -> Floats:
    """Squared lengths of rows beside normal ones, of mean 1, in an order of their own."""
    if np.isinf(freedom):
        return np.ones(count)
    levels = (np.arange(count) + 0.5) / count
    found = freedom / chdtri(freedom, levels)
    return np.asarray(made_up_generator(count).permutation(found / found.mean()))
