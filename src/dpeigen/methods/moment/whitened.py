"""``whitened``: a covariance whose noise has the shape of the data. Worst-case, any unit, any origin, no bound.

Guarantee: (ε, δ)-DP, δ ≥ 0, for every data set, both relations, with exact integer statistics; with exact discrete
Gaussian noise for δ > 0 and the noise of `matrix-laplace`, idealised as there, for δ = 0. Proof: it is an adaptive
composition of

1. noisy counts that give every column a unit and a place (`methods.columns`), and the mean of rows in them.
2. two radii by the sparse-vector technique on a fixed geometric grid: ε-DP each (`questions.radius`).
3. the second moment of the framed rows, clipped to the first radius, and that of whitened rows Tz, clipped to the
   second. T is a function of the first release, and the image of a row depends on T and that row alone
   (`stats.stretch`). Whatever T is, the clipped rows are no longer than the radius: Frobenius sensitivity √2·R²
   (replace) or R² (add/remove), trace 2·R² or R², in integers (`stats.moments`).
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
    rows_for_columns,
    unknown_note,
)
from dpeigen.methods.framing import location
from dpeigen.methods.moment.base import center_weight
from dpeigen.methods.radius import check_radii
from dpeigen.privacy import Cost, Relation, allocate
from dpeigen.questions import Count, GaussianLaw, Moment, RadiusLeaving, SymmetricLaw, WishartLaw
from dpeigen.stats import Frame, Lattice, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.frame import RowView
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.stretch import WhitenedRows

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

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        pure = dict(zip((Purpose.FIRST_MOMENT_RADIUS, Purpose.WHITENED_RADIUS), _RADIUS_SHARES, strict=True))
        main = {Purpose.FIRST_MOMENT: _ROUNDS * _ROUND_SHARE, Purpose.WHITENED_MOMENT: 1.0}
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = _COUNT_SHARE
        column_pure, column_main = column_shares(task)
        pure, main = pure | column_pure, main | column_main
        d = task.n_features
        # Every noisy integer that may be drawn: of the moments with a mean, of columns, and a count.
        integers = (_ROUNDS + 1) * (d + 1) * (d + 2) // 2 + column_integers(d) + 1
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
        plain, rows = Frame(task.n_features, on_bad_row=task.on_bad_row), float(task.n_rows or 1)
        if Purpose.ROWS in costs:
            question = Count(RadiusLeaving(plain, 0.0))
            rows = curator.measure(question, purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        looks, share = curator.sample(_sampled(task, costs, self.least_sample), plain)
        columns = ask_columns(looks, task, costs, rows * share)
        frame = columns.frame
        count = max(1.0, rows // frame.rows_per_term)
        outside = last_outside(costs[Purpose.WHITENED_MOMENT], count, task)
        cost = costs[Purpose.FIRST_MOMENT_RADIUS]
        radius = looks.measure(RadiusLeaving(frame, outside * share), purpose=Purpose.FIRST_MOMENT_RADIUS, cost=cost)
        frame, first, latest, turn = self._whiten(looks, frame, radius, count * share, costs, task)
        # What looks for places and rounds have not used goes to the last moment.
        unspent = curator.left(Purpose.WHITENED_MOMENT, Purpose.FIRST_MOMENT, Purpose.PLACES)
        costs = {name: costs[name] for name in (Purpose.WHITENED_RADIUS, Purpose.WHITENED_MOMENT)}
        costs[Purpose.WHITENED_MOMENT] = part_of(unspent or costs[Purpose.WHITENED_MOMENT], 1)
        curator = curator.part(costs)
        looks, _ = curator.sample(share, frame)
        candidates: list[tuple[float, RowView, Floats]] = [(radius, frame, np.eye(task.n_features))]
        for power in _POWERS:
            view, back = _turned(frame, turn, power)
            cost = part_of(costs[Purpose.WHITENED_RADIUS], len(_POWERS) + (share < 1))
            reach = looks.measure(RadiusLeaving(view, outside * share), purpose=Purpose.WHITENED_RADIUS, cost=cost)
            candidates.append((reach, view, back))
        # Rows many times as long as the last rounds say were clipped by them: then the first round is the better guide.
        rough = latest if candidates[-1][0] ** 2 < _LIGHT * _squares(turn, latest).sum() else first
        reach, view, back = min(candidates, key=lambda each: noise_left(each[0], each[2], rough))
        if share < 1:  # of all rows fewer have to be clipped than of a part
            cost = part_of(costs[Purpose.WHITENED_RADIUS], len(_POWERS) + 1)
            reach = curator.measure(RadiusLeaving(view, outside), purpose=Purpose.WHITENED_RADIUS, cost=cost)
        white, mean, noise = _ask_moment(curator, view, reach, count, Purpose.WHITENED_MOMENT, costs, task)
        noise_of_columns = math.sqrt(2) * noise * np.einsum("ij,ij->i", back, back)
        known = columns.known & (_squares(back, white) > _CLEAR * noise_of_columns)
        back = frame.unit[:, None] * back * known[:, None]
        covariance = back @ white @ back.T
        columns = replace(columns, known=known, frame=frame)
        return self._assemble(covariance, None if mean is None else back @ mean, columns, count, task)

    def _whiten(
        self, curator: Curator, frame: Frame, radius: float, count: float, costs: Mapping[Purpose, Cost], task: Task
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
            found, mean, noise = _ask_moment(curator, view, radius, count, Purpose.FIRST_MOMENT, each, task)
            if mean is not None and frame.center is not None:
                frame = replace(frame, center=frame.center + frame.unit * (back @ mean))
            levels, basis, factors = whitening(found, noise)
            latest = back @ (basis.T * levels) @ basis @ back.T
            found_so_far.append(latest)
            turn = (factors[:, None] * basis) @ turn
            # All directions are as long as the shortest now; sums of numbers of very different size may lose that.
            least = d * float(levels.min() / np.linalg.norm(turn, 2) ** 2)
            view, back = _turned(frame, turn, 1.0)
            turn = np.asarray(np.linalg.inv(back), dtype=np.float64)
            trace = max(least, float(_squares(turn, latest).sum()))
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
        missing = [int(column) for column in np.flatnonzero(~columns.known)]
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
            notes=("A few rows longer than a paid radius were clipped to it.", *unknown_note(missing)),
            details={"columns_without_scale": missing},
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


def expected_noise(task: Task) -> float:
    """On a correlation, about, for columns with tails like those of most tables; from public facts."""
    if task.n_terms is None:
        return 0.0
    d, cost = task.n_features, Whitened().shares(task)[Purpose.WHITENED_MOMENT]
    return _USUAL_REACH * d * _law(task).deviation(d, cost, task.relation) / task.n_terms


def _law(task: Task) -> SymmetricLaw:
    return WishartLaw() if task.budget.is_pure else GaussianLaw()


def _turned(frame: Frame, turn: Floats, power: float) -> tuple[RowView, Floats]:
    """Rows after a linear map, or a part of it, of norm 1 and up to a rotation; and the map back."""
    _, lengths, basis = np.linalg.svd(turn)
    factors = np.maximum(lengths / lengths.max(), _SHORTEST) ** power
    return WhitenedRows(frame, basis, factors), basis.T / factors


def _squares(rows: Floats, moment: Floats) -> Floats:
    """rᵀMr for every row r."""
    return np.einsum("ij,jk,ik->i", rows, moment, rows)


def noise_left(radius: float, back: Floats, rough: Floats) -> float:
    """How much noise a moment of rows in this radius leaves, up to constants: on correlations, and in all directions.

    Noise of deviation R² on the moment of turned rows is R²·‖bᵢ‖‖bⱼ‖/sᵢsⱼ on a correlation, b the rows of the map back.
    In coordinates in which the covariance is the identity it is R²·‖B‖², B the map to them.
    """
    of_columns = np.einsum("ij,ij->i", back, back) / np.diag(rough)
    levels, basis = np.linalg.eigh(rough)
    levels = np.maximum(levels, np.finfo(np.float64).eps * levels.max())  # of a matrix that may be close to singular
    of_directions = ((basis.T @ back) ** 2 / levels[:, None]).sum() / len(rough)
    return float(radius**2 * of_columns.mean() * math.sqrt(radius**2 * of_directions))


def whitening(rough: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """(levels, basis, factors) from a rough moment whose entries carry noise of this deviation."""
    levels, basis = symmetric_eigh(rough)
    levels = np.maximum(levels, 0.0) + math.sqrt(len(rough)) * noise  # half of the norm of the noise: less is not known
    return levels, basis, np.sqrt(levels.min() / levels)


def last_outside(cost: Cost, count: float, task: Task) -> float:
    """How many rows to clip at the end: as many as balance noise.

    Clipping m rows costs the whitened covariance about m·R²/(n·√d) in Frobenius norm, noise of deviation τ d·τ.
    """
    d = task.n_features
    return min(_BALANCE * d**1.5 * _law(task).deviation(d, cost, task.relation), _MOST_OUTSIDE * count)


def _ask_moment(
    curator: Curator,
    view: RowView,
    radius: float,
    count: float,
    purpose: Purpose,
    costs: Mapping[Purpose, Cost],
    task: Task,
) -> tuple[Floats, Floats | None, float]:
    """A noisy mean of zzᵀ over clipped rows, shrunk and projected; their mean; the deviation of off-diagonal noise.

    The mean is that of the last moment about a private centre, and taken out of it.
    """
    lattice, law, d = Lattice(view, radius), _law(task), task.n_features
    weight = 0
    if task.private_center:
        noise = law.deviation(d, costs[purpose], task.relation) / count
        weight = center_weight(d, offset=_OFFSET, noise=noise)
    found = curator.measure(Moment(lattice, law, weight), purpose=purpose, cost=costs[purpose])
    area = lattice.step**2 / count
    second, deviation, mean = found.total * area, found.deviation * area, None
    if weight:
        mean = second[0, 1:] / (weight * lattice.step)
        second = second[1:, 1:] - np.outer(mean, mean)
    if purpose is Purpose.FIRST_MOMENT:
        return second, mean, deviation  # shrinking would draw the smallest eigenvalue to the others
    return denoised(second, deviation, radius, task), mean, deviation


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
