"""``spatial-sign``: principal directions from rows divided by their own length. No bound, no moments, robust.

Guarantee: for every data set, (ε, δ)-DP with δ > 0 (exact discrete Gaussian noise) or ε-DP with δ = 0 (two-sided
Wishart noise, "idealised"). A row enters as (x − centre)/|x − centre|, on the unit sphere whatever its length, so the
sign moment has Frobenius sensitivity √2 (replace) or 1. Its eigenvectors are those of the covariance for every
elliptical distribution (Oja 2010; Kim and Jung 2025, Remark 2.2). Variances are paid for apart: along the released
directions the scores are clipped to a radius (the given bound, or a paid 95% quantile), and the sums of their
squares, with that of what is left over, are released: ℓ2 sensitivity √2·r², ℓ1 2·r². Clipping makes them robust and,
for heavy tails, smaller than the plain variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_centered_frame, location
from dpeigen.methods.location import center_integers, center_shares, within
from dpeigen.methods.outline import Outline, outline_of_signs
from dpeigen.methods.radius import check_radii, radius_share, rows_needed
from dpeigen.methods.scores import variance_share
from dpeigen.methods.signs.evidence import HELD, Paid, center_deviation, measured_signs, sign_release
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Cost, GaussianCost, PureCost, allocate
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import MeanSquares, Moment, RadiusHolding, law_for
from dpeigen.stats import Frame, Lattice, ScoreFrame, unit_lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.refinement import SignRelease
from dpeigen.stats.spectrum import symmetric_eigh

_SCORES_SHARE = 0.05  # of ε, usually


@dataclass(frozen=True)
class SpatialSign(Method):
    """Directions from spatial signs, variances from clipped scores.

    Parameters
    ----------
    emphasis : factors on the default shares of the budget by purpose, such as {"variances": 2.0}.
    """

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
        pure = (
            {Purpose.SCORES_RADIUS: radius_share(task, _SCORES_SHARE, most=0.12)} if self._pays_for_radius(task) else {}
        )
        variances = variance_share(task)
        main = {Purpose.DIRECTIONS: 1 - variances, Purpose.VARIANCES: variances}
        if task.private_center:
            center_pure, center_main = center_shares(task, measured=True)
            pure, main = pure | center_pure, main | center_main
        d = task.n_features
        pure, main = self.emphasised(pure), self.emphasised(main)
        integers = d * (d + 1) // 2 + d + 1 + center_integers(d)
        return allocate(task.budget, pure=pure, main=main, coordinates=integers)

    def _pays_for_radius(self, task: Task) -> bool:
        if not isinstance(task.bound, (tuple, float)):
            return True
        if isinstance(task.bound, float) and not task.private_center:
            return False
        # The corner of a box, or a radius about another point, is far too long for scores: a paid one is better where
        # there are rows enough.
        needed = rows_needed(PureCost(_SCORES_SHARE * task.budget.epsilon))
        return task.n_terms is None or task.n_terms >= needed

    def outline(self, task: Task, rows: int) -> Outline:
        costs, terms = self.shares(task), rows // 2 if task.pairs else rows
        directions, about = costs[Purpose.DIRECTIONS], not task.pairs
        return outline_of_signs("signs", costs, directions, terms, task.n_features, task.relation, centered=about)

    def check(self, task: Task) -> None:
        super().check(task)
        costs = self.shares(task)
        self.check_emphasis(costs)
        check_radii(task, costs)
        for purpose, cost in costs.items():
            if purpose.is_radius:
                continue
            if isinstance(cost, PureCost):  # the widest of the pure noises: signs, centre, variances
                check_scale(4 * LEVELS**2 * math.sqrt(task.n_features + 1) / cost.epsilon)
            elif isinstance(cost, GaussianCost):
                check_scale(2 * LEVELS**2 / cost.mu)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs = self.shares(task)
        frame, radius, center_error = ask_centered_frame(curator, task, costs)
        signs = self._signs(curator, frame, costs[Purpose.DIRECTIONS])
        directions = symmetric_eigh(signs.matrix, task.n_components)[1]
        view = ScoreFrame(frame, directions, residual=len(directions) < task.n_features)
        if Purpose.SCORES_RADIUS in costs:
            cost = costs[Purpose.SCORES_RADIUS]
            radius = within(curator.measure(RadiusHolding(view), purpose=Purpose.SCORES_RADIUS, cost=cost), radius)
        if radius is None:
            raise AssertionError("a radius is public or paid for")
        question = MeanSquares(Lattice(view, radius))
        found = curator.measure(question, purpose=Purpose.VARIANCES, cost=costs[Purpose.VARIANCES])
        estimate = self._assemble(directions, found.squares, frame, task, count=found.count, radius=radius)
        unit, reach = float(frame.unit[0]), task.row_radius(radius, view)
        paid = Paid(directions, found.squares, np.full(len(found.squares), found.deviation), reach, HELD, unit**2)
        measured = partial(
            measured_signs,
            [signs],
            found.count,
            paid=paid,
            center_deviation=center_deviation(center_error, task.n_features, unit),
        )
        return replace(estimate, measured=measured)

    def _signs(self, curator: Curator, frame: Frame, cost: Cost) -> SignRelease:
        question = Moment(unit_lattice(frame), law_for(cost))
        return sign_release(curator.measure(question, purpose=Purpose.DIRECTIONS, cost=cost))

    def _assemble(self, directions: Floats, squares: Floats, frame: Frame, task: Task, **rest: Any) -> Estimate:
        k, d, unit = len(directions), task.n_features, frame.unit[0] ** 2
        variances = np.maximum(squares, 0.0) * unit
        order = np.argsort(-variances[:k], kind="stable")
        directions, eigenvalues = directions[order], variances[:k][order]
        left = float(variances[k] / (d - k)) if k < d else 0.0
        covariance = (directions.T * (eigenvalues - left)) @ directions + left * np.eye(d)
        pure = task.budget.is_pure
        return Estimate(
            components=directions,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=covariance,
            mean=location(frame, None, task),
            n_rows=rest["count"] * frame.rows_per_term,
            radius=rest["radius"] * frame.unit[0],
            numerics="idealised" if pure else "exact",
            radius_released=self._pays_for_radius(task),
            notes=("Variances are of scores clipped to the radius: robust, and low for heavy tails.",),
        )
