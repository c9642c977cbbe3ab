"""``refined``: principal directions with noise relative to the signal, not to the longest direction. No bound.

Guarantee: (ε, δ)-DP, δ > 0, worst-case (for every data set), both relations, with exact integer statistics and exact
discrete noise. Proof: the method is an adaptive composition of

1. ``rounds`` + 1 sign moments Σzzᵀ, where z = Tx/|Tx| on the integer sphere lattice or, with a cutoff c,
   z = ξ(|Tx|)·Tx/|Tx| with ξ(s) = min(1, (c/s)⁴) on that of the unit ball (`stats.generalised`); c is a function of
   earlier releases. T = I + Uᵀ(diag(t) − I)U is a function of earlier releases, and the image of a row depends on T
   and that row alone (`stats.stretch`). Whatever T is, |z| ≤ 1, so the Frobenius sensitivity is √2 (replace:
   |zzᵀ − yyᵀ|²_F = |z|⁴ + |y|⁴ − 2(z·y)²) or 1 (add/remove).
2. a radius of rows whose directions were equalised, and for a private cutoff a radius that contains half of the rows,
   by the sparse-vector technique on a fixed geometric grid: ε-DP each (`questions.radius`).
3. the mean squares of the stretched scores, clipped to a radius R that is a function of releases (with a cutoff, their
   weight falls beyond it, and none counts more than R): ℓ2 sensitivity √2·R² or R² (`stats.moments.SquareSums`).

Gaussian shares compose exactly, μ² = Σμᵢ², even if each mechanism depends on earlier releases (Dong, Roth, Su 2022,
Theorem 3.2); pure shares compose by their dominating pair (`privacy.accounting`). The stretch (none, unless it is
predicted to help) and the directions that explain all releases together are functions of releases and of public numbers
(`stats.refinement`, `stats.next_look`).

Why this works. The noise of a second moment grows with the square of the longest direction, but the error of an angle
between a strong direction and a weak one is noise divided by the strong variance. Shrinking strong directions by T
before dividing each row by its norm makes both parts of a row equally long: the noise of the cross moment falls from
(a² + b²) to 2ab, where a and b are the typical norms of the two parts. Clipping the two parts separately would instead
give a sensitivity of 2ab at the largest a and b (a′ = −a, b′ = b).

A cutoff is for outliers. Signs give every row the same weight, however far away it is, so a cluster of a tenth of the
rows can rotate the directions. Beyond the cutoff the weight falls like (c/s)⁸. The centre and the variances are then
estimated in the same way (`methods.location`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import BARE, NO_CENTER, PAIRED, RELATIVE, ask_centered_frame, frame_rows, location
from dpeigen.methods.location import REUSED, Center, Weights, ask_center, center_integers, center_shares, cutoff_factor
from dpeigen.methods.outline import Outline, Planned, outline_of_signs
from dpeigen.methods.radius import CUTOFF_PLENTY, check_radii, radius_share
from dpeigen.methods.scores import variance_share
from dpeigen.methods.signs.evidence import FarWeight, Paid, measured_signs, sign_release
from dpeigen.methods.signs.outliers import SplitLook, split_look, split_part
from dpeigen.methods.signs.refined_cutoff import cutoff_growth
from dpeigen.methods.signs.refined_variances import USUAL_ROWS, ask_variances, relative_variances
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Cost, GaussianCost, allocate
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import GaussianLaw, Moment, RadiusHolding
from dpeigen.stats import Frame, unit_lattice
from dpeigen.stats.generalised import SignFrame, SplitSigns
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.next_look import choose_stretch
from dpeigen.stats.refinement import fit_model
from dpeigen.stats.sign_model import SignModel, SignRelease
from dpeigen.stats.spectrum import fix_signs, ordered_variances, with_remainder
from dpeigen.stats.stretch import Stretched
from dpeigen.stats.transform import Transform, redescending

__all__ = ["Refined"]

_RADIUS_SHARE, _MOST_SHARE = 0.04, 0.1  # of ε: usually, and with few rows
_CLIPPED = "Variances are of scores clipped to a radius: robust, and low for heavy tails."
_BULK = (
    "Rows far out have less weight. Centre and variances are those of the bulk: for normal rows the mean and the "
    "variance, for rows with heavy tails smaller variances, and for skewed rows another centre."
)


@dataclass(frozen=True)
class Refined(Method):
    """Directions from signs of rows that are stretched by a function of earlier releases.

    Parameters
    ----------
    rounds : how many sign moments follow the first; 0 is spatial signs with this radius and these variances.
    differences : whether rows enter as differences of random disjoint pairs, as with center="pairs". These need no
        centre, so a private centre costs little; but there are half as many. For few rows.
    only_directions : whether to pay for nothing else. Variances are relative to their sum, as the sign moments show
        them, and no private centre is found (directions then come from differences). For very few rows.
    cutoff : None; a public norm (of differences over √2, if rows enter as these); or "private", at least 1.4 times a
        paid median norm of rows. The weight of rows falls beyond it: for clusters of outliers.
    emphasis : factors on the default shares of the budget by purpose.
    """

    rounds: int = 3
    differences: bool = False
    only_directions: bool = False
    cutoff: float | str | None = None
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    name = "refined"
    shrinks = True
    reference = "two-stage spatial signs; the signal-adaptive rates are those of Cai, Xia and Zha 2024"
    needs_bound = False
    estimand = "spatial signs"
    robust = True
    planned = Planned(covariance=False, slow_search=3)
    needs_delta = True

    @property
    def label(self) -> str:
        kinds = ["redescending"] * (self.cutoff is not None) + ["differences"] * self.differences
        kinds += ["only directions"] * self.only_directions
        return f"{self.name} ({', '.join(kinds)})" if kinds else self.name

    def reluctance(self, task: Task) -> float:  # noqa: ARG002
        return BARE if self.only_directions else PAIRED if self.differences else 1.0

    def read_as(self, task: Task) -> Task:
        """The task with rows as they enter: as differences if these are chosen, or if no centre is to be paid for."""
        differences = self.differences or (self.only_directions and task.private_center)
        return replace(task, center="pairs") if differences else task

    @once_a_task
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose: evenly between sign moments, all of which are used in the end.

        A first one that looks for outliers has less. A robust centre pays for the median that a cutoff needs.
        """
        d, k = task.n_features, task.wanted
        read, pure, main = self.read_as(task), Weights(), Weights()
        if not self.only_directions:
            half = self.cutoff is not None
            plenty = 8 if half else 12  # the median is easier to find than the 95% quantile
            share = radius_share(read, _RADIUS_SHARE, most=_MOST_SHARE, plenty=plenty, half=half)
            pure = {Purpose.SCORES_RADIUS: share}
            main = {Purpose.VARIANCES: variance_share(read)}
        looks = self.rounds + 1 if k < d else 1
        parts = np.ones(looks)
        if isinstance(self.cutoff, str) and looks > 1:
            parts[0] = split_part(read, looks)
        parts *= (1 - main.get(Purpose.VARIANCES, 0.0)) / parts.sum()
        main |= {Purpose.look(number): float(part) for number, part in enumerate(parts, 1)}
        if task.private_center and not self.only_directions:
            center_pure, center_main = center_shares(task, measured=True, alone=read.pairs)
            pure, main = pure | center_pure, main | center_main
        if isinstance(self.cutoff, str) and (read.pairs or Purpose.CENTER_RADIUS not in pure):
            pure[Purpose.RADIUS] = radius_share(read, _RADIUS_SHARE, most=_MOST_SHARE, plenty=CUTOFF_PLENTY, half=True)
        pure, main = self.emphasised(pure), self.emphasised(main)
        coordinates = looks * d * (d + 1) // 2 + d + 1 + center_integers(d)
        if isinstance(self.cutoff, str) and looks > 1:  # the first measurement has both parts of every sign
            coordinates += d * (2 * d + 1) - d * (d + 1) // 2
        return allocate(task.budget, pure=pure, main=main, coordinates=coordinates)

    def outline(self, task: Task, rows: int) -> Outline:
        costs, pairs = self.shares(task), self.read_as(task).pairs
        looks = [gaussian_share(cost) ** 2 for purpose, cost in costs.items() if purpose.is_look]
        together, terms = GaussianCost(math.sqrt(math.fsum(looks))), rows // 2 if pairs else rows
        d, relation = task.n_features, task.relation
        return outline_of_signs("stretched", costs, together, terms, d, relation, centered=not pairs, looks=len(looks))

    def check(self, task: Task) -> None:
        super().check(task)
        check_count("rounds", self.rounds, "Refined", low=0, high=5)
        if isinstance(self.cutoff, str):
            check_choice("cutoff", self.cutoff, ["private"], "Refined")
        elif self.cutoff is not None:
            Transform.of("redescending", self.cutoff, "Refined")
        read, costs = self.read_as(task), self.shares(task)
        super().check(read)
        self.check_emphasis(costs)
        own = (Purpose.SCORES_RADIUS, Purpose.RADIUS)
        check_radii(read, {name: cost for name, cost in costs.items() if name in own}, half=self.cutoff is not None)
        check_radii(task, {name: cost for name, cost in costs.items() if name not in own})
        for cost in costs.values():
            if isinstance(cost, GaussianCost):
                check_scale(2 * LEVELS**2 / cost.mu)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, wanted = self.shares(task), task.wanted
        read = self.read_as(task)
        mean = self._separate_mean(curator, task, costs) if read.pairs else None
        frame, longest, center = self._ask_frame(curator, read, costs)
        mean = mean if read.pairs else location(frame, None, read)
        cutoff = self._ask_cutoff(curator, frame, costs, None if center is None else center.median)
        releases, model, far = self._ask_looks(curator, frame, costs, cutoff, wanted)
        basis, levels = model.completed(wanted), np.append(model.variances, np.ones(model.others))
        paid: Paid | None = None
        if self.only_directions:
            rows, note = None if task.n_rows is None else float(task.n_rows), RELATIVE
            squares = relative_variances(levels, wanted)
        else:
            half = self.cutoff is not None
            paid, count = ask_variances(curator, frame, basis, levels, costs, read, longest, half=half, far=far)
            squares, rows, note = paid.plain, count * frame.rows_per_term, _BULK if half else _CLIPPED
        terms = (rows or USUAL_ROWS) / frame.rows_per_term
        spread = None if center is None else center.deviations
        return _assemble(
            basis,
            squares,
            np.zeros(len(squares)) if paid is None else paid.noise * paid.units,
            measured=partial(measured_signs, releases, terms, model=model, paid=paid, center_deviations=spread),
            mean=mean,
            n_rows=rows,
            radius_released=Purpose.SCORES_RADIUS in costs,
            notes=(note,) if mean is not None or not task.private_center else (note, NO_CENTER),
            details={
                "refined_directions": min(len(releases[-1].basis), wanted),
                "variances": "relative" if self.only_directions else "paid",
            },
        )

    def _ask_frame(
        self, curator: Curator, read: Task, costs: Mapping[Purpose, Cost]
    ) -> tuple[Frame, float | None, Center | None]:
        """The frame of rows as they enter the signs, a public bound on their norms, and their centre if it is paid."""
        own = {purpose: cost for purpose, cost in costs.items() if purpose is not Purpose.CENTER or not read.pairs}
        frame, longest, center = ask_centered_frame(curator, read, own, robust=self.cutoff is not None, narrow_too=True)
        if read.pairs and isinstance(read.bound, float):
            longest = None  # differences of rows within a radius may be longer than it
        return frame, longest, center

    def _ask_looks(
        self, curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost], cutoff: float | None, wanted: int
    ) -> tuple[list[SignRelease], SignModel, FarWeight | None]:
        """The sign moments, each of rows stretched by a function of those before it, and the model that fits them.

        And what the first one shows about far rows, if it looks for outliers.
        """
        releases, model, weight = list[SignRelease](), None, None
        for purpose in [purpose for purpose in costs if purpose.is_look]:
            along = choose_stretch(model, _next_deviation(releases, costs, purpose), frame.n_features)
            view = Stretched(frame, *along)
            private = isinstance(self.cutoff, str)
            far = None if cutoff is None else cutoff * cutoff_growth(view, model, private=private)
            if model is None and self._splits(costs) and far is not None:
                look = _ask_split(curator, view, far, purpose, costs[purpose])
                shown = look.shows_outliers(wanted)
                cutoff = cutoff if shown else None
                weight = _far_weight(look, outliers=shown, reused=Purpose.RADIUS not in costs)
                releases.append(look.inside_release if shown else look.whole_release(wanted))
            else:
                releases.append(_ask_signs(curator, view, far, purpose, costs[purpose]))
            model = fit_model(releases, model, wanted)
        if model is None:
            raise AssertionError("there is at least one release")
        return releases, model, weight

    def _separate_mean(self, curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Floats | None:
        """The centre, if directions need none: paid for, public, or None."""
        frame, radius = frame_rows(task, weighted=False)
        if not task.private_center:
            return location(frame, None, task)
        if Purpose.CENTER not in costs:
            return None
        return ask_center(curator, frame, radius, costs, task, robust=self.cutoff is not None, narrow_too=True).place

    def _ask_cutoff(
        self, curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost], median: float | None
    ) -> float | None:
        """The cutoff for framed rows: public, or from a paid median norm, that of a robust centre if there is one."""
        if not isinstance(self.cutoff, str):
            return None if self.cutoff is None else self.cutoff / float(frame.unit[0])
        if median is None or Purpose.RADIUS in costs:
            question = RadiusHolding(frame, half=True)
            median = curator.measure(question, purpose=Purpose.RADIUS, cost=costs[Purpose.RADIUS])
        return cutoff_factor(frame.n_features) * median

    def _splits(self, costs: Mapping[Purpose, Cost]) -> bool:
        """Whether the first measurement decides if later ones need the cutoff."""
        return isinstance(self.cutoff, str) and Purpose.look(2) in costs


def _far_weight(split: SplitLook, *, outliers: bool, reused: bool) -> FarWeight:
    """What the first measurement shows about rows beyond its cutoff, which may come from the median of a centre."""
    d = len(split.near)
    cutoff = cutoff_factor(d) * (REUSED if reused else 1.0)
    return FarWeight(cutoff, 1 - split.inside, split.deviation * math.sqrt(d), split.terms, outliers)


def _next_deviation(releases: list[SignRelease], costs: Mapping[Purpose, Cost], purpose: Purpose) -> float:
    """The deviation of the noise on the next release, from that on the last."""
    if not releases:
        return math.inf
    last = costs[Purpose.look(len(releases))]
    return releases[-1].deviation * gaussian_share(last) / gaussian_share(costs[purpose])


def _ask_signs(curator: Curator, view: Stretched, cutoff: float | None, purpose: Purpose, cost: Cost) -> SignRelease:
    """A noisy mean of the signs of stretched rows, with less weight beyond the cutoff."""
    lattice = unit_lattice(view) if cutoff is None else SignFrame(view, redescending(cutoff)).lattice
    found = curator.measure(Moment(lattice, GaussianLaw()), purpose=purpose, cost=cost)
    return sign_release(found, view, weighted=cutoff is not None)


def _ask_split(curator: Curator, view: Stretched, cutoff: float, purpose: Purpose, cost: Cost) -> SplitLook:
    """Moments of the signs of rows inside the cutoff and beyond it."""
    lattice = SplitSigns(view, redescending(cutoff)).lattice
    return split_look(curator.measure(Moment(lattice, GaussianLaw()), purpose=purpose, cost=cost))


def _assemble(basis: Floats, squares: Floats, deviations: Floats, **rest: Any) -> Estimate:
    k, d = basis.shape
    order, variances = ordered_variances(squares[:k], deviations[:k])
    components, eigenvalues = fix_signs(basis[order]), np.maximum(variances, 0.0)
    left = max(float(squares[k]), 0.0) / (d - k) if k < d else 0.0
    return Estimate(
        components=components,
        eigenvalues=eigenvalues,
        noise_variance=left,
        covariance=with_remainder(components, eigenvalues, left),
        radius=None,
        numerics="exact",
        **rest,
    )
