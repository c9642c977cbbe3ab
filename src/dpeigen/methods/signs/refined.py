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
from scipy.special import chdtri

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import BARE, NO_CENTER, PAIRED, RELATIVE, ask_centered_frame, frame_rows, location
from dpeigen.methods.location import Weights, ask_center, center_integers, center_shares, cutoff_factor
from dpeigen.methods.outline import Outline, Planned, outline_of_signs
from dpeigen.methods.radius import CUTOFF_PLENTY, check_radii, radius_share
from dpeigen.methods.scores import variance_share
from dpeigen.methods.signs.evidence import Paid, center_deviation, left_outside, measured_signs, sign_release
from dpeigen.methods.signs.outliers import SplitLook, split_look, split_part
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Cost, GaussianCost, allocate
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import GaussianLaw, MeanSquares, Moment, RadiusHolding
from dpeigen.stats import Frame, Lattice, ScoreFrame, unit_lattice
from dpeigen.stats.generalised import SignFrame, SplitSigns
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.next_look import choose_stretch
from dpeigen.stats.pairs import Transform, redescending, winsorized_redescending
from dpeigen.stats.refinement import SignModel, SignRelease, fit_model
from dpeigen.stats.spectrum import fix_signs
from dpeigen.stats.stretch import Stretched

__all__ = ["Refined", "even_factors", "next_deviation", "variance_reach"]

_RADIUS_SHARE, _MOST_SHARE = 0.04, 0.1  # of ε: usually, and with few rows
_HELD = 0.03  # of normal rows exceed a private cutoff, once releases have shown how unequal directions are
_CLIPPED = "Variances are of scores clipped to a radius: robust, and low for heavy tails."
_TAILS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
_USUAL_ROWS = 10_000  # assumed for the split if the number of rows is private


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
        d, k = task.n_features, _wanted(task)
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
        costs, wanted, d = self.shares(task), _wanted(task), task.n_features
        read = self.read_as(task)
        mean = self._separate_mean(curator, task, costs) if read.pairs else None
        own = {purpose: cost for purpose, cost in costs.items() if purpose is not Purpose.CENTER or not read.pairs}
        robust = self.cutoff is not None
        frame, cap, center = ask_centered_frame(curator, read, own, robust=robust)
        if read.pairs and isinstance(task.bound, float):
            cap = None  # differences of rows within a radius may be longer than it
        mean = mean if read.pairs else location(frame, None, read)
        cutoff = self._ask_cutoff(curator, frame, costs, None if center is None else center.median)
        releases, model = list[SignRelease](), None
        for purpose in [purpose for purpose in costs if purpose.is_look]:
            along = choose_stretch(model, next_deviation(releases, costs, purpose), d)
            view = Stretched(frame, *along)
            far = None if cutoff is None else cutoff * self._longer(view, model)
            if model is None and self._splits(costs) and far is not None:
                look = _ask_split(curator, view, far, purpose, costs[purpose])
                shown = look.shows_outliers(wanted)
                cutoff = cutoff if shown else None
                releases.append(look.inside_release if shown else look.whole_release(wanted))
            else:
                releases.append(_ask_signs(curator, view, far, purpose, costs[purpose]))
            model = fit_model(releases, model, wanted)
        if model is None:
            raise AssertionError("there is at least one release")
        basis, levels = model.completed(wanted), np.append(model.variances, 1.0)[:wanted]
        unit = float(frame.unit[0])
        paid: Paid | None = None
        if self.only_directions:
            squares, rows, note = _relative(levels, d), None if task.n_rows is None else float(task.n_rows), RELATIVE
        else:
            paid, count = self._ask_squares(curator, frame, basis, levels, costs, read, cap)
            squares, rows, note = paid.plain, count * frame.rows_per_term, _CLIPPED
        terms = (rows or _USUAL_ROWS) / frame.rows_per_term
        spread = center_deviation(None if center is None else center.error, d, unit)
        return _assemble(
            basis,
            squares,
            measured=partial(measured_signs, releases, terms, model=model, paid=paid, center_deviation=spread),
            mean=mean,
            n_rows=rows,
            radius_released=Purpose.SCORES_RADIUS in costs,
            notes=(note,) if mean is not None or not task.private_center else (note, NO_CENTER),
            details={
                "refined_directions": min(len(releases[-1].basis), wanted),
                "variances": "relative" if self.only_directions else "paid",
            },
        )

    def _separate_mean(self, curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Floats | None:
        """The centre, if directions need none: paid for, public, or None."""
        frame, radius = frame_rows(task, weighted=False)
        if not task.private_center:
            return location(frame, None, task)
        if Purpose.CENTER not in costs:
            return None
        return ask_center(curator, frame, radius, costs, task, robust=self.cutoff is not None)[0]

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

    def _longer(self, view: Stretched, model: SignModel | None) -> float:
        """The factor by which the cutoff is larger for stretched rows."""
        if model is None:
            return 1.0
        before, after = _spread(model), _spread(model, view)
        same = math.sqrt(after[0] / before[0])
        if not isinstance(self.cutoff, str):
            return same
        held = math.sqrt(_square(after, _HELD) / _square(before, 0.5))
        return max(same, held / cutoff_factor(len(model.directions.T)))

    def _ask_squares(
        self,
        curator: Curator,
        frame: Frame,
        basis: Floats,
        levels: Floats,
        costs: Mapping[Purpose, Cost],
        task: Task,
        cap: float | None,
    ) -> tuple[Paid, float]:
        """Mean squares along the directions and of the remainder, and the number of terms."""
        wanted, d = basis.shape
        factors = even_factors(levels, d - wanted)
        evened = Stretched(frame, basis, factors)
        cost = costs[Purpose.SCORES_RADIUS]
        half = self.cutoff is not None
        paid_for = curator.measure(RadiusHolding(evened, half=half), purpose=Purpose.SCORES_RADIUS, cost=cost)
        radius = variance_reach(paid_for, factors, cap, task, costs, holding=0.5 if half else 0.05)
        scores = ScoreFrame(evened, basis, residual=wanted < d)
        if half:
            question = MeanSquares(SignFrame(scores, winsorized_redescending(radius)).lattice)
            found = curator.measure(question, purpose=Purpose.VARIANCES, cost=costs[Purpose.VARIANCES])
            found = replace(found, squares=found.squares * radius**2, deviation=found.deviation * radius**2)
        else:
            question = MeanSquares(Lattice(scores, radius))
            found = curator.measure(question, purpose=Purpose.VARIANCES, cost=costs[Purpose.VARIANCES])
        share = _tail(task, gaussian_share(costs[Purpose.VARIANCES]))
        units = np.append(factors**-2.0, 1.0)[: len(found.squares)] * float(frame.unit[0]) ** 2
        noise, reach = np.full(len(found.squares), found.deviation), task.row_radius(radius, scores)
        outside = (share, 0.3 * share) if half else left_outside(cost, task.relation, found.count, radius / paid_for)
        return Paid(basis, found.squares, noise, reach, outside, units), found.count


def next_deviation(releases: list[SignRelease], costs: Mapping[Purpose, Cost], purpose: Purpose) -> float:
    """The deviation of the noise on the next release, from that on the last."""
    if not releases:
        return math.inf
    last = costs[Purpose.look(len(releases))]
    return releases[-1].deviation * gaussian_share(last) / gaussian_share(costs[purpose])


def _wanted(task: Task) -> int:
    return task.n_features if task.n_components is None else task.n_components


def _ask_signs(curator: Curator, view: Stretched, cutoff: float | None, purpose: Purpose, cost: Cost) -> SignRelease:
    """A noisy mean of the signs of stretched rows, with less weight beyond the cutoff."""
    lattice = unit_lattice(view) if cutoff is None else SignFrame(view, redescending(cutoff)).lattice
    found = curator.measure(Moment(lattice, GaussianLaw()), purpose=purpose, cost=cost)
    return sign_release(found, view, weighted=cutoff is not None)


def _ask_split(curator: Curator, view: Stretched, cutoff: float, purpose: Purpose, cost: Cost) -> SplitLook:
    """Moments of the signs of rows inside the cutoff and beyond it."""
    lattice = SplitSigns(view, redescending(cutoff)).lattice
    return split_look(curator.measure(Moment(lattice, GaussianLaw()), purpose=purpose, cost=cost))


def _spread(model: SignModel, view: Stretched | None = None) -> tuple[float, float]:
    """The mean square of rows of the model, stretched or not, and the degrees of freedom of their squared norms."""
    d = model.directions.shape[1]
    covariance = np.eye(d) + (model.directions.T * (model.variances - 1)) @ model.directions
    if view is not None and len(view.factors):
        stretch = np.eye(d) + (view.directions.T * (view.factors - 1)) @ view.directions
        covariance = stretch @ covariance @ stretch
    trace = float(np.trace(covariance))
    return trace, trace**2 / float((covariance**2).sum())


def _square(spread: tuple[float, float], share: float) -> float:
    """The approximate squared norm that this share of normal rows exceeds."""
    mean, freedom = spread
    return mean * float(chdtri(freedom, share)) / freedom


def even_factors(levels: Floats, others: int) -> Floats:
    """Factors that make every score as long as the remainder of ``others`` directions of variance 1."""
    return np.sqrt(max(others, 1) / levels)


def _tail(task: Task, mu: float) -> float:
    """The share of rows to clip for the variances, from public numbers: less if there is less noise.

    Clipping a share of Gaussian rows costs the variances about a third of it; noise costs √2·R²/(n·μ) of R²/(k + 1).
    """
    k = _wanted(task)
    n = _USUAL_ROWS if task.n_terms is None else task.n_terms
    costs = {tail: tail / 3 + math.sqrt(2) * float(chdtri(k + 1, tail)) / (n * mu) for tail in _TAILS}
    return min(costs, key=lambda tail: costs[tail])


def variance_reach(
    radius: float,
    factors: Floats,
    cap: float | None,
    task: Task,
    costs: Mapping[Purpose, Cost],
    holding: float = 0.05,
) -> float:
    """The radius for equalised rows, from the paid radius and the longest row that public bounds allow.

    ``holding``: the share of rows beyond the paid radius.
    """
    radius *= _further(_wanted(task), task.n_features, _tail(task, gaussian_share(costs[Purpose.VARIANCES])), holding)
    return radius if cap is None else min(radius, cap * max(1.0, float(factors.max(initial=0.0))))


def _further(wanted: int, d: int, tail: float, holding: float = 0.05) -> float:
    """The ratio to the paid radius of the radius that a share ``tail`` of rows with equalised scores exceeds."""

    def square(share: float) -> float:
        inside = max(d - wanted, 1) * float(chdtri(wanted, share)) if wanted else 0.0
        return inside + (float(chdtri(d - wanted, share)) if wanted < d else 0.0)

    return math.sqrt(square(tail) / square(holding))


def _relative(levels: Floats, d: int) -> Floats:
    """Shares of the total variance: of each direction, and of the remainder."""
    left = float(d - len(levels))
    return np.append(levels, left)[: len(levels) + (left > 0)] / (float(levels.sum()) + left)


def _assemble(basis: Floats, squares: Floats, **rest: Any) -> Estimate:
    k, d = basis.shape
    variances = np.maximum(squares, 0.0)
    order = np.argsort(-variances[:k], kind="stable")
    components, eigenvalues = fix_signs(basis[order]), variances[:k][order]
    left = float(variances[k] / (d - k)) if k < d else 0.0
    return Estimate(
        components=components,
        eigenvalues=eigenvalues,
        noise_variance=left,
        covariance=(components.T * (eigenvalues - left)) @ components + left * np.eye(d),
        radius=None,
        numerics="exact",
        **rest,
    )
