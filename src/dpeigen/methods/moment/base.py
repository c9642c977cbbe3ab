"""The common base of the methods that release one noisy second moment.

Rows are framed by public facts and clipped to a public or paid radius. Their second moment is then measured
(`questions.moment`) with the noise that a subclass names. With a private centre the sum is the augmented moment, so
that the mean, the second moment (and the count, if it is private) are one release. If the radius is paid for as well, a
rough centre is paid for first, so that the radius describes the spread of the rows and not their distance from the
origin. Everything that follows is post-processing: subtracting the mean, shrinking the eigenvalues for the known noise,
projecting on {PSD, trace ≤ radius²}, and undoing the frame.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_frame, framing_shares, location, radius_leaving
from dpeigen.methods.holes import Holes, ask_holes, hole_integers, hole_shares, known_shares
from dpeigen.methods.joint_lengths import joint_lengths
from dpeigen.methods.location import center_integers
from dpeigen.methods.moment.joint import joint_estimate
from dpeigen.methods.radius import check_radii
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Budget, Cost, GaussianCost, PureCost, Relation, allocate, gaussian_mu
from dpeigen.questions import Count, Moment, NoisyMoment, SymmetricLaw
from dpeigen.questions.radius import OUT_OF, holding_left
from dpeigen.stats import Frame, Lattice, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.measured import Measured
from dpeigen.stats.spectrum import fix_signs, symmetric_eigh

__all__ = ["CLIPPED", "COUNT_SHARE", "MomentMethod", "center_weight", "frame_of", "measured", "noise_size"]

CLIPPED = (
    "Rows longer than the private radius were clipped to it: variances of heavy-tailed columns come out too small.",
)
_BOUNDED, _TIGHTENED = 1.5, 1.1  # penalties of "auto" for a public bound, and for a radius paid for inside one
_OFF_CENTRE = 0.05  # in radii: the least assumed distance between the mean and a paid centre
_LITTLE = 0.005  # of the rows: above it, a regression clips 5% of them
_BALANCE, _MOST_OUTSIDE = 0.3, 0.05  # rows to clip: relative to the number that balances noise, and at most of all rows
COUNT_SHARE = 0.02  # of the main budget, for a private count that the moment does not contain


@dataclass(frozen=True)
class MomentMethod(Method):
    """A method whose whole release is one noisy second moment.

    ``tighten``: given a bound, pay for a radius (and a centre) inside it. The corner of a box is much longer than any
    likely row, a public radius may be, and noise grows with the square of the radius. So this usually reduces the
    error, and "auto" does it if there are enough rows. ``constants="published"``: the noise of the paper that the
    method comes from, for reproductions, with public bound and centre; `price` and the guarantee state what it really
    gives. ``emphasis``: factors on the default shares of the budget by purpose, such as {"radius": 0.5}.
    ``reconstruction``: "projected" shrinks the eigenvalues for the known noise and projects them on {≥ 0, sum ≤
    radius²}; "printed" only clips each to [0, radius²], as Amin et al. 2019 do with every covariance they compare ([0,
    n] for sums).
    """

    whole: ClassVar[bool] = True
    shrinks: ClassVar[bool] = True
    corrects_holes: ClassVar[bool] = True
    weighs_columns: ClassVar[bool] = True
    tighten: bool = False
    constants: str = "sharp"
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    reconstruction: str = field(default="projected", kw_only=True)

    @property
    @abstractmethod
    def law(self) -> SymmetricLaw:
        """The distribution of the noise."""

    @property
    def label(self) -> str:
        return f"{self.name} (tightened)" if self.tighten else self.name

    def reluctance(self, task: Task) -> float:  # noqa: ARG002
        return _TIGHTENED if self.tighten else _BOUNDED

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        """The off-diagonal noise on Σxxᵀ for rows in the unit ball, by which "auto" compares methods."""
        cost = (
            PureCost(budget.epsilon)
            if not self.needs_delta
            else GaussianCost(gaussian_mu(budget.epsilon, budget.delta))
        )
        return self.law.deviation(d, cost, relation)

    @once_a_task
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        if self.constants == "published":
            return {Purpose.MOMENT: self.published_cost(task)}
        spent = replace(task, budget=self.budget(task))
        pure, main = framing_shares(spent, paid_radius=self._pays_for_radius(task), center=self._recenters(task))
        main |= {Purpose.MOMENT: 1.0} | hole_shares(task)
        if task.relation is Relation.ADD_REMOVE and not task.private_center:
            main[Purpose.ROWS] = COUNT_SHARE
        entries = (task.n_features + 1) * (task.n_features + 2) // 2 + 1 + center_integers(task.n_features)
        entries += hole_integers(task)
        pure, main = self.emphasised(pure), self.emphasised(main)
        return allocate(spent.budget, pure=pure, main=main, coordinates=entries)

    def published_cost(self, task: Task) -> Cost:  # noqa: ARG002
        """The real privacy cost of the published noise."""
        must = "'sharp': this method has no other published constants"
        raise ValueError(complain("constants", type(self).__name__, must, self.constants))

    def _pays_for_radius(self, task: Task) -> bool:
        return task.private_bound or (self.tighten and task.bound is not None)

    def _recenters(self, task: Task) -> bool:
        return task.private_center and self._pays_for_radius(task)

    def check(self, task: Task) -> None:
        super().check(task)
        check_choice("constants", self.constants, ["sharp", "published"], type(self).__name__)
        check_choice("reconstruction", self.reconstruction, ["projected", "printed"], type(self).__name__)
        private = task.relation is Relation.ADD_REMOVE or task.private_center or self._pays_for_radius(task)
        if self.constants == "published" and (private or task.missing == "correct"):
            must = "'sharp' where the number of rows, the centre, the bound or the share of missing cells is private"
            raise ValueError(complain("constants", type(self).__name__, must, self.constants))
        costs = self.shares(task)
        self.check_emphasis(costs)
        check_radii(task, costs)
        self.law.check(task.n_features, costs[Purpose.MOMENT], task.relation)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs = self.shares(task)
        noise = self.law.deviation(task.n_features, costs[Purpose.MOMENT], task.relation)
        balanced = min(_BALANCE * task.n_features * noise, _MOST_OUTSIDE * (task.n_terms or math.inf))
        # None (5%): if noise is large, that of a few long rows harms a regression more than clipping them does.
        outside = None if task.regression and balanced > _LITTLE * (task.n_terms or 0) else balanced
        holes = ask_holes(curator, task, costs)
        frame, radius, center = ask_frame(curator, task, costs, outside=outside, holes=holes)
        center_error, deviations = (None, None) if center is None else (center.error, center.deviations)
        weight = self.center_weight(task, radius, center_error) if task.private_center else 0
        question = Moment(Lattice(frame, radius), self.law, weight)
        found = curator.measure(question, purpose=Purpose.MOMENT, cost=costs[Purpose.MOMENT])
        count = found.count
        if count is None and weight:
            count = float(found.total[0, 0]) / weight**2
        elif count is None:
            count = curator.measure(Count(question), purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        estimate = self._denoise(found, max(1.0, count), question, task, holes)
        left: tuple[float | None, float] = (None, 0.0)
        if self._pays_for_radius(task):
            asked = radius_leaving(frame, max(1.0, count) / OUT_OF if outside is None else outside, center)
            cost = costs[Purpose.RADIUS]
            left = asked.allowed_at(radius, cost, task.relation), asked.scale(cost, task.relation)
        shares = known_shares(holes)
        if Purpose.CENTER_RADIUS in costs:
            clipped, _ = holding_left(costs[Purpose.CENTER_RADIUS], task.relation, max(1.0, count))
            shares["center_clipped"] = min(clipped / max(1.0, count), 1.0)
        return replace(
            estimate, measured=partial(measured, found, max(1.0, count), question, left, deviations, task, shares)
        )

    def center_weight(self, task: Task, radius: float, center_error: float | None) -> int:
        d, n = task.n_features, task.n_terms
        if n is None:
            return center_weight(d, offset=0.5, noise=0.0)  # this weight carries the count too
        noise = self.deviation(d, self.budget(task), task.relation) / n
        if task.regression and isinstance(task.bound, tuple):
            target, constant = joint_lengths(task)
            share = constant / math.hypot(math.sqrt(d - 1), target)
            found = noise * radius * (1 + share**2) / share * math.sqrt(d)  # the error of the mean with this weight
            if center_error is None or found < center_error:
                return max(1, round(LEVELS * share))
        if center_error is None:
            return center_weight(d, offset=0.5, noise=noise)
        # For skewed rows, a centre from clipped rows differs from the mean by more than its noise.
        offset = min(0.5, max(center_error / radius, _OFF_CENTRE))
        return center_weight(d, offset=offset, noise=noise, optional=True)

    def _denoise(self, found: NoisyMoment, count: float, question: Moment, task: Task, holes: Holes | None) -> Estimate:
        lattice, weight, frame = question.lattice, question.weight, frame_of(question.lattice)
        d, area = frame.n_features, lattice.step**2 / count
        deviation = found.deviation * area
        most = task.row_radius(lattice.radius, frame) ** 2
        together = weight and task.regression and isinstance(task.bound, tuple) and task.shrink and holes is None
        denoise = self._jointly if together and self.reconstruction != "printed" else self._centred
        values, vectors, mean, error = denoise(found.total * area, deviation, most, question, task)
        framed = (vectors * values) @ vectors.T
        if holes is not None:
            framed, mean = holes.covariance(framed, mean), None if mean is None else holes.mean(mean)
            deviation, error = deviation / float(holes.both.min()), None
        covariance = framed * np.outer(frame.unit, frame.unit)
        if frame.weights is None and holes is None:
            eigenvalues, components = values[::-1] * frame.unit[0] ** 2, fix_signs(vectors.T[::-1])
        else:
            eigenvalues, components = symmetric_eigh(covariance)
            eigenvalues = np.maximum(eigenvalues, 0.0)
        k = d if task.n_components is None else task.n_components
        return Estimate(
            components=components[:k],
            eigenvalues=eigenvalues[:k],
            noise_variance=float(eigenvalues[k:].mean()) if k < d else 0.0,
            covariance=covariance,
            mean=location(frame, mean, task),
            n_rows=count * frame.rows_per_term,
            radius=lattice.radius * float(frame.unit[0]) if frame.weights is None else None,
            numerics=self.law.numerics,
            notes=CLIPPED if self._pays_for_radius(task) else (),
            radius_released=self._pays_for_radius(task),
            noise_deviation=deviation * float(frame.unit.max()) ** 2,
            noise_map=self._noise_map(frame, deviation, mean, weight * lattice.step, task),
            covariance_error=error,
            holes=None if holes is None else holes.shares,
        )

    def _centred(
        self, second: Floats, deviation: float, most: float, question: Moment, task: Task
    ) -> tuple[Floats, Floats, Floats | None, float | None]:
        """Denoised eigenvalues of the framed covariance, its eigenvectors, the mean, and a bound on the error."""
        lattice, weight, frame = question.lattice, question.weight, frame_of(question.lattice)
        mean = None
        if weight:
            mean = second[0, 1:] / (weight * lattice.step)
            second = second[1:, 1:] - np.outer(mean, mean)
        noisy_values, vectors = np.linalg.eigh((second + second.T) / 2)
        values, d = noisy_values, frame.n_features
        printed = self.reconstruction == "printed"
        if task.shrink and not printed:
            whole = lattice.radius**2  # in these units squares of eigenvalues neither overflow nor underflow
            tau = deviation / whole
            values = whole * shrink_eigenvalues(values / whole, self.law.r_transform(d, tau), math.sqrt(d) * tau)
        values = np.clip(values, 0.0, most) if printed else project_eigenvalues(values, trace=most)
        error = self._error(values - noisy_values, deviation, mean, weight * lattice.step, frame, task)
        return values, vectors, mean, error

    def _jointly(
        self, moment: Floats, deviation: float, most: float, question: Moment, task: Task
    ) -> tuple[Floats, Floats, Floats | None, float | None]:
        """The same for a regression inside a box: mean and covariance from one denoised matrix."""
        weight, frame = question.weight * question.lattice.step, frame_of(question.lattice)
        covariance, mean = joint_estimate(moment, self.law, deviation, weight, most)
        if isinstance(task.bound, tuple):
            origin = 0.0 if frame.center is None else frame.center
            mean = np.clip(mean, *((end - origin) / frame.unit for end in task.bound))  # noise can move it outside
        values, vectors = np.linalg.eigh(covariance)
        center = moment[0, 1:] / weight
        moved: Floats = np.linalg.eigvalsh(covariance - moment[1:, 1:] + np.outer(center, center)).astype(np.float64)
        error = self._error(moved, deviation, center, weight, frame, task)
        return np.maximum(values, 0.0), vectors, mean, error

    def _noise_map(
        self, frame: Frame, deviation: float, mean: Floats | None, weight: float, task: Task
    ) -> Floats | None:
        """The map of the noise, if the number of components is to be read off the covariance."""
        if not task.private_rank:
            return None
        return np.diag(frame.unit * math.sqrt(noise_size(self.law, deviation, mean, weight, task)))

    def _error(
        self, moved: Floats, deviation: float, mean: Floats | None, weight: float, frame: Frame, task: Task
    ) -> float | None:
        """A bound on ‖Ĉ − C‖₂ that holds with probability 95%, where C is the covariance of the same clipped rows.

        It is the sum of the largest change of an eigenvalue in post-processing, the norm of the noise and, if a mean
        m̂ = m + e was subtracted, 2·‖m̂‖·‖e‖ + ‖e‖² (Markov for ‖e‖²). None if the number of rows is private.
        """
        if task.n_rows is None:
            return None
        d = frame.n_features
        error = float(np.abs(moved).max()) + self.law.norm(d, deviation, failure=0.025)
        if mean is not None:
            off = math.sqrt(d / 0.025) * deviation / weight
            error += 2 * float(np.linalg.norm(mean)) * off + off**2
        return error * float(frame.unit.max()) ** 2


def measured(
    found: NoisyMoment,
    count: float,
    question: Moment,
    outside: tuple[float | None, float],
    center_deviations: Floats | None,
    task: Task,
    shares: Mapping[str, Any],
) -> Measured:
    """The moment as released, for intervals; about ``outside`` rows are longer than the radius."""
    lattice, frame = question.lattice, frame_of(question.lattice)
    area = lattice.step**2 / count
    return Measured(
        moment=found.total * area,
        back=np.diag(frame.unit),
        law=question.law.label,
        deviation=found.deviation * area,
        terms=count,
        radius=task.row_radius(lattice.radius, frame),
        weight=question.weight * lattice.step,
        outside=outside[0],
        outside_scale=outside[1],
        center_deviations=center_deviations,
        **shares,
    )


def frame_of(lattice: Lattice) -> Frame:
    """The frame of a lattice of rows that are neither stretched nor scores."""
    if not isinstance(lattice.frame, Frame):
        raise AssertionError("these rows are not framed only")
    return lattice.frame


def noise_size(law: SymmetricLaw, deviation: float, mean: Floats | None, weight: float, task: Task) -> float:
    """A value that the norm of the noise on a covariance rarely exceeds, including that of the subtracted mean.

    A mean m̂ = m + e adds 2·‖m̂‖·‖e‖ + ‖e‖²; ``weight`` is the length of the constant in the augmented row.
    """
    d = task.n_features
    size = law.norm(d, deviation, failure=0.05)
    if mean is None:
        return size
    off = 1.5 * math.sqrt(d) * deviation / weight
    return size + 2 * float(np.linalg.norm(mean)) * off + off**2


def center_weight(d: int, offset: float, noise: float, *, optional: bool = False) -> int:
    """The weight c of the constant in the augmented row, in grid steps; if ``optional``, 0 if that is better.

    In units of the radius, let the mean have norm ``offset`` and an entry of the noisy moment have deviation ``noise``.
    With g = c²/L², the squared Frobenius error of the covariance, relative to that without a mean, is about
    (1 + g)²·(1 + 2·offset²/(g·d) + noise²/g²): more noise on all entries, the error of the mean times the mean, and its
    square. Not subtracting the mean costs offset⁴/(d·noise)².
    """
    g = np.logspace(-8, 0, 161)
    error = (1 + g) ** 2 * (1 + 2 * offset**2 / (g * d) + (noise / g) ** 2)
    best = int(np.argmin(error))
    left_in = 1 + offset**4 / (d * noise) ** 2 if optional and noise > 0 else math.inf
    return 0 if left_in <= error[best] else max(1, round(LEVELS * math.sqrt(g[best])))
