"""``spatial-sign``: principal directions from rows divided by their own norm. No bound, no moments, robust.

Guarantee: for every data set, (ε, δ)-DP with δ > 0 (exact discrete Gaussian noise) or ε-DP with δ = 0 (two-sided
Wishart noise, "idealised"). A row enters as (x − centre)/|x − centre|, on the unit sphere whatever its norm, so the
sign moment has Frobenius sensitivity √2 (replace) or 1. Or it enters as g(x − centre)/b, inside the unit ball, with the
same sensitivity (`stats.generalised`): Σ_g of Raymaekers and Rousseeuw 2019 about a public or paid centre. For every
elliptical distribution its eigenvectors are those of the covariance (Oja 2010; Kim and Jung 2025, Remark 2.2).

Variances are paid for separately. The scores along the released directions are clipped to a radius (the given bound, or
a paid 95% quantile), and the sums of their squares, with that of the remainder, are released: ℓ2 sensitivity √2·r², ℓ1
2·r². Clipping makes them robust and, for heavy tails, smaller than the plain variance. With a redescending transform
they redescend too, beyond a multiple of a paid median norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_centered_frame, location
from dpeigen.methods.location import Weights, center_integers, center_shares, cutoff_factor, within
from dpeigen.methods.outline import Outline, outline_of_signs
from dpeigen.methods.radius import CUTOFF_PLENTY, PLENTY, check_radii, radius_share, rows_needed
from dpeigen.methods.scores import variance_share
from dpeigen.methods.signs.evidence import HELD, Paid, left_outside, measured_signs, sign_release
from dpeigen.methods.signs.transforms import CUTOFF_LOSS, check_transform, framed_transform
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Cost, GaussianCost, PureCost, allocate
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import MeanSquares, Moment, RadiusHolding, law_for
from dpeigen.questions.squares import NoisySquares
from dpeigen.stats import Frame, Lattice, ScoreFrame, unit_lattice
from dpeigen.stats.generalised import SignFrame
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.sign_model import SignRelease
from dpeigen.stats.spectrum import ordered_variances, symmetric_eigh, with_remainder
from dpeigen.stats.transform import REDESCENDING, Scale, Transform, winsorized_redescending

__all__ = ["SpatialSign"]

_SCORES_SHARE = 0.05  # of ε, usually
_SCORES_REACH = 2.0  # times the median norm of scores: beyond it their weight in variances falls


@dataclass(frozen=True)
class SpatialSign(Method):
    """Directions from spatial signs, variances from clipped scores.

    Parameters
    ----------
    transform : "spherical"; "winsorized"; "redescending" or "winsorized-redescending", which give rows less and less
        weight beyond a cutoff, for clusters of outliers; or a bounded function ξ ≥ 0 of norms, tabulated at public
        points.
    radius : for "winsorized" a public radius or "private" (paid: the median norm); for the redescending ones a public
        cutoff or "private" (1.4 times that median or more); for a function its bound.
    emphasis : factors on the default shares of the budget by purpose, such as {"variances": 2.0}.
    """

    transform: str | Scale = "spherical"
    radius: float | str | None = None
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    name = "spatial-sign"
    shrinks = True
    reference = "Kim and Jung 2025, Remark 2.2"
    needs_bound = False
    estimand = "spatial signs"
    robust = True

    @once_a_task
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        half, pure = self._descends, Weights()
        if self._pays_for_radius(task):
            plenty = PLENTY // 2 if half else PLENTY  # the median is easier to find than the 95% quantile
            share = radius_share(task, _SCORES_SHARE, most=0.12, half=half, plenty=plenty)
            pure[Purpose.SCORES_RADIUS] = share
        variances = variance_share(task)
        main = {Purpose.DIRECTIONS: 1 - variances, Purpose.VARIANCES: variances}
        if task.private_center:
            center_pure, center_main = center_shares(task, measured=True)
            pure, main = pure | center_pure, main | center_main
        if isinstance(self.radius, str) and not (half and Purpose.CENTER_RADIUS in pure):  # else that is the median
            plenty = CUTOFF_PLENTY if half else PLENTY
            pure[Purpose.RADIUS] = radius_share(task, _SCORES_SHARE, most=0.12, half=True, plenty=plenty)
        d = task.n_features
        pure, main = self.emphasised(pure), self.emphasised(main)
        integers = d * (d + 1) // 2 + d + 1 + center_integers(d)
        return allocate(task.budget, pure=pure, main=main, coordinates=integers)

    @property
    def label(self) -> str:
        kind = self.transform if isinstance(self.transform, str) else "own transform"
        return self.name if kind == "spherical" else f"{self.name} ({kind})"

    @property
    def _descends(self) -> bool:
        return self.transform in REDESCENDING

    def _pays_for_radius(self, task: Task) -> bool:
        if not isinstance(task.bound, (tuple, float)) or self._descends:
            return True
        if isinstance(task.bound, float) and not task.private_center:
            return False
        # The corner of a box, or a radius about another point, is far too long for scores: with enough rows, a paid
        # radius is better.
        needed = rows_needed(PureCost(_SCORES_SHARE * task.budget.epsilon))
        return task.n_terms is None or task.n_terms >= needed

    def outline(self, task: Task, rows: int) -> Outline:
        costs, terms = self.shares(task), rows // 2 if task.pairs else rows
        directions, about = costs[Purpose.DIRECTIONS], not task.pairs
        found = outline_of_signs("signs", costs, directions, terms, task.n_features, task.relation, centered=about)
        return replace(found, noise=found.noise * CUTOFF_LOSS) if self._descends else found

    def check(self, task: Task) -> None:
        super().check(task)
        check_transform(self.transform, self.radius, type(self).__name__)
        costs = self.shares(task)
        self.check_emphasis(costs)
        halves = {Purpose.RADIUS, Purpose.SCORES_RADIUS} if self._descends else {Purpose.RADIUS}
        check_radii(task, {purpose: cost for purpose, cost in costs.items() if purpose in halves}, half=True)
        check_radii(task, {purpose: cost for purpose, cost in costs.items() if purpose not in halves})
        for purpose, cost in costs.items():
            if purpose.is_radius:
                continue
            if isinstance(cost, PureCost):  # the largest of the pure noises: signs, centre, variances
                check_scale(4 * LEVELS**2 * math.sqrt(task.n_features + 1) / cost.epsilon)
            elif isinstance(cost, GaussianCost):
                check_scale(2 * LEVELS**2 / cost.mu)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs = self.shares(task)
        frame, radius, center = ask_centered_frame(curator, task, costs, robust=self._descends, narrow_too=True)
        transform = self._ask_transform(curator, frame, costs, None if center is None else center.median)
        signs = self._signs(curator, frame, transform, costs[Purpose.DIRECTIONS])
        directions = symmetric_eigh(signs.matrix, task.n_components)[1]
        view = ScoreFrame(frame, directions, residual=len(directions) < task.n_features)
        if Purpose.SCORES_RADIUS in costs:
            cost = costs[Purpose.SCORES_RADIUS]
            question = RadiusHolding(view, half=self._descends)
            paid_for = curator.measure(question, purpose=Purpose.SCORES_RADIUS, cost=cost)
            radius = within(paid_for * (_SCORES_REACH if self._descends else 1.0), radius)
        if radius is None:
            raise AssertionError("a radius is public or paid for")
        found = self._squares(curator, view, radius, costs[Purpose.VARIANCES])
        estimate = self._assemble(directions, found, frame, task, radius)
        if transform.kind not in ("spherical", "redescending"):
            return estimate
        unit, reach = float(frame.unit[0]), task.row_radius(radius, view)
        outside = None
        if Purpose.SCORES_RADIUS in costs:
            cost = costs[Purpose.SCORES_RADIUS]
            outside = HELD if self._descends else left_outside(cost, task.relation, found.count)
        paid = Paid(directions, found.squares, np.full(len(found.squares), found.deviation), reach, outside, unit**2)
        measured = partial(
            measured_signs,
            [signs],
            found.count,
            paid=paid,
            center_deviations=None if center is None else center.deviations,
        )
        return replace(estimate, measured=measured)

    def _ask_transform(
        self, curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost], median: float | None
    ) -> Transform:
        """The transform of framed rows; ``median``: of their norms, if the centre has paid for it."""
        if not isinstance(self.radius, str):
            return framed_transform(self.transform, self.radius, float(frame.unit[0]), type(self).__name__)
        if median is None or Purpose.RADIUS in costs:
            question = RadiusHolding(frame, half=True)
            median = curator.measure(question, purpose=Purpose.RADIUS, cost=costs[Purpose.RADIUS])
        factor = cutoff_factor(frame.n_features) if self._descends else 1.0
        return Transform.of(self.transform, median * factor, type(self).__name__)

    def _signs(self, curator: Curator, frame: Frame, transform: Transform, cost: Cost) -> SignRelease:
        plain = transform.kind == "spherical"
        lattice = unit_lattice(frame) if plain else SignFrame(frame, transform).lattice
        found = curator.measure(Moment(lattice, law_for(cost)), purpose=Purpose.DIRECTIONS, cost=cost)
        return sign_release(found, weighted=not plain)

    def _squares(self, curator: Curator, view: ScoreFrame, radius: float, cost: Cost) -> NoisySquares:
        if not self._descends:
            return curator.measure(MeanSquares(Lattice(view, radius)), purpose=Purpose.VARIANCES, cost=cost)
        lattice = SignFrame(view, winsorized_redescending(radius)).lattice
        found = curator.measure(MeanSquares(lattice), purpose=Purpose.VARIANCES, cost=cost)
        return replace(found, squares=found.squares * radius**2, deviation=found.deviation * radius**2)

    def _assemble(self, directions: Floats, found: NoisySquares, frame: Frame, task: Task, radius: float) -> Estimate:
        k, d, unit = len(directions), task.n_features, frame.unit[0] ** 2
        order, variances = ordered_variances(found.squares[:k], np.full(k, found.deviation))
        directions, eigenvalues = directions[order], np.maximum(variances, 0.0) * unit
        left = max(float(found.squares[k]), 0.0) * unit / (d - k) if k < d else 0.0
        covariance = with_remainder(directions, eigenvalues, left)
        pure = task.budget.is_pure
        return Estimate(
            components=directions,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=covariance,
            mean=location(frame, None, task),
            n_rows=found.count * frame.rows_per_term,
            radius=radius * frame.unit[0],
            numerics="idealised" if pure else "exact",
            radius_released=self._pays_for_radius(task),
            notes=("Variances are of scores clipped to the radius: robust, and low for heavy tails.",),
        )
