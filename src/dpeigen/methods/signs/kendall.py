"""``kendall``: principal directions from generalised Kendall's tau, for outliers and heavy tails. No bound, no centre.

Guarantee: for every data set, under replacement of one row: (ε, δ)-DP with δ > 0 (exact discrete Gaussian noise), or
ε-DP with δ = 0 (two-sided Wishart noise, "idealised"). The mean of g·gᵀ over pairs of rows, ‖g‖ ≤ b, has Frobenius
sensitivity 2√2·b²/n, rounding included (`stats.kendall`); the printed 4·b²/n is not needed. For an elliptical law its
eigenvectors are those of the covariance (Kim and Jung 2025, Proposition 3.1). The pairs of rows follow a public design:
all pairs, or a circulant design over a secret random order, which has the same sensitivity and takes less time.

Variances at no cost: for the spherical transform relative to their sum, by inverting φ (`stats.elliptical`); for the
winsorised one in the data's units, as if the rows were Gaussian. Variances that are paid for: winsorised squares of
scores of disjoint differences along the released directions (Remark 2.1), with ℓ2 sensitivity √2·r² and ℓ1 sensitivity
2·r², at a paid median radius.

``constants="published"``: σ = 4·b²·√(2·ln(1.25/δ))/(n·ε), which costs less than ε; `price` states how much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import BARE, NO_CENTER, PAIRED, RADIUS_SHARE, RELATIVE, frame_rows, location
from dpeigen.methods.location import Weights, ask_center, center_integers, center_shares, cutoff_factor
from dpeigen.methods.outline import Outline, Planned, entry_noise
from dpeigen.methods.radius import CUTOFF_PLENTY, check_enough_rows, radius_share
from dpeigen.methods.scores import variance_share
from dpeigen.methods.signs.evidence import Paid, measured_signs
from dpeigen.methods.signs.transforms import CUTOFF_LOSS, check_transform, framed_transform
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Budget, Cost, GaussianCost, PureCost, allocate, gaussian_epsilon
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import MeanSquares, RadiusHolding, SymmetricLaw, Tau, law_for
from dpeigen.questions.kendall import PART
from dpeigen.stats import Frame, Lattice, ScoreFrame, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.elliptical import relative_variances, winsorized_variances
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.products import check_blas
from dpeigen.stats.sign_model import SignRelease
from dpeigen.stats.spectrum import fix_signs, ordered_variances, with_remainder
from dpeigen.stats.transform import REDESCENDING, Scale, Transform

__all__ = ["Kendall"]

_SCORES_SHARE = 0.05  # of ε, usually
_EXACT_ROWS = 20_000  # up to which "auto" uses all pairs
_PAIRS = 2 * 10**8  # the approximate number that "auto" uses beyond that
_MEMORY = 2**30  # bytes of rows beyond which "auto" pairs rows within blocks


@dataclass(frozen=True)
class Kendall(Method):
    """Directions from signs of differences.

    Parameters
    ----------
    transform : "spherical"; "winsorized"; "redescending", min(1, (c/s)⁴), or "winsorized-redescending",
        min(s, c(c/s)⁴), which give distant pairs less and less weight, for clusters of outliers; or a bounded function
        ξ ≥ 0 of distances s = |x − y|/√2. The function is tabulated at 256 public points in each octave, and is never
        called with a distance of the data.
    radius : for "winsorized" a public radius or "private" (paid: the median distance); for the redescending ones a
        public cutoff c or "private" (1.4 times that median or more); for a function its bound, to which values are cut.
    design : "all" pairs; B, the circulant design in which every row is paired with 2B others; "blocks", circulant
        inside blocks of 8,192 rows, for data larger than memory; "auto": all up to 20,000 rows, then about 2·10⁸ pairs.
    constants : "sharp", or "published" as printed; the guarantee then states what they give.
    variances : "free" (relative for "spherical" and nearly so for "redescending"; Gaussian for "winsorized"; of tau
        itself for the others), "paid", or "auto": paid for a covariance, unless it is winsorised, and free for
        components.
    location : "none", "paid" if the centre is private, or "auto": paid for a covariance only. Differences need none.
    emphasis : factors on the default shares of the budget by purpose.
    """

    transform: str | Scale = "spherical"
    radius: float | str | None = None
    design: str | int = "auto"
    constants: str = "sharp"
    variances: str = "auto"
    location: str = "auto"
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    name = "kendall"
    shrinks = True
    reference = "Kim and Jung 2025"
    needs_bound = False
    needs_replace = "Use relation='replace', or method='spatial-sign'."
    estimand = "Kendall's tau"
    robust = True
    planned = Planned(covariance=False, unseen=frozenset({Purpose.RADIUS}))  # plans assume spherical differences

    @once_a_task
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        if self.constants == "published":
            return {Purpose.TAU: self._published_cost(task)}
        pure: Weights = {Purpose.RADIUS: RADIUS_SHARE} if isinstance(self.radius, str) else {}
        if pure and self.transform in REDESCENDING:  # a cutoff need not be precise
            share = radius_share(_paired(task), _SCORES_SHARE, most=0.12, half=True, plenty=CUTOFF_PLENTY)
            pure[Purpose.RADIUS] = share
        main = {Purpose.TAU: 1.0}
        if self._pays_for_variances(task):
            main[Purpose.VARIANCES] = variance_share(_paired(task))
            if not isinstance(task.bound, float):
                pure[Purpose.SCORES_RADIUS] = radius_share(_paired(task), _SCORES_SHARE, most=0.12, half=True)
        if self._pays_for_location(task):
            center_pure, center_main = center_shares(task, measured=True, alone=task.n_components is not None)
            pure, main = pure | center_pure, main | center_main
        d = task.n_features
        pure, main = self.emphasised(pure), self.emphasised(main)
        return allocate(task.budget, pure=pure, main=main, coordinates=d * (d + 1) // 2 + d + center_integers(d))

    @property
    def label(self) -> str:
        kinds = [self.transform] if self.transform in REDESCENDING else []
        kinds += ["only directions"] * (self.variances == "free")
        return f"{self.name} ({', '.join(map(str, kinds))})" if kinds else self.name

    def reluctance(self, task: Task) -> float:
        if self.variances != "paid":
            return BARE * (1.0 if isinstance(task.center, str) else 1.2)
        return 1.0 if task.pairs else PAIRED if task.private_center else 1.2

    def outline(self, task: Task, rows: int) -> Outline:
        costs = self.shares(task)
        noise = 2 * entry_noise(costs[Purpose.TAU], task.n_features, task.relation) / rows
        noise *= CUTOFF_LOSS if self.transform in REDESCENDING else 1.0
        return Outline("differences", rows, noise, 0.0, Purpose.RADIUS in costs, Purpose.CENTER_RADIUS in costs)

    def _pays_for_variances(self, task: Task) -> bool:
        whole = task.n_components is None and self.transform != "winsorized"
        return self.variances == "paid" or (self.variances == "auto" and whole and self.constants == "sharp")

    def _pays_for_location(self, task: Task) -> bool:
        wanted = self.location == "paid" or (self.location == "auto" and task.n_components is None)
        return task.private_center and wanted and self.constants == "sharp"

    def _published_cost(self, task: Task) -> Cost:
        sigma = 4 * math.sqrt(2 * math.log(1.25 / task.budget.delta)) / task.budget.epsilon  # times b²/n
        return GaussianCost(2 * (math.sqrt(2) if task.n_features > 1 else 1.0) / sigma)

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        mu = gaussian_share(self._published_cost(task))
        return Budget(max(gaussian_epsilon(task.budget.delta, mu) * (1 + 1e-9), 1e-9), task.budget.delta)

    def check(self, task: Task) -> None:
        super().check(task)
        check_blas(self.name)
        owner = type(self).__name__
        check_choice("constants", self.constants, ["sharp", "published"], owner)
        check_choice("variances", self.variances, ["auto", "free", "paid"], owner)
        check_choice("location", self.location, ["auto", "none", "paid"], owner)
        if isinstance(self.design, str):
            check_choice("design", self.design, ["auto", "all", "blocks"], owner)
        else:
            check_count("design", self.design, owner)
        check_transform(self.transform, self.radius, owner)
        if self.constants == "published":
            self._check_published(task)
        self._check_noise(task)

    def _check_published(self, task: Task) -> None:
        paid = isinstance(self.radius, str) or "paid" in (self.variances, self.location)
        if paid or task.budget.is_pure:
            must = "'sharp' where anything but tau is paid for, and for delta=0"
            raise ValueError(complain("constants", type(self).__name__, must, self.constants))

    def _check_noise(self, task: Task) -> None:
        costs, n = self.shares(task), task.n_rows
        self.check_emphasis(costs)
        for purpose, cost in costs.items():
            if purpose in (Purpose.RADIUS, Purpose.SCORES_RADIUS):
                check_enough_rows(_paired(task).n_terms, cost, task.owner, half=True)
            elif purpose.is_radius:
                check_enough_rows(n, cost, task.owner)
            elif isinstance(cost, PureCost):  # the largest of the pure noises: tau, centre, variances
                check_scale(4 * LEVELS**2 * math.sqrt(task.n_features + 1) / cost.epsilon)
            else:
                check_scale(2 * LEVELS**2 / gaussian_share(cost))

    # --- asking ------------------------------------------------------------------------------------------------------

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, d = self.shares(task), task.n_features
        frame = replace(frame_rows(task, weighted=False)[0], pairs=False)
        differences = replace(frame, pairs=True)
        transform = self._ask_transform(curator, differences, costs)
        law = law_for(costs[Purpose.TAU])
        question = self._question(frame, transform, law, task)
        tau = curator.measure(question, purpose=Purpose.TAU, cost=costs[Purpose.TAU])
        noisy, deviation = tau.mean, tau.deviation  # in units of b²
        raw, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
        phi = shrink_eigenvalues(raw, law.r_transform(d, deviation), math.sqrt(d) * deviation)
        phi = project_eigenvalues(phi, trace=1.0)[::-1]
        directions = fix_signs(vectors.T[::-1])
        paid: Paid | None = None
        if Purpose.VARIANCES in costs:
            directions = directions[: task.wanted]
            variances, paid = self._ask_variances(curator, differences, directions, costs, task)
        else:
            variances = self._free_variances(phi, transform)
        mean, spread = self._ask_mean(curator, frame, costs, task)
        relative = transform.kind in ("spherical", "redescending")
        details = {
            "tau_eigenvalues": [float(v) * transform.unit for v in raw[::-1]],
            "tau_bound": float(transform.radius),
            "tau_noise_norm": law.norm(d, deviation, 0.025) * transform.unit,
            "tau_share": tau.share,
            "pairs": tau.pairs,
            "variances": "paid" if paid is not None else "relative" if relative else "free",
        }
        noise = 0.0 if paid is None else float(np.max(paid.noise)) * float(differences.unit[0]) ** 2
        estimate = self._assemble(directions, variances, noise, mean, details, law.numerics, task)
        if transform.kind != "spherical":
            return estimate
        look = SignRelease(noisy, deviation, np.zeros((0, d)), np.zeros(0))
        return replace(
            estimate, measured=partial(measured_signs, [look], task.n_rows or 1, paid=paid, center_deviations=spread)
        )

    def _ask_transform(self, curator: Curator, differences: Frame, costs: Mapping[Purpose, Cost]) -> Transform:
        """The transform, with a radius or cutoff from a paid median if that is private."""
        radius = self.radius
        if isinstance(radius, str):
            question = RadiusHolding(differences, half=True)
            median = curator.measure(question, purpose=Purpose.RADIUS, cost=costs[Purpose.RADIUS])
            radius = median * float(differences.unit[0])
            if self.transform in REDESCENDING:
                radius *= cutoff_factor(differences.n_features)
        return framed_transform(self.transform, radius, 1.0, type(self).__name__)

    def _question(self, frame: Frame, transform: Transform, law: SymmetricLaw, task: Task) -> Tau:
        n, design = task.n_rows or 0, self.design
        band = max(64, _PAIRS // max(n, 1))
        if design == "auto":
            design = "all" if n <= _EXACT_ROWS else "blocks" if 8 * n * task.n_features > _MEMORY else band
        if design == "blocks":
            return Tau(frame, transform, n, law, min(band, PART // 4), in_parts=True)
        return Tau(frame, transform, n, law, None if design == "all" else int(design))

    def _free_variances(self, phi: Floats, transform: Transform) -> Floats:
        if transform.kind in ("spherical", "redescending"):
            return relative_variances(phi)
        if transform.kind == "winsorized":
            return winsorized_variances(phi * transform.unit, transform.radius)
        return phi * transform.unit

    def _ask_variances(
        self, curator: Curator, frame: Frame, directions: Floats, costs: Mapping[Purpose, Cost], task: Task
    ) -> tuple[Floats, Paid]:
        """Variances along the directions, then the mean remaining variance for each of the remaining directions."""
        d, k = task.n_features, len(directions)
        view = ScoreFrame(frame, directions, residual=k < d)
        if isinstance(task.bound, float):
            radius = task.bound / math.sqrt(2.0)
        else:
            cost = costs[Purpose.SCORES_RADIUS]
            radius = curator.measure(RadiusHolding(view, half=True), purpose=Purpose.SCORES_RADIUS, cost=cost)
        question = MeanSquares(Lattice(view, radius))
        found = curator.measure(question, purpose=Purpose.VARIANCES, cost=costs[Purpose.VARIANCES])
        squares, unit = found.squares, float(frame.unit[0]) ** 2
        phi = np.append(squares[:k], np.full(d - k, squares[-1] / (d - k))) if k < d else squares
        outside = None if isinstance(task.bound, float) else (0.5, 0.15)
        paid = Paid(directions, squares, np.full(len(squares), found.deviation), radius, outside, unit)
        return winsorized_variances(phi, radius) * unit, paid

    def _ask_mean(
        self, curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost], task: Task
    ) -> tuple[Floats | None, Floats | None]:
        """The centre, and the deviation of the error of each of its columns if it was paid for."""
        if not task.private_center:
            return location(frame, None, task), None
        if Purpose.CENTER not in costs:
            return None, None
        robust = self.transform in REDESCENDING
        radius = frame_rows(task, weighted=False)[1]
        center = ask_center(curator, frame, radius, costs, task, robust=robust, narrow_too=True)
        return center.place, center.deviations

    def _assemble(
        self,
        directions: Floats,
        variances: Floats,
        noise: float,
        mean: Floats | None,
        details: Any,
        numerics: Numerics,
        task: Task,
    ) -> Estimate:
        k, d = len(directions), task.n_features
        order, values = ordered_variances(variances[:k], np.full(k, noise))
        directions = directions[order]
        left = float(variances[k:].mean()) if k < d else 0.0
        covariance = with_remainder(directions, values, left)
        keep = d if task.n_components is None else task.n_components
        notes = ["Pairs of rows that nearly coincide take longer: the time depends on the data."]
        if details["variances"] == "relative":
            notes.append(RELATIVE)
        if mean is None and task.private_center:
            notes.append(NO_CENTER)
        return Estimate(
            components=directions[:keep],
            eigenvalues=values[:keep],
            noise_variance=float(np.append(values[keep:], variances[k:]).mean()) if keep < d else 0.0,
            covariance=(covariance + covariance.T) / 2,
            mean=mean,
            n_rows=None if task.n_rows is None else float(task.n_rows),
            radius=details["tau_bound"] if self.transform == "winsorized" else None,
            numerics=numerics,
            notes=tuple(notes),
            details=details,
            radius_released=isinstance(self.radius, str)
            if self.transform == "winsorized"
            else Purpose.SCORES_RADIUS in self.shares(task),
        )


def _paired(task: Task) -> Task:
    """The same facts for disjoint differences of rows."""
    return replace(task, center="pairs")
