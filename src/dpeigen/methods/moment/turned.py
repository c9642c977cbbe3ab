"""The noisy second moment of framed rows, or of rows after a linear map, about their mean: one step of `whitened`.

Guarantee: only answers that are paid for are used (`questions.moment`, `questions.nested`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.holes import Holes, known_shares
from dpeigen.methods.moment.base import center_weight
from dpeigen.privacy import Cost
from dpeigen.questions import GaussianLaw, Moment, RoughMoment, SymmetricLaw, WishartLaw, moment_within
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.frame import RowView
from dpeigen.stats.measured import Measured
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.whitening import shrunk_mean

__all__ = ["SeenMoment", "ask_moment", "law_of", "powers_of", "turned_by"]

_OFFSET = 0.1  # assumed distance of the mean from the centre, in radii, for its weight in the last moment
_SHORTEST = 2.0**-24  # least factor of a direction over the largest: scores of rows are no finer (`stats.score_frame`)


def law_of(task: Task) -> SymmetricLaw:
    return WishartLaw() if task.budget.is_pure else GaussianLaw()


def turned_by(frame: Frame, turn: Floats) -> tuple[WhitenedRows, float]:
    """Rows after a linear map, up to a rotation, divided by its norm; and that norm."""
    _, lengths, basis = np.linalg.svd(turn)
    size = float(lengths.max())
    return WhitenedRows(frame, basis, np.maximum(lengths / size, _SHORTEST)), size


def powers_of(view: WhitenedRows, *powers: float) -> list[tuple[WhitenedRows, Floats]]:
    """For each power of the map, the rows after it, and the inverse map."""
    factors = [view.factors**power for power in powers]
    return [(WhitenedRows(view.frame, view.directions, each), view.directions.T / each) for each in factors]


@dataclass(frozen=True)
class SeenMoment:
    """A noisy moment as released, the moment about the mean, the mean, and the deviation of off-diagonal noise."""

    whole: Floats
    second: Floats
    mean: Floats | None
    deviation: float
    weight: float
    count: float
    doubt: Floats | None = None

    def plus(self, added: Floats, doubt: Floats) -> SeenMoment:
        """The same with a part that was found otherwise; ``doubt``: vectors k, its error is Σ g·kkᵀ, g normal."""
        whole = self.whole.copy()
        whole[-len(added) :, -len(added) :] += added
        return replace(self, whole=whole, second=self.second + added, doubt=doubt)

    def measured(
        self,
        back: Floats,
        radius: float,
        outside: tuple[float, float],
        asked: float,
        law: SymmetricLaw,
        holes: Holes | None,
        tails: Callable[[], Floats | None] | None,
    ) -> Measured:
        """For intervals: ``outside`` rows are beyond the ``asked`` radius; ``tails``: what clipping took from them."""
        rows, scale = outside
        found = Measured(self.whole, back, law.label, self.deviation, self.count, radius, self.weight, rows, scale)
        return replace(
            found,
            outside_radius=asked,
            tails=None if tails is None else tails(),
            counted=self.doubt,
            **known_shares(holes),
        )


def ask_moment(
    curator: Curator,
    view: RowView,
    radius: float,
    count: float,
    purpose: Purpose,
    costs: Mapping[Purpose, Cost],
    task: Task,
    first: float | None = None,
    *,
    rough: bool = False,
) -> SeenMoment:
    """A noisy mean of zzᵀ over clipped rows; with a private centre, their mean is subtracted.

    A radius that was searched for from a ``first`` one upwards has already read the rows. ``rough``: rows may be
    rounded as far as the noise hides it.
    """
    law = law_of(task)
    weight = _weight_of_mean(costs[purpose], count, task)
    plain = Moment(Lattice(view, radius), law, weight)
    if rough:
        noise = law.deviation(task.n_features, costs[purpose], task.relation) * radius**2 / count
        plain = RoughMoment.instead_of(plain, noise)
    question = plain if first is None else moment_within(view, radius, first, law, weight)
    found = curator.measure(question, purpose=purpose, cost=costs[purpose])
    step = question.lattice.step
    whole, mean = found.total * (step**2 / count), None
    second, deviation, constant = whole, found.deviation * (step**2 / count), question.weight * step
    if weight:
        mean = whole[0, 1:] / constant
        removed = shrunk_mean(mean, deviation / constant)
        second = whole[1:, 1:] - np.outer(removed, removed)
    return SeenMoment(whole, second, mean, deviation, constant, count)


def _weight_of_mean(cost: Cost, count: float, task: Task) -> int:
    """The weight of the constant in the augmented row, in grid steps; 0 if the centre is not private."""
    if not task.private_center:
        return 0
    noise = law_of(task).deviation(task.n_features, cost, task.relation) / count
    return center_weight(task.n_features, offset=_OFFSET, noise=noise)
