"""``whitened``: a covariance whose noise has the shape of the data. Worst-case, any unit, any origin, no bound.

Guarantee: (ε, δ)-DP, δ ≥ 0, for every data set, both relations, with exact integer statistics; with exact discrete
Gaussian noise for δ > 0 and the noise of `matrix-laplace`, idealised as there, for δ = 0. Proof: it is an adaptive
composition of

1. noisy counts that give every column a unit and a place (`methods.columns`), and the mean of rows in them.
2. two radii by the sparse-vector technique on a fixed geometric grid: ε-DP each (`questions.radius`).
3. the second moment of the framed rows, clipped to the first radius, and that of whitened rows Tz, clipped to the
   second. T is a function of the first release, and the image of a row depends on T and that row alone
   (`stats.stretch`). Whatever T is, the clipped rows are no longer than the radius: Frobenius sensitivity √2·R²
   (replace) or R² (add/remove), trace 2·R² or R², in integers (`stats.moments`, `stats.nested`).
4. where it is private, the number of rows: sensitivity 1.

Gaussian shares compose exactly, each mechanism chosen by what was released before it (Dong, Roth, Su 2022); pure
shares join by their dominating pair (`privacy.accounting`). The rest is post-processing.

Why. One noise for all columns hides those in small units: its size is that of the largest. And one noise for all
directions hides the weak ones. After T = (Ĉ + η)^−½, η the size of the noise that Ĉ carries, all directions that were
seen are about equally long, so their errors are relative to their own variance, and rows of any spectrum are about
equally long too, so that few of them are clipped. This is CoinPress (Biswas, Dong, Kamath, Ullman 2020) with what it
lacks: no bounds on the covariance are needed, radii are those of the rows (its are those of Gaussian rows), the noise
is isotropic on symmetric matrices (its is √2 too large off the diagonal), and η covers the noise (that of its published
code does not). The last radius is adaptive after Dong, Liang, Yi 2022: as many rows are clipped as balance clipping
with noise.
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
    rows_for_columns,
    unknown_note,
)
from dpeigen.methods.framing import location
from dpeigen.methods.holes import Holes, ask_holes, hole_integers, hole_shares, known_shares
from dpeigen.methods.moment.base import center_weight, noise_size
from dpeigen.methods.moment.reach import grid_for, widened
from dpeigen.methods.radius import check_radii
from dpeigen.privacy import Cost, Relation, allocate
from dpeigen.questions import (
    Count,
    GaussianLaw,
    Moment,
    RadiusLeaving,
    SymmetricLaw,
    WishartLaw,
    moment_within,
    radius_from,
)
from dpeigen.stats import Frame, Lattice, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.frame import RowView
from dpeigen.stats.measured import Measured
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.whitening import noise_left, quadratic_forms, whitening

_RADIUS_SHARES = 0.04, 0.06  # of ε
_ROUNDS, _ROUND_SHARE = 7, 0.05  # of rough moments, at most, and the main share of each
_COUNT_SHARE = 0.02
_MOST_OUTSIDE = 0.3  # of the rows
_BALANCE = 0.3  # rows clipped at the end, in units of what balances Gaussian noise
_REACH = 1.6  # of rows in a round, relative to their root mean square
_OFFSET = 0.1  # of the centre that is left, in radii, for the weight of the mean in the last moment
_POWERS = (0.5, 1.0)  # of the whitening map that are tried, beside none
_LIGHT = 8.0  # the square of a radius over the mean square of rows, up to which tails are light
_USUAL_REACH = 3.0  # the square of a paid radius, relative to the mean square of a row
_USELESS = 0.2  # noise of a round, relative to what it looks at, from which on more rounds see nothing new
_WORTH_SAMPLING = 0.5
_CLEAR = 2.5  # times its noise: the variance of a column that is told
_SHORTEST = 2.0**-24  # of a direction, relative to the longest: scores of rows are no finer (`stats.frame`)
_RESOLVED = 4.0  # times the noise: levels above this were seen


@dataclass(frozen=True)
class Whitened(Method):
    """Columns in their own units, a few rough second moments, then the moment of rows that they whiten.

    Parameters
    ----------
    least_sample : where rows are plenty and in memory, all but the last moment is asked of a random part of them, of at
        least so many rows: rare values have to be seen too.
    """

    least_sample: int = 50_000

    name = "whitened"
    reference = (
        "Biswas, Dong, Kamath and Ullman 2020 and Dong, Liang and Yi 2022, made worst-case, with tight constants"
    )
    needs_bound = False
    whole = True
    corrects_holes = True

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        pure = dict(zip((Purpose.FIRST_MOMENT_RADIUS, Purpose.WHITENED_RADIUS), _RADIUS_SHARES, strict=True))
        main = {Purpose.FIRST_MOMENT: _ROUNDS * _ROUND_SHARE, Purpose.WHITENED_MOMENT: 1.0} | hole_shares(task)
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = _COUNT_SHARE
        column_pure, column_main = column_shares(task)
        pure, main = pure | column_pure, main | column_main
        d = task.n_features
        # Every noisy integer that may be drawn: of the moments with a mean, of columns, of holes, and a count.
        integers = (_ROUNDS + 1) * (d + 1) * (d + 2) // 2 + column_integers(d) + hole_integers(task) + 1
        return allocate(task.budget, pure=pure, main=main, coordinates=integers)

    def check(self, task: Task) -> None:
        super().check(task)
        check_count("least_sample", self.least_sample, "Whitened", low=100)
        costs = self.shares(task)
        check_radii(task, costs)
        for purpose, parts in ((Purpose.FIRST_MOMENT, _ROUNDS), (Purpose.WHITENED_MOMENT, 1)):
            _law(task).check(task.n_features, part_of(costs[purpose], parts), task.relation)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs = self.shares(task)
        plain, rows = Frame(task.n_features, missing=task.missing), float(task.n_rows or 1)
        if Purpose.ROWS in costs:
            question = Count(RadiusLeaving(plain, 0.0))
            rows = curator.measure(question, purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        looks, share = curator.sample(_sampled(task, costs, self.least_sample), plain)
        few, part = looks.sample(_for_columns(task, share, self.least_sample), plain)
        holes = ask_holes(curator, task, costs)
        columns = ask_columns(few, task, costs, rows * share * part, holes)
        frame = columns.frame
        count = max(1.0, rows // frame.rows_per_term)
        outside = last_outside(costs[Purpose.WHITENED_MOMENT], count, task)
        cost = costs[Purpose.FIRST_MOMENT_RADIUS]
        radius = looks.measure(RadiusLeaving(frame, outside * share), purpose=Purpose.FIRST_MOMENT_RADIUS, cost=cost)
        frame, first, latest, turn = self._whiten(looks, frame, radius, count * share, costs, task, holes)
        # What looks for scales and places, and rounds, have not used goes to the last moment.
        unspent = curator.left(Purpose.WHITENED_MOMENT, Purpose.FIRST_MOMENT, *_looked_for(task))
        costs = {name: costs[name] for name in (Purpose.WHITENED_RADIUS, Purpose.WHITENED_MOMENT)}
        costs[Purpose.WHITENED_MOMENT] = part_of(unspent or costs[Purpose.WHITENED_MOMENT], 1)
        curator = curator.part(costs)
        looks, _ = curator.sample(share, frame)
        candidates: list[tuple[float, RowView, Floats]] = [(radius, frame, np.eye(task.n_features))]
        turned = _turned(frame, turn, *_POWERS)
        together = tuple(view for view, _ in turned)
        for view, back in turned:
            cost = part_of(costs[Purpose.WHITENED_RADIUS], len(_POWERS) + (share < 1))
            asked = RadiusLeaving(view, outside * share, together=together, within=grid_for(back, latest))
            candidates.append((looks.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=cost), view, back))
        # Rows many times as long as the last rounds say were clipped by them: then the first round is the better guide.
        rough = latest if candidates[-1][0] ** 2 < _LIGHT * quadratic_forms(turn, latest).sum() else first
        reach, shown, back = min(candidates, key=lambda each: noise_left(each[0], each[2], rough))
        start = reach if share < 1 else None
        if start is not None:  # of all rows fewer have to be clipped than of a part
            asked = radius_from(shown, outside, start)
            reach = curator.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=cost)
        leaving, asked_radius = RadiusLeaving(shown, outside), reach
        left = leaving.allowed(cost, task.relation), leaving.scale(cost, task.relation)
        if start is None:
            law_noise = _law(task).deviation(task.n_features, costs[Purpose.WHITENED_MOMENT], task.relation) / count
            reach = widened(reach, left[0] / count, law_noise, task.n_features)
        found = _ask_moment(curator, shown, reach, count, Purpose.WHITENED_MOMENT, costs, task, start)
        white, mean, noise = denoised(found.second, found.deviation, reach, task), found.mean, found.deviation
        noise_of_columns = math.sqrt(2) * noise * np.einsum("ij,ij->i", back, back)
        known = columns.known & (quadratic_forms(back, white) > _CLEAR * noise_of_columns)
        back = back * known[:, None]
        framed, mean = back @ white @ back.T, None if mean is None else back @ mean
        if holes is not None:
            framed, mean = holes.covariance(framed, mean), None if mean is None else holes.mean(mean)
            known = known & holes.seen
            back = back * known[:, None]
        columns = replace(columns, known=known, frame=frame)
        covariance = framed * np.outer(frame.unit, frame.unit)
        estimate = self._assemble(covariance, None if mean is None else frame.unit * mean, columns, count, task)
        back = frame.unit[:, None] * back
        if task.private_rank:
            size = noise_size(_law(task), noise, found.mean, found.weight, task)
            estimate = replace(estimate, noise_map=back * math.sqrt(size))
        measured = partial(found.measured, back, reach, left, asked_radius, _law(task), holes)
        return replace(estimate, measured=measured, holes=None if holes is None else holes.shares)

    def _whiten(
        self,
        curator: Curator,
        frame: Frame,
        radius: float,
        count: float,
        costs: Mapping[Purpose, Cost],
        task: Task,
        holes: Holes | None,
    ) -> tuple[Frame, Floats, Floats, Floats]:
        """The frame about a better centre, rough covariances in it, and a map that makes all directions equally long.

        Directions are seen one after the other, the longest first. Along a short one the centre has to be found again:
        it was good for the long ones only. The covariances are those of the first round, which clips least, and of the
        last, which sees most.
        """
        d = task.n_features
        each = {Purpose.FIRST_MOMENT: part_of(costs[Purpose.FIRST_MOMENT], _ROUNDS)}
        view: RowView = frame
        turn: Floats = np.eye(d)
        found_so_far: list[Floats] = []
        for _ in range(_ROUNDS if _noise_of_round(task, costs, count) < _USELESS else 1):
            back = np.linalg.inv(turn)
            seen = _ask_moment(curator, view, radius, count, Purpose.FIRST_MOMENT, each, task)
            found, mean, noise = seen.second, seen.mean, seen.deviation  # not shrunk: that draws eigenvalues together
            if mean is not None and frame.center is not None:
                off = back @ mean if holes is None else holes.mean(back @ mean)
                frame = replace(frame, center=frame.center + frame.unit * off)
            levels, basis, factors = whitening(found, noise)
            latest = back @ (basis.T * levels) @ basis @ back.T
            found_so_far.append(latest)
            turn = (factors[:, None] * basis) @ turn
            # All directions are as long as the shortest now; sums of numbers of very different size may lose that.
            least = d * float(levels.min() / np.linalg.norm(turn, 2) ** 2)
            ((view, back),) = _turned(frame, turn, 1.0)
            turn = np.asarray(np.linalg.inv(back), dtype=np.float64)
            trace = max(least, float(quadratic_forms(turn, latest).sum()))
            radius = min(radius, _REACH * math.sqrt(trace))  # rows only get shorter
            if levels.min() > _RESOLVED * noise * 2 * math.sqrt(d) or levels.max() < 2 * levels.min():
                break  # every direction was seen, or nothing more
        return frame, found_so_far[0], found_so_far[-1], turn

    def _assemble(
        self, covariance: Floats, mean: Floats | None, columns: ColumnFrame, count: float, task: Task
    ) -> Estimate:
        frame, d = columns.frame, task.n_features
        values, components = symmetric_eigh((covariance + covariance.T) / 2)
        values, k = np.maximum(values, 0.0), d if task.n_components is None else task.n_components
        center = location(frame, None, task)
        unknown = [int(column) for column in np.flatnonzero(~columns.known)]
        return Estimate(
            components=components[:k],
            eigenvalues=values[:k],
            noise_variance=float(values[k:].mean()) if k < d else 0.0,
            covariance=covariance,
            mean=center if mean is None or center is None else center + mean,
            n_rows=count * frame.rows_per_term,
            radius=None,
            numerics=_law(task).numerics,
            radius_released=True,
            notes=("A few rows longer than a paid radius were clipped to it.", *unknown_note(unknown)),
            details={"columns_without_scale": unknown},
        )


def _noise_of_round(task: Task, costs: Mapping[Purpose, Cost], count: float) -> float:
    """What a round adds to an eigenvalue of rows that are about equally long in all directions, relative to it."""
    d, cost = task.n_features, part_of(costs[Purpose.FIRST_MOMENT], _ROUNDS)
    return d**1.5 * _REACH**2 * _law(task).deviation(d, cost, task.relation) / count


def _sampled(task: Task, costs: Mapping[Purpose, Cost], least: int) -> float:
    """Which part of the rows is enough for all but the last moment; 1 where that saves little."""
    if task.n_terms is None:
        return 1.0
    enough, noise = max(least, rows_for_columns(task)), _noise_of_round(task, costs, task.n_terms)
    if noise < _USELESS:
        enough = max(enough, task.n_terms * noise / (_USELESS / 2))
    share = enough / task.n_terms
    return share if share < _WORTH_SAMPLING else 1.0


def _for_columns(task: Task, share: float, least: int) -> float:
    """Which part of a sample is enough for the columns alone; 1 where that saves little, or nothing was sampled."""
    if task.n_terms is None or share == 1:
        return 1.0
    part = max(least, rows_for_columns(task)) / (share * task.n_terms)
    return part if part < _WORTH_SAMPLING else 1.0


def expected_noise(task: Task) -> float:
    """On a correlation, about, for columns with tails like those of most tables; from public facts."""
    if task.n_terms is None:
        return 0.0
    d, cost = task.n_features, Whitened().shares(task)[Purpose.WHITENED_MOMENT]
    return _USUAL_REACH * d * _law(task).deviation(d, cost, task.relation) / task.n_terms


def _looked_for(task: Task) -> tuple[Purpose, ...]:
    """Purposes of one kind with the moments that may leave something."""
    return (Purpose.SCALES, Purpose.PLACES) if own_units(task) else (Purpose.PLACES,)


def _law(task: Task) -> SymmetricLaw:
    return WishartLaw() if task.budget.is_pure else GaussianLaw()


def _turned(frame: Frame, turn: Floats, *powers: float) -> list[tuple[WhitenedRows, Floats]]:
    """Rows after a linear map, or a part of it, of norm 1 and up to a rotation; and the map back; for each power."""
    _, lengths, basis = np.linalg.svd(turn)
    factors = [np.maximum(lengths / lengths.max(), _SHORTEST) ** power for power in powers]
    return [(WhitenedRows(frame, basis, each), basis.T / each) for each in factors]


def last_outside(cost: Cost, count: float, task: Task) -> float:
    """How many rows to clip at the end: as many as balance noise.

    Clipping m rows costs the whitened covariance about m·R²/(n·√d) in Frobenius norm, noise of deviation τ d·τ.
    """
    d = task.n_features
    return min(_BALANCE * d**1.5 * _law(task).deviation(d, cost, task.relation), _MOST_OUTSIDE * count)


@dataclass(frozen=True)
class _Seen:
    """A noisy moment: as it was released, about the mean, and that mean; the deviation of off-diagonal noise."""

    whole: Floats
    second: Floats
    mean: Floats | None
    deviation: float
    weight: float
    count: float

    def measured(
        self,
        back: Floats,
        radius: float,
        outside: tuple[float, float],
        asked: float,
        law: SymmetricLaw,
        holes: Holes | None,
    ) -> Measured:
        """For intervals; so many rows are ``outside`` the radius that was ``asked`` for."""
        rows, scale = outside
        found = Measured(self.whole, back, law.label, self.deviation, self.count, radius, self.weight, rows, scale)
        return replace(found, outside_radius=asked, **known_shares(holes))


def _ask_moment(
    curator: Curator,
    view: RowView,
    radius: float,
    count: float,
    purpose: Purpose,
    costs: Mapping[Purpose, Cost],
    task: Task,
    first: float | None = None,
) -> _Seen:
    """A noisy mean of zzᵀ over clipped rows. About a private centre their mean is taken out of it.

    A radius that was found from a ``first`` one on has read the rows already.
    """
    law = _law(task)
    weight = _weight_of_mean(costs[purpose], count, task)
    plain = Moment(Lattice(view, radius), law, weight)
    question = plain if first is None else moment_within(view, radius, first, law, weight)
    found = curator.measure(question, purpose=purpose, cost=costs[purpose])
    step = question.lattice.step
    whole, mean = found.total * (step**2 / count), None
    second = whole
    if weight:
        mean = whole[0, 1:] / (question.weight * step)
        second = whole[1:, 1:] - np.outer(mean, mean)
    return _Seen(whole, second, mean, found.deviation * (step**2 / count), question.weight * step, count)


def _weight_of_mean(cost: Cost, count: float, task: Task) -> int:
    """Of the constant in the augmented row, in grid steps; 0 where no centre is asked for."""
    if not task.private_center:
        return 0
    noise = _law(task).deviation(task.n_features, cost, task.relation) / count
    return center_weight(task.n_features, offset=_OFFSET, noise=noise)


def denoised(noisy: Floats, deviation: float, radius: float, task: Task) -> Floats:
    """A noisy mean of zzᵀ over rows in this radius, shrunk and projected."""
    values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
    whole, d = radius**2, len(noisy)
    if task.shrink:  # in units of the squared radius: squares neither overflow nor vanish
        tau = deviation / whole
        shift = _law(task).r_transform(d, tau)
        values = whole * shrink_eigenvalues(values / whole, shift, math.sqrt(d) * tau)
    values = project_eigenvalues(values, trace=whole)
    return (vectors * values) @ vectors.T
