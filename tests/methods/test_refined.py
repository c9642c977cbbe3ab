"""Refined directions: what the guarantee rests on, what they are for, and where there is nothing to refine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.auditing.events import audit
from dpeigen.curator import DataCurator, Purpose
from dpeigen.evaluation import projection_distance
from dpeigen.methods import Refined
from dpeigen.methods.signs import refined
from dpeigen.methods.signs.evidence import _combined
from dpeigen.methods.signs.refined import _ask_signs
from dpeigen.privacy import Budget, GaussianCost, PureCost, Relation
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, SecondMoment, unit_lattice
from dpeigen.stats.refinement import LEAST_KNOWN
from dpeigen.stats.stretch import Stretched


def spiked_rows(seed, n, p=50, r=3, signal=10.0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(p, r)))[0].T
    return rng.normal(size=(n, p)) + math.sqrt(signal) * rng.normal(size=(n, r)) @ basis, basis


def pca(k=3, method="refined", **options):
    options = {"epsilon": 1.0, "delta": 1e-5, "center": None, "random_state": 0, **options}
    return PrivatePCA(k, method=method, **options)


def errors(method, n, signal, runs=4):
    found = []
    for seed in range(runs):
        rows, basis = spiked_rows(seed, n, signal=signal)
        found.append(projection_distance(pca(method=method, random_state=seed).fit(rows).components_, basis))
    return np.array(found)


# --- accuracy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "signal", "bar"), [(5000, 10, 0.25), (5000, 50, 0.09), (5000, 1000, 0.03), (20000, 1000, 0.008)]
)
def test_strong_signals_are_used(n, signal, bar):
    """Mean of four runs; in 20 runs the means were 0.149, 0.068, 0.015 and 0.005, their standard errors 2% of that."""
    assert errors("refined", n, signal).mean() < bar


def test_the_error_falls_with_the_signal_where_that_of_plain_signs_does_not():
    plain, ours = (errors(m, 5000, 1000).mean() for m in ("spatial-sign", "refined"))
    assert ours < 0.5 * plain


@pytest.mark.parametrize("signal", [5, 10])
def test_weak_signals_are_hardly_worse_than_with_plain_signs(signal):
    """Seeds are paired; in ten runs the means were within 1% of each other."""
    plain, ours = (errors(m, 2000, signal).mean() for m in ("spatial-sign", "refined"))
    assert ours < 1.08 * plain


def test_nothing_stands_out_of_noise():
    fitted = pca(2).fit(np.random.default_rng(0).normal(size=(3000, 20)))
    assert fitted.release_.facts["details"]["refined_directions"] == 0


def test_different_strengths_and_their_variances():
    variances = np.array([2000.0, 100.0, 12.0] + [1.0] * 27)
    rows = np.random.default_rng(3).normal(size=(20000, 30)) * np.sqrt(variances)
    plain, ours = (pca(method=m).fit(rows) for m in ("spatial-sign", "refined"))
    truth = np.eye(30)[:3]
    assert projection_distance(ours.components_, truth) < 0.5 * projection_distance(plain.components_, truth)
    np.testing.assert_allclose(ours.explained_variance_, variances[:3], rtol=0.15)
    assert abs(ours.noise_variance_ - 1) < 0.1


def test_heavy_tails_and_one_huge_row_do_no_harm():
    rng = np.random.default_rng(4)
    rows, basis = spiked_rows(4, 5000, signal=200.0)
    rows = rows / np.sqrt(rng.chisquare(2, size=(5000, 1)) / 2)
    rows[17] = 1e200
    assert projection_distance(pca().fit(rows).components_, basis) < 0.1


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"center": "private"}, "refined"),
        ({"center": "pairs"}, "refined"),
        ({"relation": "add_remove"}, "refined"),
        ({"center": "private"}, Refined(differences=True)),
        ({"center": "private"}, Refined(only_directions=True)),
        ({"relation": "add_remove"}, Refined(only_directions=True)),
    ],
    ids=str,
)
def test_centres_and_relations(options, method):
    rows, basis = spiked_rows(5, 20000, signal=200.0)
    shift = 0.0 if options.get("center", None) is None else 3.0
    fitted = pca(method=method, **options).fit(rows + shift)
    assert projection_distance(fitted.components_, basis) < 0.1
    assert fitted.release_.facts["details"]["refined_directions"] == 3


@pytest.mark.parametrize(("d", "k"), [(2, 1), (4, 3), (4, 4), (1, 1)])
def test_every_number_of_components(d, k):
    rows = np.random.default_rng(6).normal(size=(3000, d)) * np.sqrt(10.0 ** -np.arange(d))
    fitted = pca(k, epsilon=4.0).fit(rows)
    np.testing.assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(fitted.explained_variance_, 10.0 ** -np.arange(k), rtol=0.5)


def test_the_whole_covariance():
    rows = np.random.default_rng(7).normal(size=(4000, 3)) * [3.0, 2.0, 1.0]
    fitted = PrivateCovariance(epsilon=4.0, delta=1e-6, center=None, method="refined", random_state=0).fit(rows)
    np.testing.assert_allclose(np.diag(fitted.covariance_), [9.0, 4.0, 1.0], rtol=0.2)


def test_differences_pay_for_a_centre_that_directions_do_not_need():
    rows, _ = spiked_rows(5, 20000, signal=200.0)
    fitted = pca(method=Refined(differences=True), center="private").fit(rows + 3.0)
    np.testing.assert_allclose(fitted.mean_, 3.0, atol=1.0)
    assert fitted.explained_variance_[0] == pytest.approx(201.0, rel=0.3)


def test_only_directions_are_paid_for():
    rows, _ = spiked_rows(5, 20000, signal=200.0)
    fitted = pca(method=Refined(only_directions=True), center="private").fit(rows + 3.0)
    assert {spend.purpose.split(" ")[0] for spend in fitted.guarantee_.split} == {"directions"}
    assert fitted.mean_ is None
    assert fitted.explained_variance_.sum() + 47 * fitted.noise_variance_ == pytest.approx(1.0)
    assert fitted.explained_variance_[0] * (3 * 201 + 47) == pytest.approx(201.0, rel=0.3)


def test_differences_need_a_public_number_of_rows():
    with pytest.raises(ValueError, match="add_remove"):
        pca(method=Refined(differences=True), relation="add_remove", center="private").fit(spiked_rows(5, 2000)[0])


# --- the guarantee ------------------------------------------------------------------------------------------------


def test_everything_that_is_read_is_paid_for():
    guarantee = pca().fit(spiked_rows(0, 3000)[0]).guarantee_
    assert guarantee.basis == "worst-case"
    purposes = {spend.purpose: spend.cost for spend in guarantee.split}
    assert set(purposes) == {
        "directions 1", "directions 2", "directions 3", "directions 4", "variances", "radius for the scores",
    }  # fmt: skip
    assert all(isinstance(c, PureCost if p.startswith("radius") else GaussianCost) for p, c in purposes.items())
    assert guarantee.spent_epsilon == pytest.approx(1.0, rel=1e-6)


def test_the_image_of_a_row_depends_on_that_row_alone():
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.normal(size=(7, 3)))[0].T
    view = Stretched(Frame(7), basis, np.array([1e-3, 0.2, 5.0]))
    rows = rng.normal(size=(501, 7)) * np.exp2(rng.integers(-40, 40, size=(501, 1)))
    whole = view.image(rows)
    for block in (slice(0, 1), slice(13, 14), slice(100, 357)):
        np.testing.assert_array_equal(view.image(rows[block]), whole[block])
    np.testing.assert_array_equal(view.image(np.asfortranarray(rows))[::-1], view.image(rows[::-1].copy()))
    stretch = np.eye(7) + basis.T @ np.diag(view.factors - 1) @ basis
    np.testing.assert_allclose(whole, rows @ stretch, rtol=1e-5, atol=1e-5 * np.abs(rows).max())


@pytest.mark.parametrize("factors", [[1e-8, 1e8], [0.0, 0.0], [1e150, 1e-150]])
def test_no_stretch_makes_a_row_count_more(factors):
    """Whatever the released stretch, and however the other row is chosen, the moment moves by at most √2 and 1."""
    rng = np.random.default_rng(9)
    basis = np.linalg.qr(rng.normal(size=(4, 2)))[0].T
    lattice = unit_lattice(Stretched(Frame(4), basis, np.array(factors)))
    special = [np.zeros(4), basis[0], -basis[0], 1e300 * np.ones(4), basis[0] + 1e-9 * basis[1], 1e-300 * np.ones(4)]
    for first in [*special, *rng.normal(size=(20, 4))]:
        for second in [*special, *rng.normal(size=(5, 4))]:
            one, two = (SecondMoment(lattice).update(np.array([row])) for row in (first, second))
            moved = np.linalg.norm((one.gram - two.gram).astype(float))
            assert moved <= one.frobenius_sensitivity(Relation.REPLACE)
            assert np.linalg.norm(one.gram.astype(float)) <= 2.0**40


def test_clipping_the_two_parts_apart_would_move_their_cross_moment_by_more_than_root_two():
    """Why the sketch with √2·Ra·Rb is not used: a′ = −a, b′ = b moves Σabᵀ by 2·Ra·Rb."""
    a, b = np.array([1.0, 0.0]), np.array([0.0, 0.6, 0.8])
    assert np.linalg.norm(np.outer(a, b) - np.outer(-a, b)) == pytest.approx(2.0)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "caught"), [(1.0, False), (0.7, True)])
def test_an_audit_of_one_stage_on_its_worst_neighbours(tools, factor, caught):
    """A row that stretching puts half inside and half outside, and its mirror image. False alarms: 1e-6.

    The twin has 0.7 of the noise. The honest audit proves most of the claim, so it is not idle.
    """
    base = np.tile([[30.0, 0.0], [0.0, 1.0]], (20, 1))
    first, second = (np.vstack([base, [[side, 1.0]]]) for side in (30.0, -30.0))
    view = Stretched(Frame(2), np.eye(2)[:1], np.array([1 / 30]))
    purpose, cost = Purpose.look(1), GaussianCost(1.0)

    def run(rows, count):
        rng = tools.seeded(int(rows[-1, 0]) + 50) if factor == 1 else tools.faulty(int(rows[-1, 0]) + 99, factor)
        found = []
        for _ in range(count):
            curator = DataCurator(ArraySource(rows), Relation.REPLACE, {purpose: cost}, Budget(5.0, 1e-6), rng)
            found.append(_ask_signs(curator, view, None, purpose, cost).matrix[np.triu_indices(2)])
        return np.array(found)

    result = audit(run, first, second, runs=3000, confidence=1 - 1e-6)
    assert result.violates_gaussian(1.0) is caught
    assert result.mu_lower > 0.6


def test_refusals():
    rows, _ = spiked_rows(0, 300)
    with pytest.raises(ValueError, match="'delta' parameter of PrivatePCA must be > 0 for method='refined'"):
        pca(delta=0.0).fit(rows)
    with pytest.raises(ValueError, match="A private radius needs at least"):
        pca().fit(rows)
    with pytest.raises(ValueError, match="'rounds' parameter of Refined"):
        pca(method=Refined(rounds=9)).fit(rows)


def test_the_lattice_of_even_scores_is_inside_its_ball():
    rows = np.random.default_rng(1).normal(size=(200, 5)) * 1e6
    lattice = Lattice(Stretched(Frame(5), np.eye(5)[:2], np.array([0.1, 3.0])), radius=2.0)
    assert (np.linalg.norm(lattice.integers(rows), axis=1) <= 2.0**20).all()


def largest_error_of_a_variance(seeds=4):
    """Two components of rows in which a third direction is strong too: the median of fits."""
    deviations, errors = np.array([40.0, 8.0, 5.0, 1.0, 0.1, 0.01]), []
    for seed in range(seeds):
        rows = np.random.default_rng(seed).normal(size=(5000, 6)) * deviations
        model = PrivatePCA(2, epsilon=2.0, delta=1e-6, robust=True, random_state=seed).fit(rows)
        errors.append(np.abs(model.explained_variance_ / deviations[:2] ** 2 - 1).max())
    return float(np.median(errors))


def test_variances_are_right_if_more_directions_are_strong_than_are_wanted():
    """Scores are divided so that each is as long as all other directions together. These are not all as short as the
    rest of the model: if they are taken to be, the wanted scores vanish beside them, and their squares in noise.
    """
    assert largest_error_of_a_variance() < 0.3


def test_and_are_not_if_all_other_directions_are_taken_to_be_short(monkeypatch):
    asked = refined.ask_variances

    def short(curator, frame, basis, levels, *rest, **options):
        return asked(curator, frame, basis, np.append(levels[: len(basis)], np.ones(6 - len(basis))), *rest, **options)

    monkeypatch.setattr(refined, "ask_variances", short)
    assert largest_error_of_a_variance() > 0.8


def test_a_remaining_variance_that_noise_makes_negative_is_taken_for_positive():
    """Signs hardly show its size, so the paid one counts; a negative level would cost the release its intervals."""
    paid, noise, shown = np.array([1e4, -50.0]), np.array([20.0, 20.0]), np.array([0.99, 0.01])
    found, deviations, _ = _combined(paid, noise, shown, np.array([0.35, 5.0]))
    assert (found > 0).all()
    assert found[0] == pytest.approx(1e4, rel=0.01)
    assert deviations[1] / found[1] <= LEAST_KNOWN * (1 + 1e-9)
