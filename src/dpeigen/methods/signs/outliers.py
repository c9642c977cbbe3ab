"""Whether rows beyond a cutoff have the same directions as the others: the criterion of redescending signs.

Post-processing of releases. A first measurement (`stats.generalised.SplitSigns`) gives the moments of both parts of the
rows: inside the cutoff, and beyond it. For elliptical rows, heavy tails included, both have the same eigenvectors, and
a cutoff only weakens the signal. A cluster of outliers has its own directions. It is visible in two ways: in the
products of the leading directions with the others, which are 0 for elliptical rows, and as a direction besides the
leading ones that exceeds the noise among the distant rows only.

A cluster that neither test finds rotates directions by at most about as much as the noise of the first measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods.base import Task
from dpeigen.privacy import gaussian_mu
from dpeigen.questions import NoisyMoment
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.sign_model import SignRelease
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["SplitLook", "split_look", "split_part"]

_DOUBT = 1.3  # deviations by which products must exceed the effect of noise to indicate outliers; wrong in 1 of 10
_EDGE = 1.1  # times the edge of the noise, above which a direction among distant rows exceeds it
_LEAST_INSIDE = 0.45  # of the rows: the cutoff is beyond a paid median norm
_LEAST_SPLIT = 0.3  # least share of a first measurement that looks for outliers, beside 1 for each later one
_SHOWN = 0.04  # of the rows: a cluster of so many should exceed the noise of that measurement


@dataclass(frozen=True)
class SplitLook:
    """Mean moments of signs inside a cutoff and beyond it. Up to noise, their traces sum to 1."""

    near: Floats
    far: Floats
    deviation: float  # of the noise on an entry of either
    inside: float  # the weight of rows inside
    terms: float

    @property
    def inside_release(self) -> SignRelease:
        """The moment of the rows inside the cutoff, divided by their weight."""
        return self._release(0.0)

    def whole_release(self, wanted: int) -> SignRelease:
        """Both moments together, for elliptical rows. Noise is independent, so each has the weight of its signal.

        The signal is the mean gap between the wanted directions and the others.
        """
        directions = symmetric_eigh(self.near)[1]
        inside, beyond = (np.diagonal(directions @ each @ directions.T) for each in (self.near, self.far))
        gaps = [float(each[:wanted].mean() - each[wanted:].mean()) for each in (inside, beyond)]
        return self._release(min(max(gaps[1] / max(gaps[0], 1e-300), 0.0), 1.0))

    def _release(self, weight: float) -> SignRelease:
        """The moment with this weight of rows beyond the cutoff, divided by the sum of weights."""
        rows, d = self.inside + weight * (1 - self.inside), len(self.near)
        matrix, noise = self.near + weight * self.far, self.deviation * math.hypot(1.0, weight)
        return SignRelease(matrix / rows, noise / rows, np.zeros((0, d)), np.zeros(0))

    def shows_outliers(self, wanted: int) -> bool:
        """Whether rows beyond the cutoff have detectably different directions than rows inside."""
        directions = symmetric_eigh(self.near)[1]
        near, far = (directions @ each @ directions.T for each in (self.near, self.far))
        return self._turned(near, far, wanted) or self._stands_out(near, far, wanted)

    def _turned(self, near: Floats, far: Floats, k: int) -> bool:
        """Whether products of leading directions with others are larger than noise and sampling error explain.

        The leading directions are estimated from the rows inside, and so are off by an angle. This adds a part of the
        noise on them: the ratio of the gaps beyond to the gaps inside.
        """
        m = len(near) - k
        inside, beyond = np.diagonal(near), np.diagonal(far)
        gaps = inside[:k] - inside[k:].mean()
        ratios = np.clip((beyond[:k] - beyond[k:].mean()) / np.maximum(gaps, 1e-300), 0.0, 1.0)
        noise = m * self.deviation**2 * (1 + ratios**2)
        sampled = _sampled(beyond, k) / max(1 - self.inside, 0.01) + ratios**2 * _sampled(inside, k) / self.inside
        expected = noise + sampled / self.terms
        spread = math.sqrt(2 / m * float((expected**2).sum()))
        return float((far[:k, k:] ** 2).sum()) > float(expected.sum()) + _DOUBT * spread

    def _stands_out(self, near: Floats, far: Floats, k: int) -> bool:
        """Whether a direction besides the leading ones has more variance among distant rows than among those inside."""
        m = len(near) - k
        usual, found = (float(np.linalg.eigvalsh(each[k:, k:])[-1]) for each in (near, far))
        ratio = max(1 - self.inside, 0.0) / self.inside
        noise = 2 * _EDGE * math.sqrt(m) * self.deviation
        sampled = 2 * math.sqrt(max(found, 0.0) / self.terms)
        return found > ratio * usual + noise + sampled


def _sampled(shares: Floats, k: int) -> Floats:
    """Sums of products of the shares of leading directions with those of the others."""
    shares = np.maximum(shares, 0.0)
    return np.asarray(shares[:k] * shares[k:].sum())


def split_look(found: NoisyMoment) -> SplitLook:
    """From the noisy moment of split signs: its diagonal blocks, divided by the number of rows."""
    noisy, deviation = found.total / LEVELS**2, found.deviation / LEVELS**2
    d = len(noisy) // 2
    near, far = noisy[:d, :d], noisy[d:, d:]
    traces = float(np.trace(near)), float(np.trace(far))
    count = max(1.0, sum(traces)) if found.count is None else found.count
    inside = (1 + (traces[0] - traces[1]) / count) / 2  # the mean of the estimates from both traces
    return SplitLook(near / count, far / count, deviation / count, min(max(inside, _LEAST_INSIDE), 1.0), count)


def split_part(task: Task, looks: int) -> float:
    """The share of the first measurement beside 1 for each later one, if it looks for outliers; public.

    What it takes for a cluster of outliers to exceed the edge of the noise, 2√d·τ, but at most 1. Chosen by
    `benchmarks/planner.py --robust` and by clusters of 3 to 20% (`tests/methods/test_redescending.py`).
    """
    if task.n_terms is None:
        return 1.0
    mu = gaussian_mu(task.budget.epsilon, task.budget.delta)
    needed = (2 * _EDGE * math.sqrt(task.n_features) / (_SHOWN * task.n_terms * mu)) ** 2
    return min(max(needed * looks, _LEAST_SPLIT), 1.0)
