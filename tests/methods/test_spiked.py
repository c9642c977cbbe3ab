"""The spiked covariance method: the paper's algorithm, better constants, and why its guarantee is labelled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.auditing.events import audit
from dpeigen.evaluation import projection_distance
from dpeigen.methods import DataScaledGaussian, Gaussian, Spiked
from dpeigen.methods.base import run_method
from dpeigen.privacy import NotPrivateWarning, gaussian_epsilon
from dpeigen.sources import ArraySource
from dpeigen.stats.raw import RawMoment
from dpeigen.stats.spiked import dp_gauss_radius, published_sensitivities, sharp_sensitivities

pytestmark = pytest.mark.filterwarnings(
    "ignore:The guarantee of method='spiked'", "ignore:method='gaussian-data-scaled'"
)
N, P, R, SIGNAL, EPSILON, DELTA = 4000, 30, 2, 40.0, 2.0, 1e-3


def spiked_rows(seed, n=N, p=P, r=R, signal=SIGNAL, sigma2=1.0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(p, r)))[0].T
    return math.sqrt(sigma2) * rng.normal(size=(n, p)) + math.sqrt(signal) * rng.normal(size=(n, r)) @ basis, basis


def pca(k=R, **options):
    method = Spiked(SIGNAL, 1.0, **options)
    return lambda seed: PrivatePCA(k, epsilon=EPSILON, delta=DELTA, center=None, method=method, random_state=seed)


def transcription(rows, r, lam, sigma2, epsilon, delta, rng):
    """Algorithm 1 of Cai, Xia and Zha 2024, line by line, written from the paper alone."""
    n, p = rows.shape
    sample = rows.T @ rows / n
    top = np.linalg.eigh(sample)[1][:, -r:]
    delta1 = 4 * (sigma2 / lam + math.sqrt(sigma2 / lam)) * math.sqrt(p * (r + math.log(n))) / n
    delta2 = 4 * (lam * (r + math.log(n)) + sigma2 * (p + math.log(n))) / n

    def symmetric(size, deviation):
        upper = np.triu(rng.normal(size=(size, size))) * deviation
        return upper + np.triu(upper, 1).T

    noisy = top @ top.T + symmetric(p, math.sqrt(8 * delta1**2 / epsilon**2 * math.log(2.5 / delta)))
    tilde = np.linalg.eigh(noisy)[1][:, -r:]
    values = tilde.T @ (sample - sigma2 * np.eye(p)) @ tilde
    values = values + symmetric(r, math.sqrt(8 * delta2**2 / epsilon**2 * math.log(2.5 / delta)))
    return tilde.T, tilde @ values @ tilde.T + sigma2 * np.eye(p)


def compare(first, second):
    """Difference of means in standard errors."""
    return (np.mean(first) - np.mean(second)) / np.hypot(np.std(first), np.std(second)) * math.sqrt(len(first))


@pytest.fixture(scope="module")
def runs():
    """Errors of directions and covariance: transcription, published, sharp."""
    rng, out = np.random.default_rng(0), {"transcription": [], "published": [], "sharp": []}
    for seed in range(40):
        rows, basis = spiked_rows(seed)
        truth = SIGNAL * basis.T @ basis + np.eye(P)
        directions, covariance = transcription(rows, R, SIGNAL, 1.0, EPSILON, DELTA, rng)
        out["transcription"].append((projection_distance(directions, basis), np.linalg.norm(covariance - truth)))
        for constants in ("published", "sharp"):
            release = pca(constants=constants)(seed).fit(rows).release_
            error = np.linalg.norm(release.covariance - truth)
            out[constants].append((projection_distance(release.components, basis), error))
    return {name: np.array(errors) for name, errors in out.items()}


@pytest.mark.parametrize("column", [0, 1], ids=["directions", "covariance"])
def test_published_is_the_papers_algorithm(runs, column):
    """Means of 40 runs within four standard errors (false alarm 6e-5); the twin is off by a fifth."""
    ours, theirs = runs["published"][:, column], runs["transcription"][:, column]
    assert abs(compare(ours, theirs)) < 4
    if column == 0:
        assert abs(compare(1.2 * ours, theirs)) > 4


@pytest.mark.parametrize("column", [0, 1], ids=["directions", "covariance"])
def test_sharp_constants_are_better(runs, column):
    most = (0.6, 0.85)[column]  # the eigenvalues' own sampling error is part of the covariance's
    assert runs["sharp"][:, column].mean() < most * runs["published"][:, column].mean()


@pytest.mark.parametrize(("n", "p", "r", "signal"), [(1000, 30, 2, 40.0), (800, 50, 3, 1000.0), (2000, 20, 1, 5.0)])
def test_sharp_sensitivities_hold_in_the_model(n, p, r, signal):
    """One row replaced by another of the same law moves the projector by less than Δ₁ (200 rows of 3 samples)."""
    first, _ = sharp_sensitivities(n, p, r, signal, 1.0, failure=1e-3)
    moved = []
    for seed in range(3):
        rows, basis = spiked_rows(seed, n, p, r, signal)
        rng = np.random.default_rng(seed + 100)
        gram = rows.T @ rows
        for i in range(200):
            fresh = rng.normal(size=p) + math.sqrt(signal) * rng.normal(size=r) @ basis
            other = gram - np.outer(rows[i], rows[i]) + np.outer(fresh, fresh)
            one, two = (np.linalg.eigh(m)[1][:, -r:] for m in (gram, other))
            moved.append(np.linalg.norm(one @ one.T - two @ two.T))
    assert max(moved) < first
    assert max(moved) > first / 8  # it is not vacuous


def test_the_condition_number_costs_what_the_paper_says():
    one, many = (published_sensitivities(1000, 20, 2, 10.0, 1.0, condition=c) for c in (1.0, 9.0))
    factor = 4 * math.sqrt(20 * (2 + math.log(1000))) / 1000
    assert many[0] - one[0] == pytest.approx(factor * 2 * math.sqrt(0.1))  # √κ₀ = 3
    assert many[1] > 5 * one[1]
    assert (
        sharp_sensitivities(1000, 20, 2, 10.0, 1.0, condition=9.0)[0] > sharp_sensitivities(1000, 20, 2, 10.0, 1.0)[0]
    )


# --- the label ----------------------------------------------------------------------------------------------------


def outside_the_model():
    """Neighbours that differ in one row, which is ten times as long as any the model would send and leads both ways."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 4)) * [1.6, 1.0, 1.0, 1.0]
    other = rows.copy()
    other[0] = [0.0, 40.0, 0.0, 0.0]
    return rows, other


@pytest.mark.parametrize("constants", ["published", "sharp"])
def test_outside_the_model_it_leaks_more_than_stated(tools, constants):
    """A concrete pair: the true ε is far above the stated one, by calculation and by an audit (confidence 1 − 1e-6)."""
    first, second = outside_the_model()
    method = Spiked(10.0, 1.0, constants=constants, eigenvalues="known")
    task = tools.task(first, epsilon=1.0, delta=1e-5, bound=None, k=1)
    stated = method.price(task)
    assert stated.epsilon <= 1.0
    tops = [np.linalg.eigh(rows.T @ rows)[1][:, -1:] for rows in (first, second)]
    moved = np.linalg.norm(tops[0] @ tops[0].T - tops[1] @ tops[1].T)
    reach, mu = (
        run_method(method, ArraySource(first), task, tools.seeded(0)).details,
        method.shares(task)["directions"].mu,
    )
    # On the upper triangle alone the move counts for at least 1/√2 of its Frobenius norm.
    true_mu = mu * moved / math.sqrt(2) / reach["projector_sensitivity"]
    assert gaussian_epsilon(1e-5, true_mu) > 10

    def run(rows, count):
        rng = tools.seeded(int(rows[0, 1]) + 7)
        found = [run_method(method, ArraySource(rows), task, rng).components[0] for _ in range(count)]
        return np.array([[u[0] ** 2, u[1] ** 2] for u in found])

    result = audit(run, first, second, runs=600, delta=1e-5, confidence=1 - 1e-6)
    assert result.violates(2.0)


@pytest.mark.filterwarnings("default:The guarantee of method='spiked'")
def test_it_says_so_once_per_fit():
    rows, _ = spiked_rows(0)
    with pytest.warns(NotPrivateWarning, match="not worst-case. It holds only if: rows are independent") as caught:
        fitted = pca()(0).fit(rows)
    assert sum("not worst-case" in str(w.message) for w in caught) == 1
    guarantee = fitted.guarantee_
    assert guarantee.basis == "distributional"
    assert any("λ = 40, κ = 1 and σ² = 1 are right" in a for a in guarantee.assumptions)
    assert any("probability of 1e-06" in a for a in guarantee.assumptions)


# --- private parameters -------------------------------------------------------------------------------------------


def test_private_parameters():
    rows, basis = spiked_rows(3, n=20000, signal=20.0)
    fitted = PrivateCovariance(epsilon=1.0, delta=1e-5, center=None, method=Spiked(rank="private"), random_state=1).fit(
        rows
    )
    details = fitted.release_.facts["details"]
    assert details["rank"] == R
    assert details["signal"] == pytest.approx(20.0, rel=0.1)
    assert details["noise_variance"] == pytest.approx(1.0, rel=0.1)
    truth = 20.0 * basis.T @ basis + np.eye(P)
    assert np.linalg.norm(fitted.covariance_ - truth) < 0.2 * np.linalg.norm(truth)
    assert {"radius", "parameters of the model"} < {spend.purpose for spend in fitted.guarantee_.split}


def test_numbers_that_are_given_are_kept():
    rows, _ = spiked_rows(4, n=20000)
    options = {"epsilon": 1.0, "delta": 1e-5, "center": "pairs", "random_state": 1}
    fitted = PrivatePCA(R, method=Spiked(noise_variance=1.0), **options).fit(rows + 5.0)
    assert fitted.noise_variance_ == 1.0
    assert fitted.release_.facts["details"]["signal"] == pytest.approx(SIGNAL, rel=0.15)
    assert fitted.mean_ is None


def test_known_eigenvalues_leave_everything_to_the_directions():
    rows, _ = spiked_rows(5)
    fitted = pca(eigenvalues="known")(1).fit(rows)
    assert [spend.purpose for spend in fitted.guarantee_.split] == ["directions"]
    np.testing.assert_array_equal(fitted.explained_variance_, [SIGNAL + 1, SIGNAL + 1])


def test_fewer_components_than_spikes():
    rows, basis = spiked_rows(6, n=20000)
    options = {"epsilon": 4.0, "delta": 1e-5, "center": None, "random_state": 1}
    fitted = PrivatePCA(1, method=Spiked(SIGNAL, 1.0, rank=R), **options).fit(rows)
    assert np.linalg.norm(basis @ fitted.components_[0]) > 0.99
    assert 1.0 < fitted.noise_variance_ < 1.2 * (1 + SIGNAL / (P - 1))


# --- the baselines ------------------------------------------------------------------------------------------------


def test_dp_gauss_is_worst_case_and_its_scaled_version_is_not_private():
    rows, basis = spiked_rows(7)
    radius = dp_gauss_radius(N, P, R, SIGNAL, 1.0)
    assert radius**2 == pytest.approx((R + 4 * math.log(N)) * SIGNAL + P)
    options = {"epsilon": 1.0, "delta": 0.1, "center": None, "random_state": 0}
    private = PrivatePCA(R, method=Gaussian(constants="published"), bound=radius, **options).fit(rows)
    assert private.guarantee_.basis == "worst-case"
    with pytest.warns(NotPrivateWarning, match="is NOT private: the noise is scaled by the longest row"):
        scaled = PrivatePCA(R, method=DataScaledGaussian(), **options).fit(rows)
    assert scaled.guarantee_.basis == "none"
    assert not scaled.guarantee_.is_private
    assert scaled.release_.facts["radius"] == pytest.approx(np.linalg.norm(rows, axis=1).max(), rel=1e-6)
    assert projection_distance(scaled.components_, basis) < projection_distance(private.components_, basis)
    with pytest.raises(ValueError, match="use method='gaussian', which is private"):
        PrivatePCA(R, method=DataScaledGaussian(), bound=1.0, **options).fit(rows)


def test_raw_moments_merge():
    rows = np.random.default_rng(8).normal(size=(100, 3))
    from dpeigen.stats import Frame

    whole = RawMoment(Frame(3)).update(rows)
    parts = RawMoment(Frame(3)).update(rows[:30]).merge(RawMoment(Frame(3)).update(rows[30:]))
    np.testing.assert_allclose(whole.gram, rows.T @ rows)
    np.testing.assert_allclose(whole.gram, parts.gram)
    assert (whole.count, whole.longest) == (parts.count, parts.longest)
    assert np.isfinite(RawMoment(Frame(3)).update(np.full((2, 3), 1e300)).gram).all()


@pytest.mark.parametrize(
    ("method", "match"),
    [
        (Spiked(-1.0, 1.0), "'signal' parameter of Spiked must be a finite number > 0"),
        (Spiked("guess", 1.0), "'signal' parameter of Spiked must be one of 'private'"),
        (Spiked(1.0, 1.0, condition=0.5), "'condition' parameter of Spiked must be at least 1"),
        (Spiked(1.0, 1.0, rank=P), "'rank' parameter of Spiked must be an integer between 1 and 29"),
        (Spiked(1.0, 1.0, rank=1), "'n_components' parameter of PrivatePCA must be at most the rank 1"),
        (Spiked(constants="published"), "'assumed' parameter of Spiked must be public"),
        (Spiked(eigenvalues="known"), "'eigenvalues' parameter of Spiked must be 'private' where"),
        (Spiked(1.0, 1.0, assumed=(1.0, 1.0)), "'assumed' parameter of Spiked must be None where"),
        (Spiked(1.0, constants="published", assumed=(1.0, -1.0)), "'assumed' parameter of Spiked must be a finite"),
        (Spiked(1.0, constants="published", assumed=(1.0, 1.0), largest_rank=3), "'largest_rank' parameter of Spiked"),
        (Spiked(1.0, 1.0, failure=2.0), "'failure' parameter of Spiked"),
    ],
)
def test_refusals(method, match):
    with pytest.raises((ValueError, TypeError), match=match):
        PrivatePCA(R, epsilon=1.0, delta=1e-5, center=None, method=method).fit(spiked_rows(0)[0])
