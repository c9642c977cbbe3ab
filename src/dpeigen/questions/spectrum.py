"""Noisy eigenvalues of a second moment of rows in the unit ball, and directions drawn by the exponential mechanism.

Guarantee for eigenvalues. The sorted eigenvalues of M = Σxxᵀ have sensitivity 2 (replace) or 1 (add/remove) in ℓ1 and
√2 or 1 in ℓ2 (Lidskii; Hoffman–Wielandt). They are computed in floating point, rounded to a grid of 2^−32, and get
exact discrete noise. The sensitivities include the effect of rounding. "Idealised" because of the decomposition.

Guarantee for directions. A draw of u from exp(c·uᵀMu) is 2c-bounded-range under replacement, where uᵀMu moves by at
most 1 either way. It is c-bounded-range when a row is added or removed, where uᵀMu moves by 0 to 1. So with c = ε/2 or
ε the draw is ε-DP, and ε²/8-zCDP (Cesar and Rogers 2021), by which draws compose when δ > 0. The asking method derives
the concentrations c from the cost (`methods.sampling.base`), and `check_draws` checks that they fit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import ConcentratedCost, Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import noise_scale, perturb
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.privacy.sphere import sample_bingham, sample_orthonormal
from dpeigen.questions.base import Answer, People, Question, plain_noise, public_count
from dpeigen.questions.values import Matrix
from dpeigen.stats import Lattice, SecondMoment
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import LEVELS

__all__ = ["VALUE_GRID", "Directions", "Eigenvalues", "NoisyEigenvalues", "RankOne", "Rayleigh", "check_draws"]

VALUE_GRID = int(LEAST_SENSITIVITY)  # grid steps of released values per squared radius
_SLACK = 1 + 1e-9  # for the rounding of sums of shares in floating point


@dataclass(frozen=True)
class _OfMoment(Question[Answer]):
    """A question about a second moment that does not leave the curator.

    ``allowance``: the most that rounding in floating point adds to the sensitivity of uᵀMu, for any data.
    """

    lattice: Lattice
    allowance: float

    numerics: ClassVar[Numerics] = "idealised"

    @property
    def view(self) -> RowView:
        return self.lattice.frame

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "moment", self.lattice, 0

    def statistic(self) -> SecondMoment:
        return SecondMoment(self.lattice)

    def _inside(self, found: SecondMoment) -> Floats:
        """The moment in units of the squared radius; not private."""
        return found.gram.astype(np.float64) / LEVELS**2

    def _made_up(self, people: People) -> Floats:
        matrix = people.moment(self.view, self.lattice.radius) * (people.terms(self.view) / self.lattice.radius**2)
        return (matrix + matrix.T) / 2


@dataclass(frozen=True)
class NoisyEigenvalues:
    """Noisy eigenvalues, decreasing, in units of the squared radius; and the number of terms if it is public."""

    values: Floats
    count: float | None


@dataclass(frozen=True)
class Eigenvalues(_OfMoment[NoisyEigenvalues]):
    """All eigenvalues of the second moment."""

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def scale(self, cost: Cost, relation: Relation) -> float:
        """The scale of the noise, in grid steps; public."""
        return noise_scale(cost, **self._reach(relation))

    def answer(
        self,
        found: SecondMoment,
        noise: Any,  # noqa: ARG002
        cost: Cost,
        relation: Relation,
        rng: Randomness,
    ) -> NoisyEigenvalues:
        values = np.linalg.eigvalsh(self._inside(found))[::-1]
        on_grid = np.array([round(float(v) * VALUE_GRID) for v in values], dtype=object)
        count = public_count(found.count, self.view.rows_per_term) if relation is Relation.REPLACE else None
        noisy = perturb(on_grid, cost, **self._reach(relation), rng=rng).astype(np.float64) / VALUE_GRID
        return NoisyEigenvalues(noisy, count)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyEigenvalues:
        values, scale = np.linalg.eigvalsh(self._made_up(people))[::-1], self.scale(cost, relation) / VALUE_GRID
        draw = rng.normal if isinstance(cost, GaussianCost) else rng.laplace
        count = float(people.terms(self.view)) if relation is Relation.REPLACE else None
        return NoisyEigenvalues(values + scale * draw(size=len(values)), count)

    def _reach(self, relation: Relation) -> dict[str, float]:
        """Sensitivities of the rounded eigenvalues, in grid steps."""
        d = self.lattice.n_columns
        two_sided = relation is Relation.REPLACE and d > 1
        each = VALUE_GRID * self.allowance + 1  # the most that rounding adds to each eigenvalue's change
        return {
            "l2": (math.sqrt(2) if two_sided else 1.0) * VALUE_GRID + math.sqrt(d) * each,
            "l1": (2.0 if two_sided else 1.0) * VALUE_GRID + d * each,
        }


@dataclass(frozen=True)
class Directions(_OfMoment[Floats]):
    """Orthonormal directions, each drawn from exp(cᵢ·uᵀMu) on the sphere orthogonal to the earlier ones.

    ``concentrations``: cᵢ, public or released. The last of all d directions is determined and has c = 0.
    """

    concentrations: tuple[float, ...]

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "Bingham draws"

    def answer(self, found: SecondMoment, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        check_draws(self.concentrations, self.allowance, cost, relation)
        return sample_orthonormal(self._inside(found), np.array(self.concentrations), rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        return sample_orthonormal(self._made_up(people), np.array(self.concentrations), SeededRandomness(rng))


@dataclass(frozen=True)
class RankOne(_OfMoment[Floats]):
    """One direction, drawn from exp(c·uᵀ(M − subtracted)u) on the whole sphere; ``subtracted`` was released."""

    concentration: float
    subtracted: Matrix

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "Bingham draws"

    def answer(self, found: SecondMoment, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        check_draws((self.concentration,), self.allowance, cost, relation)
        return self._drawn(self._inside(found), rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        return self._drawn(self._made_up(people), SeededRandomness(rng))

    def _drawn(self, matrix: Floats, rng: Randomness) -> Floats:
        left = matrix - self.subtracted.array
        drawn: Floats = sample_bingham(self.concentration * (left + left.T) / 2, random_state=rng)[0]
        return drawn


@dataclass(frozen=True)
class Rayleigh(_OfMoment[float]):
    """uᵀ(M − subtracted)u for a released direction, in squared radii. Sensitivity 1, plus rounding."""

    direction: Matrix
    subtracted: Matrix

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    @property
    def reach(self) -> float:
        """The sensitivity of the rounded value, in grid steps."""
        return VALUE_GRID * (1 + self.allowance) + 1

    def answer(self, found: SecondMoment, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        value = np.array([round(self._value(self._inside(found)) * VALUE_GRID)], dtype=object)
        return float(perturb(value, cost, l2=self.reach, l1=self.reach, rng=rng)[0]) / VALUE_GRID

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:  # noqa: ARG002
        scale = noise_scale(cost, l2=self.reach, l1=self.reach) / VALUE_GRID
        draw = rng.normal if isinstance(cost, GaussianCost) else rng.laplace
        return self._value(self._made_up(people)) + scale * float(draw())

    def _value(self, matrix: Floats) -> float:
        u = self.direction.array
        return float(u @ (matrix - self.subtracted.array) @ u)


def check_draws(concentrations: tuple[float, ...], allowance: float, cost: Cost, relation: Relation) -> None:
    """Refuse draws that cost more than was paid."""
    sides = 2.0 if relation is Relation.REPLACE else 1.0
    epsilons = [sides * c * (1 + allowance) for c in concentrations]
    if isinstance(cost, ConcentratedCost):
        within = math.fsum(e * e for e in epsilons) / 8 <= cost.rho * _SLACK
    else:
        within = math.fsum(epsilons) <= pure_epsilon(cost) * _SLACK
    if not within:
        raise AssertionError("these draws are worth more than what pays for them")
