"""Leading projector, projected block, eigenvalues and bulk variance of a second moment of rows that are not clipped.

Guarantee: distributional, NOT worst-case. The noise is for sensitivities that follow from a model of the data
(`stats.spiked`) and hold only if the model does. If it does not, one row can move the projector by as much as √2,
whatever n. Noise is added in integers, after rounding to a grid of sensitivity/2^32.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import perturb, symmetric_gaussian
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import People, Question, public_count
from dpeigen.questions.values import Matrix
from dpeigen.stats import Frame
from dpeigen.stats.frame import RowView
from dpeigen.stats.raw import RawMoment
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.spiked import printed_bulk_variance

__all__ = ["BulkVariance", "LeadingEigenvalues", "LeadingProjector", "ProjectedMoment"]


@dataclass(frozen=True)
class _OfRawMoment(Question[Floats]):
    """``reach``: the sensitivity in the model. ``isometric=False``: noise as printed, with σ on every entry."""

    frame: Frame
    reach: float
    isometric: bool

    numerics: ClassVar[Numerics] = "idealised"

    @property
    def view(self) -> RowView:
        return self.frame

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "raw moment", self.frame

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "discrete Gaussian"

    def statistic(self) -> RawMoment:
        return RawMoment(self.frame)

    def answer(self, found: RawMoment, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        count = public_count(found.count, self.frame.rows_per_term)
        return self._noisy(self._part(found.gram * (float(self.frame.unit[0]) ** 2 / count)), cost, rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        moment = people.moment(self.frame, np.inf) * float(self.frame.unit[0]) ** 2
        return self._noisy(self._part(moment), cost, SeededRandomness(rng))

    @abstractmethod
    def _part(self, moment: Floats) -> Floats:
        """The exact answer, computed from the moment; not private."""

    def _noisy(self, matrix: Floats, cost: Cost, rng: Randomness) -> Floats:
        """The matrix or vector with noise, rounded to a grid on which the sensitivity is about 2^32 steps."""
        step = self.reach / LEAST_SENSITIVITY
        if matrix.ndim == 1:
            whole = np.array([round(float(v) / step) for v in matrix], dtype=object)
            l2 = LEAST_SENSITIVITY + len(matrix)  # rounding moves each entry by at most half a step
            return perturb(whole, cost, l2=l2, l1=np.inf, rng=rng).astype(np.float64) * step
        scale = (LEAST_SENSITIVITY + len(matrix)) / gaussian_share(cost)  # rounding moves each entry by half a step
        noise = symmetric_gaussian(len(matrix), scale, rng, isometric=self.isometric)
        on_grid: Any = np.array([[round(float(v) / step) for v in row] for row in matrix], dtype=object)
        noisy = (on_grid + noise.astype(object)).astype(np.float64) * step
        return (noisy + noisy.T) / 2


@dataclass(frozen=True)
class LeadingProjector(_OfRawMoment):
    """UUᵀ of the ``rank`` leading eigenvectors."""

    rank: int

    def _part(self, moment: Floats) -> Floats:
        leading = symmetric_eigh(moment)[1][: self.rank]
        return leading.T @ leading


@dataclass(frozen=True)
class ProjectedMoment(_OfRawMoment):
    """UᵀMU for a released basis (rows)."""

    basis: Matrix

    def _part(self, moment: Floats) -> Floats:
        return self.basis.array @ moment @ self.basis.array.T


@dataclass(frozen=True)
class LeadingEigenvalues(_OfRawMoment):
    """The ``number`` largest eigenvalues, each with noise; the sensitivity bounds their joint change (Lemma 2.4)."""

    number: int

    def _part(self, moment: Floats) -> Floats:
        return symmetric_eigh(moment)[0][: self.number]


@dataclass(frozen=True)
class BulkVariance(_OfRawMoment):
    """σ̂² from the middle half of the eigenvalues as printed (§5.3), for ``terms`` rows; one number."""

    terms: int

    def _part(self, moment: Floats) -> Floats:
        return np.array([printed_bulk_variance(symmetric_eigh(moment)[0], len(moment), self.terms)])
