"""The replay test: a fit, the fit on a neighbouring table with the same noisy answers, and every change was paid for.

A small set here, in which every method meets every bound, centre, relation, kind of budget and kind of source that it
takes; five thousand random pairs by ``python tools/replay.py``. Planted faults show that the same comparison can fail.
What is compared is in ``tools/replay_kit.py``.
"""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpeigen.curator import NotPaidForError, Purpose
from dpeigen.methods import METHODS, DataScaledGaussian, Gaussian, Geodesic, SpatialSign, narrow
from dpeigen.methods.base import unprotected
from dpeigen.methods.one_pass.oja import Oja
from dpeigen.methods.sampling.base import SamplingMethod
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Spend,
    gaussian_mu,
    histogram,
    noise,
)
from dpeigen.questions import ColumnCounts, ColumnReaches, Descent, GaussianLaw, HoleShares, RadiusHolding, far_rows
from dpeigen.questions import radius as radii
from dpeigen.questions import steps as oja_steps
from dpeigen.sources import opening, units
from dpeigen.stats import Frame, SecondMoment, holes
from dpeigen.stats.kendall import KendallTau
from dpeigen.stats.units import Together

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
replay_cases = pytest.importorskip("replay_cases", reason="tools/ comes with the source checkout")
from replay_cases import SUBJECTS  # noqa: E402
from replay_kit import Promise, judge  # noqa: E402
from replay_laws import NoisyMax, SparseVector  # noqa: E402
from replay_subjects import Setting, Subject, moments  # noqa: E402
from replay_tables import Neighbours, sorted_neighbours  # noqa: E402
from replay_tape import Change, Loss, Tape  # noqa: E402

BY_NAME = {subject.name: subject for subject in SUBJECTS}
PLAIN = Setting("radius", "none", "replace", 1e-5, 8.0, "array", 3, 2, whole=False)
CURATOR = importlib.import_module("dpeigen.curator.curator")
SHUFFLED = importlib.import_module("dpeigen.sources.shuffled")


def test_every_method_has_its_turn():
    assert METHODS.keys() | {"auto", "ridge", "score map"} <= BY_NAME.keys()


@pytest.mark.parametrize("name", BY_NAME)
def test_no_statistic_changes_by_more_than_was_paid(name):
    outcomes = list(replay_cases.covering(BY_NAME[name], seed=20))
    assert [(o.setting, o.verdict.fault) for o in outcomes if o.verdict.fault] == []
    assert all(o.verdict.changes for o in outcomes)  # something was measured


def test_the_command_fails_on_a_fault(monkeypatch, capsys):
    import replay as command

    monkeypatch.setattr(command, "SUBJECTS", [BY_NAME["score map"]])
    monkeypatch.setattr(sys, "argv", ["replay.py", "--pairs", "12", "--seed", "3"])
    assert command.main() == 0
    assert "score map" in capsys.readouterr().out
    halved(monkeypatch, noise, "noise_scale")
    assert command.main() == 1
    assert "against what it was handed: 2 times" in capsys.readouterr().out


# --- pairs of tables ----------------------------------------------------------------------------------------------


def far_pair(n=40, d=3):
    """Rows at 0, and one far out along the first axis that becomes one along the second."""
    before = np.zeros((n, d))
    before[5, 0] = 1e3
    after = np.zeros((n, d))
    after[5, 1] = 2e3
    return Neighbours(before, after, np.arange(n))


def sorted_pair(n, d=3):
    """Rows of all directions and one length, kept sorted by the first column; the first row becomes the last."""
    rows = np.random.default_rng(3).normal(size=(n, d))
    rows *= 3.0 / np.linalg.norm(rows, axis=1, keepdims=True)
    changed = rows.copy()
    changed[int(np.argmin(rows[:, 0]))] = [3.0, *[0.0] * (d - 1)]
    return sorted_neighbours(rows, changed)


def compared(subject, pair, seed=1, **changes):
    """The verdict on a subject, by its name, or on a method."""
    if isinstance(subject, str):
        subject = BY_NAME[subject]
    elif not isinstance(subject, Subject):
        subject = Subject("planted", moments(subject))
    return replay_cases.run_pair(subject, replace(PLAIN, **changes), pair, seed=seed)


def test_a_sorted_table_moves_many_rows_and_only_one_counts():
    """The planted faults of order, below, are about this pair."""
    pair = sorted_pair(1500)
    assert (pair.before != pair.after).any(axis=1).sum() > 1400
    assert (pair.before != pair.after[pair.places]).any(axis=1).sum() == 1
    for name in ("oja, batches", "kendall, winsorised", "refined, differences"):
        assert compared(name, pair, epsilon=30.0).fault == ""
    part = compared("whitened, a part of the rows", sorted_pair(6000), bound="none", center="pairs", epsilon=30.0)
    assert part.fault == ""  # each row keeps its coin


# --- planted faults: sensitivities and noise ----------------------------------------------------------------------


def scaled(monkeypatch, place, name, factor):
    honest = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given, **named: factor * honest(*given, **named))


def halved(monkeypatch, place, name):
    scaled(monkeypatch, place, name, 0.5)


@pytest.mark.parametrize(
    ("place", "measure", "subject", "options"),
    [
        (SecondMoment, "frobenius_sensitivity", "gaussian", {}),
        (SecondMoment, "frobenius_sensitivity", "refined", {}),
        (SecondMoment, "upper_sensitivity", "laplace", {}),
        (SecondMoment, "trace_sensitivity", "matrix-laplace", {"delta": 0.0}),
        (KendallTau, "frobenius_sensitivity", "kendall", {}),
        (KendallTau, "trace_sensitivity", "kendall", {"delta": 0.0}),
    ],
    ids=str,
)
def test_a_sensitivity_that_is_too_small_is_caught(place, measure, subject, options, monkeypatch):
    pair = far_pair(100)
    honest = compared(subject, pair, **options)
    assert honest.fault == ""
    assert honest.single > 0.5
    scaled(monkeypatch, place, measure, 0.5)
    assert "matrix, against what it was handed" in compared(subject, pair, **options).fault


def drawn_with_less(monkeypatch, module, name):
    """The noise is drawn with half of the scale that was asked for."""
    place = importlib.import_module(module)
    honest = getattr(place, name)
    monkeypatch.setattr(place, name, lambda d, scale, rng, **named: honest(d, scale / 2, rng, **named))


@pytest.mark.parametrize(
    ("method", "draw"),
    [("gaussian", "symmetric_gaussian"), ("laplace", "symmetric_laplace"), ("matrix-laplace", "matrix_laplace")],
)
def test_matrix_noise_of_too_small_a_scale_is_caught(method, draw, monkeypatch):
    drawn_with_less(monkeypatch, "dpeigen.questions.laws", draw)
    assert "matrix, against what it was handed" in compared(method, far_pair()).fault


@pytest.mark.parametrize(
    ("place", "name", "subject", "options", "seen"),
    [
        (noise, "noise_scale", "spatial-sign", {"center": "private"}, "vector, against"),
        (noise, "noise_scale", "score map, classes", {"delta": 0.0}, "vector, against"),
        (radii, "holding_scale", "spatial-sign", {"bound": "none", "epsilon": 30.0}, "radius, against"),
        (histogram, "noise_scale", "private mean", {}, "histograms, against"),
        (histogram, "threshold", "private mean", {}, "histograms, against"),
    ],
    ids=str,
)
def test_other_noise_of_too_small_a_scale_is_caught(place, name, subject, options, seen, monkeypatch):
    pair = far_pair(3000 if subject == "private mean" else 700)
    assert compared(subject, pair, **options).fault == ""
    halved(monkeypatch, place, name)
    assert seen in compared(subject, pair, **options).fault


@pytest.mark.parametrize("place", [radii.RadiusNear, ColumnReaches])
def test_too_little_noise_on_the_scores_of_a_noisy_max_is_caught(place, monkeypatch):
    rows = np.random.default_rng(7).normal(size=(700, 3))
    after = rows.copy()
    after[0] = 30.0  # in all columns, so that one row costs all that each of them has
    pair = Neighbours(rows, after, np.arange(700))
    honest = compared("whitened", pair, bound="none", epsilon=1000.0)
    assert honest.fault == ""
    assert max(loss.amount / change.cost.epsilon for change in honest.changes if change.name == "noisy max"
               for loss in change.losses) > 0.9  # fmt: skip
    halved(monkeypatch, place, "scale")
    assert "noisy max, against what it was handed" in compared("whitened", pair, bound="none", epsilon=1000.0).fault


def test_too_little_noise_on_counts_of_far_rows_is_caught(monkeypatch):
    rows = np.random.default_rng(7).normal(size=(700, 5))
    rows[0] = 60.0, 0.0, 0.0, 0.0, 0.0
    after = rows.copy()
    after[0] = 0.0, 40.0, 30.0, 0.0, 0.0  # from one cell into another
    pair = Neighbours(rows, after, np.arange(700))
    honest = compared("whitened", pair, bound="none", epsilon=100.0)
    assert honest.fault == ""
    assert honest.single > 0.99  # the counts change by all that was paid for
    monkeypatch.setattr(far_rows, "_moved", lambda relation, pairs: 1)
    assert "vector, against what it was handed" in compared("whitened", pair, bound="none", epsilon=100.0).fault


def test_too_little_noise_on_counts_of_narrow_columns_is_caught(monkeypatch):
    """The row that changes goes from one cell of every narrow column into another, which no other count shows."""
    units = np.array([1.0, 1e-3, 1e-3, 1e-3])
    before = (np.random.default_rng(7).normal(size=(700, 4)) + 5.0) * units
    before[0] = 5.0 * units
    after = before.copy()
    after[0] = (5.0 + np.array([0.0, 0.7, 0.7, 0.7])) * units
    pair = Neighbours(before, after, np.arange(700))
    options = {"d": 4, "bound": "none", "center": "private", "epsilon": 100.0}
    for name in ("mixed units, robust", "mixed units, refined"):
        honest = compared(name, pair, **options)
        assert honest.fault == ""
        assert max(loss.amount / change.cost.mu for change in honest.changes if change.name == "vector"
                   for loss in change.losses) > 0.99  # fmt: skip
    moved = ColumnCounts._moved
    less = type("LessNoise", (ColumnCounts,), {"_moved": lambda self, relation: moved(self, relation) // 2})
    monkeypatch.setattr(narrow, "ColumnCounts", less)
    for name in ("mixed units, robust", "mixed units, refined"):
        assert "vector, against what it was handed" in compared(name, pair, **options).fault


def test_draws_that_are_too_sharp_are_caught(monkeypatch):
    assert compared("eigenvector-sampling", far_pair(), k=1, delta=0.0).fault == ""
    scaled(monkeypatch, SamplingMethod, "concentration", 2.0)
    with pytest.raises(AssertionError, match="worth more than what pays for them"):  # the question itself refuses
        compared("eigenvector-sampling", far_pair(), k=1, delta=0.0)
    monkeypatch.setattr("dpeigen.questions.spectrum.check_draws", lambda *facts: None)
    for k in (1, 3):
        fault = compared("eigenvector-sampling", far_pair(d=4), d=4, k=k, delta=1e-5).fault
        assert "directions, against what it was handed" in fault


def test_gradients_with_too_little_noise_are_caught(monkeypatch):
    honest_noise = Geodesic._noise
    pair = far_pair(1500)
    for name in ("geodesic", "oja"):
        assert compared(name, pair, epsilon=30.0).fault == ""

    def less(self, task):
        costs, deviation = honest_noise(self, task)
        return costs, deviation / 4

    monkeypatch.setattr(Geodesic, "_noise", less)
    with pytest.raises(AssertionError, match="worth more than what pays for them"):  # the question itself refuses
        compared("geodesic", pair, epsilon=30.0)
    monkeypatch.setattr(Descent, "_check", lambda self, cost: None)
    assert "gradient, against what it was handed" in compared("geodesic", pair, epsilon=30.0).fault
    steps = oja_steps.OjaSteps._single_steps
    monkeypatch.setattr(
        oja_steps.OjaSteps, "_single_steps", lambda self, rows, rng: steps(replace(self, mu=4 * self.mu), rows, rng)
    )
    assert "single step, against what it was handed" in compared("oja", pair, epsilon=30.0).fault


def test_steps_of_a_stream_that_cost_too_much_are_refused(monkeypatch):
    honest = Oja.local

    def more(self, *facts):
        mu, name = honest(self, *facts)
        return 4 * mu, name

    monkeypatch.setattr(Oja, "local", more)
    with pytest.raises(NotPaidForError, match="more than the budget"):
        compared("oja", far_pair(1500), epsilon=30.0)


class HalvedLaw(GaussianLaw):
    def draw(self, moment, cost, relation, rng):
        found = super().draw(moment, cost, relation, rng)
        return replace(found, matrix=found.matrix // 2)


class HalvesItsNoise(Gaussian):
    """Draws the right noise and adds half of it."""

    law = HalvedLaw()


def test_noise_that_is_made_smaller_after_the_draw_is_caught():
    assert "is not the noise that was drawn" in compared(HalvesItsNoise(), far_pair()).fault


# --- planted faults: what is not paid for -------------------------------------------------------------------------


class MeasuresTwice(SpatialSign):
    """Two releases for the price of one."""

    def estimate(self, curator, task):
        super().estimate(curator, task)
        return super().estimate(curator, task)


class AddsItsOwnNoise(Gaussian):
    """A measurement that goes through none of the library's functions."""

    holds_rows = True

    def estimate(self, curator, task):
        source, rng = unprotected(curator)
        rows = np.concatenate(list(source.blocks()))
        noisy = float(np.abs(rows).sum()) + float(rng.discrete_laplace(1e6, 1)[0])
        return replace(super().estimate(curator, task), noise_variance=abs(noisy))


def test_a_measurement_that_is_not_paid_for_is_caught():
    """Whatever the tables are: here two that are the same."""
    table = np.random.default_rng(0).normal(size=(40, 3))
    same = Neighbours(table, table.copy(), np.arange(40))
    with pytest.raises(NotPaidForError):  # the curator refuses it before it is made
        compared(MeasuresTwice(), same)
    assert "that the harness does not know" in compared(AddsItsOwnNoise(), same).fault


def longest(curator):
    """Read past the door, as no method of the library does."""
    return float(np.abs(np.concatenate(list(unprotected(curator)[0].blocks()))).max())


class MeasuresMoreWhereRowsAreLong(Gaussian):
    """The number of measurements follows a number without noise."""

    holds_rows = True

    def shares(self, task):
        less = Budget(0.9 * task.budget.epsilon, task.budget.delta)
        return {**super().shares(replace(task, budget=less)), Purpose.TAU: PureCost(1e-6)}

    def estimate(self, curator, task):
        if longest(curator) > 1500:
            curator.measure(RadiusHolding(Frame(3)), purpose=Purpose.TAU, cost=PureCost(1e-6))
        return super().estimate(curator, task)


class ChoosesByTheRows(Gaussian):
    """The kind of the noise follows a number without noise."""

    holds_rows = True

    def estimate(self, curator, task):
        other = METHODS["laplace"]()
        if longest(curator) <= 1500:
            return super().estimate(curator, task)
        return other.estimate(curator.part({Purpose.MOMENT: PureCost(0.1)}), replace(task, budget=Budget(0.1)))


class ScalesByTheRows(Gaussian):
    """What is done with the answer follows a number without noise."""

    holds_rows = True

    def estimate(self, curator, task):
        found = super().estimate(curator, task)
        return replace(found, eigenvalues=found.eigenvalues * longest(curator))


@pytest.mark.parametrize(
    ("method", "seen"),
    [
        (MeasuresMoreWhereRowsAreLong(), "The draws differ"),
        (ChoosesByTheRows(), "The draws differ"),
        (ScalesByTheRows(), "The releases differ"),
        (DataScaledGaussian(), "The releases differ"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_without_noise_that_decides_something_is_caught(method, seen):
    bound = "none" if isinstance(method, DataScaledGaussian) else "radius"
    assert seen in compared(method, far_pair(), bound=bound).fault


# --- planted faults: order ----------------------------------------------------------------------------------------


def in_order(source, rng):
    """The rows as they lie."""
    rows = np.concatenate([np.asarray(block) for block in source.blocks()])
    for at in range(0, len(rows), 8192):
        yield rows[at : at + 8192]


@pytest.mark.parametrize(
    ("place", "subject", "options", "seen"),
    [
        (CURATOR, "oja, batches", {}, "all changes, composed, against the budget"),
        (CURATOR, "dp-pca", {}, "all changes, composed, against the budget"),
        (SHUFFLED, "gaussian", {"center": "pairs"}, "matrix, against what it was handed"),
        (SHUFFLED, "kendall, blocks", {}, "radius, against what it was handed"),
    ],
    ids=str,
)
def test_groups_that_follow_positions_in_a_sorted_table_are_caught(place, subject, options, seen, monkeypatch):
    pair = sorted_pair(4000 if subject == "dp-pca" else 1500)
    options = {"epsilon": 30.0, **options}
    assert compared(subject, pair, **options).fault == ""
    monkeypatch.setattr(place, "shuffled", in_order)
    assert seen in compared(subject, pair, **options).fault


# --- the comparison itself ----------------------------------------------------------------------------------------


def changes(*losses):
    return [Change("a", (Loss(kind, amount),), None, failure=1.0) for kind, amount in losses]


MU = gaussian_mu(1.0, 1e-6)


@pytest.mark.parametrize(
    ("cost", "within", "beyond"),
    [
        (GaussianCost(1.0), [("gaussian", 0.6), ("gaussian", 0.8)], [("gaussian", 0.6), ("gaussian", 0.81)]),
        (PureCost(1.0), [("pure", 0.5), ("pure", 0.5)], [("pure", 0.5), ("pure", 0.51)]),
        (PureCost(1.0), [("pure", 0.5), ("range", 0.5)], [("pure", 0.5), ("range", 0.51)]),
        (ConcentratedCost(1.0), [("range", 2.0), ("range", 2.0)], [("range", 2.0), ("range", 2.01)]),
        (ApproximateCost(1.0, 1e-6), [("gaussian", 0.999 * MU)], [("gaussian", 0.999 * MU), ("pure", 0.1)]),
        (ApproximateCost(1.0, 1e-6), [("pure", 0.99), ("failure", 2e-7)], [("pure", 0.99), ("failure", 3e-7)]),
        (GaussianCost(1.0), [], [("pure", 1e-3)]),
        (PureCost(1.0), [], [("gaussian", 1e-3)]),
    ],
    ids=str,
)
def test_changes_compose_as_the_guarantee_says(cost, within, beyond):
    epsilon = 1.0 if isinstance(cost, (PureCost, ApproximateCost)) else 50.0
    promise = Promise(Budget(epsilon, 1e-6), (Spend("all", "all", cost),))
    assert judge(changes(*within), promise).fault == ""
    assert judge(changes(*beyond), promise).fault


def test_a_list_that_is_worth_more_than_the_promise_is_caught():
    promise = Promise(Budget(1.0), (Spend("all", "all", PureCost(1.01)),))
    assert "against what is promised" in judge([], promise).fault


def sparse_vector_law(margins, scale):
    """The exact chances of all answers; the last radius is also the answer where none passes."""
    q = math.exp(-1 / scale)
    t = np.arange(-int(60 * scale), int(60 * scale) + 1)
    alive = (1 - q) / (1 + q) * q ** np.abs(t).astype(float)
    answers = []
    for margin in margins:
        needed = t - margin
        reached = np.where(
            needed >= 1, q ** np.maximum(needed, 0) / (1 + q), 1 - q ** np.maximum(1 - needed, 0) / (1 + q)
        )
        answers.append(float((alive * reached).sum()))
        alive = alive * (1 - reached)
    return np.array([*answers[:-1], answers[-1] + float(alive.sum())])


def test_the_loss_of_the_sparse_vector_technique_covers_its_exact_law():
    rng = np.random.default_rng(4)
    tight = 0.0
    for _ in range(200):
        scale = float(rng.uniform(0.5, 5))
        before = np.sort(rng.integers(-12, 6, size=6))
        after = before + (rng.integers(-3, 4, size=6) if rng.random() < 0.5 else rng.integers(0, 2, size=6))
        (loss,) = SparseVector(scale).losses(before, after, None)
        exact = np.abs(np.log(sparse_vector_law(before, scale) / sparse_vector_law(after, scale))).max()
        assert exact <= loss.amount + 1e-9
        tight = max(tight, exact / loss.amount if loss.amount else 0.0)
    assert tight > 0.5


def noisy_max_law(scores, scale):
    """The probability of each place, exactly, up to a tail of e^−60: noise |Z|, and the first of the largest."""
    q = math.exp(-1 / scale)
    lift = np.arange(int(np.ptp(scores) + 60 * scale) + 1)
    chance = np.where(lift == 0, 1, 2) * q**lift * (1 - q) / (1 + q)
    below = np.concatenate([[0.0], np.cumsum(chance)])  # below[k]: less than k
    answers = []
    for place, score in enumerate(scores):
        others = [below[np.clip(score + lift - other + (at > place), 0, len(lift))]
                  for at, other in enumerate(scores) if at != place]  # fmt: skip
        answers.append(float((chance * np.prod(others, axis=0)).sum()))
    return np.array(answers)


def test_the_loss_of_noisy_max_covers_its_exact_law():
    rng = np.random.default_rng(5)
    tight = 0.0
    for _ in range(200):
        scale = float(rng.uniform(0.5, 5))
        before = rng.integers(-9, 6, size=5)
        after = before + (rng.integers(-3, 4, size=5) if rng.random() < 0.5 else rng.integers(0, 2, size=5))
        (loss,) = NoisyMax(scale).losses(before, after, None)
        first, second = noisy_max_law(before, scale), noisy_max_law(after, scale)
        assert first.sum() == pytest.approx(1)
        exact = np.abs(np.log(first / second)).max()
        assert exact <= loss.amount + 1e-9
        tight = max(tight, exact / loss.amount if loss.amount else 0.0)
    assert tight > 0.9


# --- people -----------------------------------------------------------------------------------------------------------


def _all_alike(rows):
    """A person whose 300 rows are all replaced, beside 40 others."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(41), [1] * 40 + [300])
    before = np.column_stack([rng.normal(size=(340, 3)) * 0.3, ids])
    after = before.copy()
    before[40:, :3], after[40:, :3] = rows
    return Neighbours(before, after, np.arange(41))


# Without weights or a cap, rows that are clipped together still stay within the radius together: second moments do not
# show these two faults then. Sums and signs do (tests/people/test_bad_people.py).
HARMLESS = {
    "people, gaussian": {"none", "cap not applied", "clipped one by one"},
    "people, capped": {"none", "cap not applied", "weights forgotten"},
}


@pytest.mark.parametrize(
    "fault", ["none", "weights forgotten", "cap not applied", "a person taken for four", "clipped one by one"]
)
@pytest.mark.parametrize("subject", ["people, gaussian", "people, capped"])
def test_faults_that_leave_people_unprotected_are_caught(fault, subject, monkeypatch):
    blocks, chosen, encoded = units.UnitsByPlace.blocks, units.chosen, opening.encoded
    if fault == "weights forgotten":
        ones = lambda self: (replace(block, sizes=np.ones_like(block.sizes)) for block in blocks(self))  # noqa: E731
        monkeypatch.setattr(units.UnitsByPlace, "blocks", ones)
    elif fault == "cap not applied":
        monkeypatch.setattr(units, "chosen", lambda *given: (*chosen(*given)[:2], None))
    elif fault == "a person taken for four":
        monkeypatch.setattr(opening, "encoded", lambda ids: encoded(4 * ids + np.arange(len(ids)) % 4))
    elif fault == "clipped one by one":
        each = lambda self, square, d: np.full(len(self.parts), float(square))  # noqa: E731
        monkeypatch.setattr(Together, "squared_limits", each)
    pair = _all_alike(([30.0, 0.0, 0.0], [0.0, 30.0, 0.0]))
    verdict = replay_cases.run_pair(BY_NAME[subject], PLAIN, pair, seed=1)
    assert bool(verdict.fault) != (fault in HARMLESS[subject]), verdict.fault


LESS_HARMLESS = {
    "a person less, gaussian": {"none", "clipped one by one"},
    "a person less, capped": {"none"},
}


@pytest.mark.parametrize("fault", ["none", "weights forgotten", "a person taken for four", "clipped one by one"])
@pytest.mark.parametrize("subject", LESS_HARMLESS)
def test_faults_that_show_when_a_person_is_added_are_caught(fault, subject, monkeypatch):
    """All 300 rows of one person appear."""
    blocks, encoded = units.UnitsByPlace.blocks, opening.encoded
    if fault == "weights forgotten":
        ones = lambda self: (replace(block, sizes=np.ones_like(block.sizes)) for block in blocks(self))  # noqa: E731
        monkeypatch.setattr(units.UnitsByPlace, "blocks", ones)
    elif fault == "a person taken for four":
        monkeypatch.setattr(opening, "encoded", lambda ids: encoded(4 * ids + np.arange(len(ids)) % 4))
    elif fault == "clipped one by one":
        each = lambda self, square, d: np.full(len(self.parts), float(square))  # noqa: E731
        monkeypatch.setattr(Together, "squared_limits", each)
    table = _all_alike(([30.0, 0.0, 0.0], [0.0, 0.0, 0.0])).before
    pair = Neighbours(table[table[:, -1] < 40], table, None, people=True)
    setting = replace(PLAIN, relation="add_remove")
    verdict = replay_cases.run_pair(BY_NAME[subject], setting, pair, seed=1)
    assert bool(verdict.fault) != (fault in LESS_HARMLESS[subject]), verdict.fault


# --- planted faults: missing cells ----------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["holes, gaussian", "holes, laplace", "people, holes, laplace"])
@pytest.mark.parametrize("fault", ["none", "one column's share", "a person counts for each row"])
def test_faults_in_counts_of_missing_cells_are_caught(fault, subject, monkeypatch):
    """A row, or a person, with all cells who becomes one with none."""
    people = subject.startswith("people")
    pair = _all_alike(([np.nan] * 3, [1.0] * 3)) if people else all_or_nothing()
    if fault == "one column's share":  # sensitivity of one count, not of all of them
        monkeypatch.setattr(HoleShares, "_reach", property(lambda self: (2.0**32, 2.0**32)))
    elif fault == "a person counts for each row":
        monkeypatch.setattr(holes, "WHOLE", Undivided(holes.WHOLE))
    harmless = fault == "none" or (fault == "a person counts for each row" and not people)
    verdict = replay_cases.run_pair(BY_NAME[subject], PLAIN, pair, seed=1)
    assert bool(verdict.fault) != harmless, verdict.fault


def all_or_nothing(n=40, d=3):
    before = np.ones((n, d))
    after = before.copy()
    before[5] = np.nan
    return Neighbours(before, after, np.arange(n))


class Undivided(int):
    """What is divided among the rows of a person, and is not."""

    def __floordiv__(self, sizes):
        return np.full(np.shape(sizes), int(self))


def test_samples_keep_their_places_when_a_sample_of_them_is_taken():
    """A part of the rows may be put in a random order after a part of it was drawn."""
    tape = Tape(3)

    def draw():
        part = int((tape.coins(40, 0.5) < 0.5).sum())
        tape.coins(part, 0.5)
        return tape.order(part, whole=True)

    first = draw()
    tape.rewind(np.arange(40)[::-1])  # the same rows the other way round
    assert np.array_equal(draw(), len(first) - 1 - first)
