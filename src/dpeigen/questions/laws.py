"""Distributions ("laws") of symmetric noise for second moments: their scale, their draws, and public facts about them.

A law scales its noise by the norm of the change that fits it (Frobenius, ℓ1 or trace norm) and draws noise for a cost.
It also provides what post-processing needs: the standard deviation of an entry, a bound on the spectral norm, and the
R-transform by which eigenvalues are shrunk. Proofs: `privacy.noise` and docs/sensitivity.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.budget import gaussian_share, pure_epsilon
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import continuous_grid, matrix_laplace, round_to_grid, symmetric_gaussian, symmetric_laplace
from dpeigen.privacy.randomness import Generator, check_scale
from dpeigen.stats import Frame, Lattice, SecondMoment
from dpeigen.stats.base import SymmetricSum
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spectrum import RTransform, gaussian_r_transform, wishart_difference_r_transform

__all__ = ["GaussianLaw", "LaplaceLaw", "SymmetricLaw", "SymmetricNoise", "WishartLaw", "law_for", "law_named"]


@dataclass(frozen=True)
class SymmetricNoise:
    """Symmetric noise in grid steps squared, and public facts about it."""

    matrix: NDArray[np.int64]
    deviation: float  # of an off-diagonal entry
    grid: int = 1  # the grid to which the noisy sum is rounded; 1 for exact integer noise

    def added_to(self, statistic: NDArray[Any]) -> Floats:
        """The released sum. It is computed exactly; the conversion to floating point is post-processing."""
        return round_to_grid(statistic + self.matrix, self.grid).astype(np.float64)


class SymmetricLaw(ABC):
    """The distribution of noise on a symmetric matrix."""

    name: ClassVar[str]
    numerics: ClassVar[Numerics] = "exact"

    @property
    def label(self) -> str:
        """The name of the law as stored in a release; see `law_named`."""
        return self.name

    @abstractmethod
    def scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        """The scale parameter, in grid steps squared; public."""

    @abstractmethod
    def draw(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        """Noise for ``cost``; it depends on public parameters of the moment only."""

    @abstractmethod
    def entry_deviation(self, scale: float, dimension: int) -> float:
        """The standard deviation of an off-diagonal entry of noise with this scale."""

    @abstractmethod
    def made_up(self, d: int, deviation: float, rng: Generator) -> Floats:
        """Noise of this law in floating point, for simulations: not private."""

    @abstractmethod
    def r_transform(self, d: int, deviation: float) -> RTransform:
        """The R-transform of the noise on a d×d matrix with this off-diagonal deviation."""

    @abstractmethod
    def norm(self, d: int, deviation: float, failure: float) -> float:
        """A bound on the spectral norm of the noise on a d×d matrix that is exceeded with at most this probability."""

    def deviation(self, d: int, cost: Cost, relation: Relation, weight: int = 0) -> float:
        """The deviation of off-diagonal noise on Σxxᵀ for rows in the unit ball.

        ``weight``: of a constant that is appended to the rows, in grid steps.
        """
        moment = SecondMoment(Lattice(Frame(d), 1.0), weight)
        return self.entry_deviation(self.scale(moment, cost, relation) / LEVELS**2, moment.dimension)

    def check(self, d: int, cost: Cost, relation: Relation) -> None:
        """Refuse a cost whose noise does not fit 64-bit integers, for rows with a constant of any weight."""
        widest = SecondMoment(Lattice(Frame(d), 1.0), LEVELS)
        reach = 2 * math.sqrt(d + 2) if self.numerics == "idealised" else 1.0
        check_scale(reach * self.scale(widest, cost, relation))


@dataclass(frozen=True)
class GaussianLaw(SymmetricLaw):
    """N(0, σ²) on the diagonal and N(0, σ²/2) off it, drawn exactly in discrete form; σ = ‖Δ‖_F/μ.

    ``isometric=False``: the same σ on every entry of the upper triangle, as in several papers.
    """

    isometric: bool = True

    name = "gaussian"

    @property
    def label(self) -> str:
        return self.name if self.isometric else f"{self.name}, entry by entry"

    def scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        return moment.frobenius_sensitivity(relation) / gaussian_share(cost)

    def draw(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        sigma = self.scale(moment, cost, relation)
        matrix = symmetric_gaussian(moment.dimension, sigma, rng, isometric=self.isometric)
        return SymmetricNoise(matrix, self.entry_deviation(sigma, moment.dimension))

    def entry_deviation(self, scale: float, dimension: int) -> float:  # noqa: ARG002
        return scale / math.sqrt(2) if self.isometric else scale

    def made_up(self, d: int, deviation: float, rng: Generator) -> Floats:
        if not self.isometric:
            upper = np.triu(rng.normal(size=(d, d)) * deviation)
            return upper + np.triu(upper, 1).T
        g = rng.normal(size=(d, d)) * (deviation / math.sqrt(2))
        return g + g.T

    def norm(self, d: int, deviation: float, failure: float) -> float:
        # E‖N‖ ≤ 2τ√d (Gordon), and ‖N‖ is √2τ-Lipschitz in standard Gaussians.
        return 2 * deviation * (math.sqrt(d) + math.sqrt(math.log(1 / failure)))

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)


@dataclass(frozen=True)
class LaplaceLaw(SymmetricLaw):
    """Independent exact discrete Laplace noise on the upper triangle, mirrored; its scale is ‖Δ‖₁/ε."""

    name = "laplace"

    def scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        if not isinstance(moment, SecondMoment):
            raise TypeError("the ℓ1 sensitivity is known for second moments only")
        return moment.upper_sensitivity(relation) / pure_epsilon(cost)

    def draw(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        scale = self.scale(moment, cost, relation)
        matrix = symmetric_laplace(moment.dimension, scale, rng)
        return SymmetricNoise(matrix, self.entry_deviation(scale, moment.dimension))

    def entry_deviation(self, scale: float, dimension: int) -> float:  # noqa: ARG002
        return scale * math.sqrt(2)

    def made_up(self, d: int, deviation: float, rng: Generator) -> Floats:
        upper = np.triu(rng.laplace(scale=deviation / math.sqrt(2), size=(d, d)))
        return upper + np.triu(upper, 1).T

    def norm(self, d: int, deviation: float, failure: float) -> float:
        # ‖N‖⁴ ≤ tr N⁴, whose expectation is at most (2d³ + 6d²)τ⁴ for independent entries of kurtosis 6; Markov.
        return deviation * ((2 * d**3 + 6 * d**2) / failure) ** 0.25

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)  # independent entries: the semicircle is universal


@dataclass(frozen=True)
class WishartLaw(SymmetricLaw):
    """The difference of two Wishart matrices s·GGᵀ, G a d×(d+1) Gaussian matrix, s = trace sensitivity/2ε.

    Drawn in floating point ("idealised"); the noisy sum is rounded to a grid of about s/256.
    """

    name = "matrix-laplace"
    numerics: ClassVar[Numerics] = "idealised"

    def scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        return moment.trace_sensitivity(relation) / (2 * pure_epsilon(cost))

    def draw(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        d, scale = moment.dimension, self.scale(moment, cost, relation)
        matrix = np.rint(matrix_laplace(d, scale, rng)).astype(np.int64)
        return SymmetricNoise(matrix, self.entry_deviation(scale, d), continuous_grid(scale))

    def entry_deviation(self, scale: float, dimension: int) -> float:
        return scale * math.sqrt(2 * (dimension + 1))

    def made_up(self, d: int, deviation: float, rng: Generator) -> Floats:
        g = rng.normal(size=(2, d, d + 1))
        return deviation / math.sqrt(2 * (d + 1)) * (g[0] @ g[0].T - g[1] @ g[1].T)

    def norm(self, d: int, deviation: float, failure: float) -> float:
        # ‖W₁ − W₂‖ ≤ max ‖Wᵢ‖, and ‖G‖ ≤ √d + √(d+1) + t except with probability e^{−t²/2} (Davidson and Szarek 2001).
        t = math.sqrt(2 * math.log(2 / failure))
        return deviation / math.sqrt(2 * (d + 1)) * (math.sqrt(d) + math.sqrt(d + 1) + t) ** 2

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return wishart_difference_r_transform(d, deviation / math.sqrt(2 * (d + 1)))


def law_named(label: str) -> SymmetricLaw:
    """The law with this `label`."""
    laws = (GaussianLaw(), GaussianLaw(isometric=False), LaplaceLaw(), WishartLaw())
    return {law.label: law for law in laws}[label]


def law_for(cost: Cost) -> SymmetricLaw:
    """The law that adds the least noise to a moment of many columns at this kind of cost."""
    return GaussianLaw() if isinstance(cost, GaussianCost) else WishartLaw()
