"""``whitened``: a covariance whose noise has the shape of the data. Worst-case, any units, any origin, no bound.

Guarantee: (ε, δ)-DP, δ ≥ 0, for every data set and both relations, with exact integer statistics. The noise is exact
discrete Gaussian for δ > 0, and that of `matrix-laplace`, idealised as there, for δ = 0. Proof: the method is an
adaptive composition of

1. noisy counts from which every column gets a unit and a location (`methods.columns`), and the mean of rows in them.
2. two radii by the sparse-vector technique on a fixed geometric grid: ε-DP each (`questions.radius`).
3. the second moment of the framed rows, clipped to the first radius, and that of whitened rows Tz, clipped to the
   second. T is a function of the first release, and the image of a row depends on T and that row alone
   (`stats.stretch`). Whatever T is, no clipped row exceeds the radius: Frobenius sensitivity √2·R² (replace) or R²
   (add/remove), trace 2·R² or R², in integers (`stats.moments`, `stats.nested`).
4. if it is private, the number of rows: sensitivity 1.
5. for large ε, counts of rows far outside the last radius: a row is in at most one cell (`questions.far_rows`).

Gaussian shares compose exactly, even if each mechanism depends on earlier releases (Dong, Roth, Su 2022); pure shares
compose by their dominating pair (`privacy.accounting`). Everything else is post-processing.

Why this works. If all columns get the same noise, it has the size of the largest column and hides those in small units.
If all directions get the same noise, it hides the weak ones. Let T = (Ĉ + η)^−½, where η is the size of the noise in
Ĉ. After T, all directions that exceed the noise have about the same variance, so each error is relative to the variance
of its direction. Rows of any spectrum also have about the same norm, so few are clipped. This is CoinPress (Biswas,
Dong, Kamath, Ullman 2020) with four changes. No bounds on the covariance are needed. The radii are estimated from the
rows (CoinPress assumes Gaussian rows). The noise is isotropic on symmetric matrices (in CoinPress it is √2 too large
off the diagonal). η covers the noise (in the published code it does not). The last radius is adaptive, as in Dong,
Liang, Yi 2022: the number of clipped rows balances the clipping error with the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_count
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.columns import (
    ColumnFrame,
    ask_columns,
    column_integers,
    column_shares,
    own_units,
    unknown_note,
)
from dpeigen.methods.framing import location
from dpeigen.methods.holes import ask_holes, hole_integers, hole_shares
from dpeigen.methods.large import ROUGH_REACHES_EPSILON, as_spent, last_radius_share, leading, single_rows_count
from dpeigen.methods.moment.base import noise_size
from dpeigen.methods.moment.far_rows import COUNTED, Counted, ask_far_rows
from dpeigen.methods.moment.last_view import LastView, Looked, ask_last_view
from dpeigen.methods.moment.lengths import far_in, first_radius, least_of, lost_by
from dpeigen.methods.moment.reach import (
    SHORTENED,
    in_box,
)
from dpeigen.methods.moment.rounds import (
    ROUNDS,
    ask_rounds,
    enough_for_columns,
    enough_rows,
    noise_of_round,
    resolves,
)
from dpeigen.methods.moment.turned import SeenMoment, ask_moment, law_of
from dpeigen.methods.outline import Outline
from dpeigen.methods.places import settled
from dpeigen.methods.prediction import usual_error
from dpeigen.methods.radius import check_radii
from dpeigen.methods.task import once_a_task
from dpeigen.privacy import Cost, PureCost, Relation, allocate
from dpeigen.questions import Count, RadiusLeaving
from dpeigen.stats import Frame, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.clipping import unclipped
from dpeigen.stats.spectrum import leading_components
from dpeigen.stats.whitening import quadratic_forms

__all__ = ["Whitened", "denoised", "expected_noise", "last_outside"]

_RADIUS_SHARES = 0.04, 0.06  # of ε
_LARGE_EPSILON, _MOST_RADIUS = 15.0, 3.3  # from this ε on, if δ > 0, noise is small compared with what radii clip
_ROUND_SHARE = 0.05  # the share of each round of rough moments, beside a main share of 1
_COUNT_SHARE = 0.02
_MOST_OUTSIDE = 0.3  # of the rows
_BALANCE = 0.3  # rows clipped at the end, relative to the number that balances Gaussian noise
_USUAL_REACH = 3.0  # the square of a paid radius, relative to the mean square of a row
_BLIND = 0.5  # noise of a round, relative to an eigenvalue, above which rounds find almost nothing
# Times its noise: the least variance of a column that is reported as known. With δ = 0 some scales are made of noise
# alone, most of them far from the others. Chosen by `benchmarks/tables.py --only variances`.
_CLEAR, _CLEAR_PURE, _CLEAR_FAR = 2.5, 4.0, 10.0
_FAR = 2.0**8  # from the median scale of the columns
_HIDDEN = 40.0  # times the variance of a column: the most that clipped rows may have contributed, if it is to be known
_SURE = 2.0  # noise scales added to the number of rows outside the last radius


@dataclass(frozen=True)
class Whitened(Method):
    """Columns in their own units, a few rough second moments, then the second moment of the rows whitened by them.

    Parameters
    ----------
    least_sample : if there are many rows and they are in memory, all measurements except the last moment use a random
        sample of them. This is its least size: rare values must be present in it too.
    """

    least_sample: int = 50_000

    name = "whitened"
    shrinks = True
    reference = (
        "Biswas, Dong, Kamath and Ullman 2020 and Dong, Liang and Yi 2022, made worst-case, with tight constants"
    )
    needs_bound = False
    whole = True
    corrects_holes = True

    @once_a_task
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        task = as_spent(task)
        more = 1.0
        if not (task.budget.is_pure or single_rows_count(task)):
            more = min(_MOST_RADIUS, max(1.0, task.budget.epsilon / _LARGE_EPSILON))
        radii = Purpose.FIRST_MOMENT_RADIUS, Purpose.WHITENED_RADIUS
        pure = {radius: more * part for radius, part in zip(radii, _RADIUS_SHARES, strict=True)}
        pure[Purpose.WHITENED_RADIUS] += last_radius_share(task)
        main = {Purpose.FIRST_MOMENT: ROUNDS * _ROUND_SHARE, Purpose.WHITENED_MOMENT: 1.0} | hole_shares(task)
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = _COUNT_SHARE
        column_pure, column_main = column_shares(task)
        pure, main = pure | column_pure, main | column_main
        d = task.n_features
        # All noisy integers that may be drawn: moments with a mean, columns, missing cells, and a count.
        integers = (ROUNDS + 1) * (d + 1) * (d + 2) // 2 + column_integers(d) + hole_integers(task) + 1
        costs = allocate(task.budget, pure=pure, main=main, coordinates=integers)
        if task.set_aside:
            reaches = ROUGH_REACHES_EPSILON if own_units(task) else 0.0  # one scale for all columns needs none
            if reaches:
                costs[Purpose.ROUGH_REACHES] = PureCost(reaches)
            costs[Purpose.FAR_ROWS] = PureCost(task.set_aside - reaches)
        return costs

    def split_is_known(self, task: Task) -> bool:
        """Not if all shares are pure: what is left of one goes to another, and their composition then costs more."""
        return not as_spent(task).budget.is_pure

    def outline(self, task: Task, rows: int) -> Outline:
        task = as_spent(task)
        terms, cost = max(1, rows // (2 if task.pairs else 1)), self.shares(task)[Purpose.WHITENED_MOMENT]
        noise = law_of(task).deviation(task.n_features, cost, task.relation) / terms
        return Outline("moment", terms, noise, 0.0, True, True)

    def check(self, task: Task) -> None:
        super().check(task)
        check_count("least_sample", self.least_sample, "Whitened", low=100)
        task = as_spent(task)
        costs = self.shares(task)
        check_radii(task, costs)
        for purpose, parts in ((Purpose.FIRST_MOMENT, ROUNDS), (Purpose.WHITENED_MOMENT, 1)):
            law_of(task).check(task.n_features, part_of(costs[purpose], parts), task.relation)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        task = as_spent(task)
        costs = self.shares(task)
        plain, rows = Frame(task.n_features, missing=task.missing), float(task.n_rows or 1)
        if Purpose.ROWS in costs:
            question = Count(RadiusLeaving(plain, 0.0))
            rows = curator.measure(question, purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        looked = self._look(curator, task, costs, rows)
        # What the measurements of scales and locations and the rounds have not spent goes to the last moment.
        unspent = curator.left(Purpose.WHITENED_MOMENT, Purpose.FIRST_MOMENT, *_looked_for(task))
        counting = curator.left(Purpose.FAR_ROWS, Purpose.ROUGH_REACHES)
        costs = {name: costs[name] for name in (Purpose.WHITENED_RADIUS, Purpose.WHITENED_MOMENT)}
        costs[Purpose.WHITENED_MOMENT] = part_of(unspent or costs[Purpose.WHITENED_MOMENT], 1)
        if counting is not None:
            costs[Purpose.FAR_ROWS] = part_of(counting, 1)
        curator = curator.part(costs)
        last = ask_last_view(curator, looked, task, costs)
        found = ask_moment(
            curator, last.view, last.reach, looked.count, Purpose.WHITENED_MOMENT, costs, task, last.start
        )
        far = None if counting is None else ask_far_rows(curator, looked, last, costs[Purpose.FAR_ROWS])
        return self._finish(looked, last, found, task, far)

    def _look(self, curator: Curator, task: Task, costs: Mapping[Purpose, Cost], rows: float) -> Looked:
        """Units and locations of columns, then the rounds; on a sample of the rows, if there are many."""
        plain = Frame(task.n_features, missing=task.missing)
        looks, share = curator.sample(enough_rows(task, costs, self.least_sample), plain)
        enough = enough_for_columns(task, share, self.least_sample)
        few, part = looks.sample(enough, plain)  # for units, locations and norms; moments have more noise
        part *= share
        holes = ask_holes(curator, task, costs)
        columns = ask_columns(few, task, costs, rows * part, holes)
        frame = columns.frame
        count = max(1.0, rows // frame.rows_per_term)
        outside = last_outside(costs[Purpose.WHITENED_MOMENT], count, task)
        first_asked = first_radius(frame, outside * part, single_rows_count(task))
        cost = costs[Purpose.FIRST_MOMENT_RADIUS]
        radius = in_box(few.measure(first_asked, purpose=Purpose.FIRST_MOMENT_RADIUS, cost=cost), frame)
        reached = far_in(columns, costs.get(Purpose.REACHES), sampled=part < 1)
        least = least_of(columns, holes, costs.get(Purpose.REACHES), count * part)
        frame, first, latest, turn = ask_rounds(looks, frame, radius, count * share, costs, task, holes, least)
        several = not leading(task) or resolves(task, costs, count * share)
        angle = self._angle(task, costs, count * frame.rows_per_term)
        far = None if reached is None else reached / frame.unit
        return Looked(
            columns,
            holes,
            frame,
            first,
            latest,
            turn,
            radius,
            far,
            count,
            outside,
            (share, enough),
            part,
            several,
            angle,
        )

    def _finish(
        self, looked: Looked, last: LastView, found: SeenMoment, task: Task, far: Counted | None = None
    ) -> Estimate:
        """The last moment in the units of the columns, what was clipped, and which columns are known.

        ``far``: what counted far rows add to the mean of zzᵀ over framed rows.
        """
        columns, holes, frame, count = looked.columns, looked.holes, looked.frame, looked.count
        reach, back, left = task.row_radius(last.reach, last.view), last.back, last.left
        white, mean, noise = denoised(found.second, found.deviation, reach, task), found.mean, found.deviation
        if reach < last.asked_radius:  # so many rows were clipped that the variances must be corrected
            white = unclipped(white, reach)
        if far is not None:
            added = np.linalg.solve(back, np.linalg.solve(back, far.lost).T)
            white, found = white + added, found.plus(added, np.linalg.solve(back, far.doubt.T).T)
        noise_of_columns = math.sqrt(2) * noise * np.einsum("ij,ij->i", back, back)
        clipped_share = min(1.0, (left[0] + _SURE * left[1]) / count)
        variances = quadratic_forms(back, white)
        known = columns.known & (variances > _clear(columns, task) * noise_of_columns)
        if columns.reach is not None:  # unknown, if the clipped rows may have held nearly all of its variance
            known &= clipped_share * (columns.reach / frame.unit) ** 2 < _HIDDEN * variances
        back = back * known[:, None]
        framed, mean = back @ white @ back.T, None if mean is None else back @ mean
        if holes is not None:
            framed, mean = holes.covariance(framed, mean), None if mean is None else holes.mean(mean)
            known = known & holes.seen
            back = back * known[:, None]
        columns = replace(columns, known=known, frame=frame)
        covariance = framed * np.outer(frame.unit, frame.unit)
        off, shares = None if mean is None else frame.unit * mean, None if holes is None else holes.shares
        estimate = self._assemble(covariance, off, columns, count, task, shares)
        back = frame.unit[:, None] * back
        if task.private_rank:
            size = noise_size(law_of(task), noise, found.mean, found.weight, task)
            estimate = replace(estimate, noise_map=back * math.sqrt(size))
        counted = last.asked_radius, clipped_share
        tails = None if task.pairs else partial(lost_by, columns, back, white, reach, counted, dict(task.indicators))
        measured = partial(found.measured, back, reach, left, last.asked_radius, law_of(task), holes, tails)
        notes = (*estimate.notes, SHORTENED) if reach < last.asked_radius else estimate.notes
        notes = notes if far is None else (*notes, COUNTED)
        return replace(estimate, measured=measured, holes=shares, notes=notes)

    def _angle(self, task: Task, costs: Mapping[Purpose, Cost], rows: float) -> float:
        """The sinΘ error expected from noise alone, from public facts; 0 if the rounds can estimate the covariance."""
        k, terms = task.n_components, rows / (2 if task.pairs else 1)
        if k is None or not leading(task) or task.private_rank or noise_of_round(task, costs, terms) < _BLIND:
            return 0.0
        return usual_error(self.outline(task, int(rows)), task.n_features, k)

    def _assemble(
        self,
        covariance: Floats,
        mean: Floats | None,
        columns: ColumnFrame,
        count: float,
        task: Task,
        missing: Floats | None,
    ) -> Estimate:
        frame, d = columns.frame, task.n_features
        k = d if task.n_components is None else task.n_components
        components, values, rest = leading_components((covariance + covariance.T) / 2, k)
        center = location(frame, None, task)
        if center is not None and task.private_center:
            center = settled(center, columns.scale, columns.known)
        unknown = [int(column) for column in np.flatnonzero(~columns.known)]
        return Estimate(
            components=components,
            eigenvalues=values,
            noise_variance=rest,
            covariance=covariance,
            mean=center if mean is None or center is None else center + mean,
            n_rows=count * frame.rows_per_term,
            radius=None,
            numerics=law_of(task).numerics,
            radius_released=True,
            notes=("Rows longer than the private radius were clipped to it.", *unknown_note(unknown, missing)),
            details={"columns_without_scale": unknown},
        )


def _clear(columns: ColumnFrame, task: Task) -> Floats:
    """By how many deviations of its noise the variance of each column must exceed 0."""
    scale, known = columns.scale, columns.known
    if not task.budget.is_pure or single_rows_count(task) or not known.any():
        return np.full(len(scale), _CLEAR)
    off = np.abs(np.log(scale) - np.median(np.log(scale[known])))
    return np.where(off > math.log(_FAR), _CLEAR_FAR, _CLEAR_PURE)


def expected_noise(task: Task) -> float:
    """The approximate noise on a correlation, from public facts, for columns with tails like those of most tables."""
    task = as_spent(task)
    if task.n_terms is None:
        return 0.0
    d, cost = task.n_features, Whitened().shares(task)[Purpose.WHITENED_MOMENT]
    return _USUAL_REACH * d * law_of(task).deviation(d, cost, task.relation) / task.n_terms


def _looked_for(task: Task) -> tuple[Purpose, ...]:
    """Purposes with the same kind of cost as the moments, which may leave budget unspent."""
    return (Purpose.SCALES, Purpose.PLACES) if own_units(task) else (Purpose.PLACES,)


def last_outside(cost: Cost, count: float, task: Task) -> float:
    """The number of rows to clip at the end, which balances the clipping error with the noise.

    In Frobenius norm, clipping m rows changes the whitened covariance by about m·R²/(n·√d), and noise of deviation τ
    by d·τ.
    """
    d = task.n_features
    return min(_BALANCE * d**1.5 * law_of(task).deviation(d, cost, task.relation), _MOST_OUTSIDE * count)


def denoised(noisy: Floats, deviation: float, radius: float, task: Task) -> Floats:
    """A noisy mean of zzᵀ over rows within this radius, with shrunk and projected eigenvalues."""
    values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
    whole, d = radius**2, len(noisy)
    if task.shrink:  # in units of the squared radius, so that squares neither overflow nor underflow
        tau = deviation / whole
        shift = law_of(task).r_transform(d, tau)
        values = whole * shrink_eigenvalues(values / whole, shift, math.sqrt(d) * tau)
    values = project_eigenvalues(values, trace=whole)
    return (vectors * values) @ vectors.T
