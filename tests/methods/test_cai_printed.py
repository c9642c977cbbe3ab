"""Cai, Xia and Zha 2024 as printed: a second version written from the paper alone, sharing no code with the library.

Means of independent runs agree within four standard errors of their difference (false alarm 6e-5 each); every
comparison has a twin that is off in one line and is seen.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.methods import DataScaledGaussian, Gaussian, Spiked
from dpeigen.papers import OjaPrinted, cai
from dpeigen.privacy import gaussian_epsilon
from dpeigen.stats.spiked import dp_gauss_radius, printed_bulk_variance, sharp_sensitivities

pytestmark = pytest.mark.filterwarnings("ignore::dpeigen.privacy.NotPrivateWarning")
# n, p, r, λ, σ², ε, δ: an easy table, and one in which noise decides most
SETTINGS = {"clear": (3000, 20, 2, 30.0, 1.0, 2.0, 1e-2), "noisy": (400, 12, 2, 8.0, 2.0, 1.0, 0.1)}
RUNS = 120


def rows_of(n, p, r, lam, sigma2, seed):
    rng = np.random.default_rng([77, seed])
    basis = np.linalg.svd(rng.normal(size=(p, r)), full_matrices=False)[0]
    return math.sqrt(sigma2) * rng.normal(size=(n, p)) + math.sqrt(lam) * rng.normal(size=(n, r)) @ basis.T, basis


def symmetric(size, deviation, rng):
    upper = np.triu(rng.normal(size=(size, size))) * deviation
    return upper + np.triu(upper, 1).T


def svd(matrix, r):
    return np.linalg.svd(matrix)[0][:, :r]


def classical(sensitivity, epsilon, delta):
    """The deviation of Lemma 2.1."""
    return math.sqrt(2 * sensitivity**2 / epsilon**2 * math.log(1.25 / delta))


def deltas(n, p, r, lam, sigma2, C=4.0):
    first = C * (sigma2 / lam + math.sqrt(sigma2 / lam)) * math.sqrt(p * (r + math.log(n))) / n
    return first, C * (lam * (r + math.log(n)) + sigma2 * (p + math.log(n))) / n


def algorithm_1(X, r, lam, sigma2, epsilon, delta, rng, parts=2):
    """Algorithm 1; each of its two steps has the budget divided by ``parts``."""
    n, p = X.shape
    sample = X.T @ X / n
    delta1, delta2 = deltas(n, p, r, lam, sigma2)
    top = svd(sample, r)
    tilde = svd(top @ top.T + symmetric(p, classical(delta1, epsilon / parts, delta / parts), rng), r)
    values = tilde.T @ (sample - sigma2 * np.eye(p)) @ tilde
    values = values + symmetric(r, classical(delta2, epsilon / parts, delta / parts), rng)
    return tilde, tilde @ values @ tilde.T + sigma2 * np.eye(p)


@cache
def marchenko_pastur_quantile(share, gamma):
    """The upper quantile of the zero-excluded law with σ² = 1, by integration of Definition 1."""
    low, high = (1 - math.sqrt(gamma)) ** 2, (1 + math.sqrt(gamma)) ** 2

    def density(x):
        return math.sqrt(max((x - low) * (high - x), 0)) / (2 * math.pi * x * min(1, gamma))

    return brentq(lambda q: quad(density, q, high, limit=200)[0] - share, low, high)


def sigma_hat(values, p, n):
    m = min(p, n)
    used = [k for k in range(1, m + 1) if m / 4 <= k <= 3 * m / 4]
    q = {k: marchenko_pastur_quantile(k / m, p / n) for k in used}
    return sum(q[k] * values[k - 1] for k in used) / sum(q[k] ** 2 for k in used)


def section_5_3(X, r, lam, assumed, epsilon, delta, rng):
    """σ̃² of Theorem 5.3, then Theorem 5.4: a third of the budget for each of the three."""
    n, p = X.shape
    values = np.linalg.eigvalsh(X.T @ X / n)[::-1]
    delta3 = deltas(n, p, r, lam, assumed)[1] / math.sqrt(min(p, n))
    noise = math.sqrt(18 * (delta3 / epsilon) ** 2 * math.log(3.75 / delta)) * rng.normal()
    sigma2 = abs(sigma_hat(values, p, n) + noise)
    return sigma2, *algorithm_1(X, r, lam, sigma2, epsilon, delta, rng, parts=3)


def section_7(X, R, assumed, epsilon, delta, rng):
    """Noisy eigenvalues: r̂ of §7.1 and λ̃ of §7.2, R the largest rank."""
    n, p = X.shape
    delta2 = deltas(n, p, R, *assumed)[1]
    values = np.linalg.eigvalsh(X.T @ X / n)[::-1][: R + 1]
    noisy = values + math.sqrt(8 * delta2**2 / epsilon**2 * math.log(2.5 / delta)) * rng.normal(size=R + 1)
    rank = max(range(1, R + 1), key=lambda k: noisy[k - 1] / noisy[k])
    return rank, abs(noisy[:rank].mean())


def dp_gauss(X, r, square, epsilon, delta, rng):
    """The r leading eigenvectors of XXᵀ/(n·square) with noise for unit rows."""
    noisy = X.T @ X / square + symmetric(X.shape[1], classical(1.0, epsilon, delta), rng)
    return np.linalg.eigh(noisy)[1][:, -r:]


def dp_oja(X, lam, sigma2, C, step, epsilon, delta, rng):
    """One pass over rows in random order."""
    n, d = X.shape
    alpha = math.log(n / delta) / (epsilon * math.sqrt(n))
    beta = C * (lam + sigma2) * math.sqrt(d) * (math.log(n * d / 0.01) + 1)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    for x in X[rng.permutation(n)]:
        g = x * (x @ w)
        g = g * min(1.0, beta / np.linalg.norm(g))
        w = w + step / n * (g + 2 * beta * alpha * rng.normal(size=d))
        w /= np.linalg.norm(w)
    return w[:, None]


def distance(U, V):
    return float(np.linalg.norm(U @ U.T - V @ V.T))


def apart(first, second):
    """Difference of the means in standard errors."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    error = math.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    return abs(first.mean() - second.mean()) / max(error, 1e-12)


def fit(X, method, setting, k, seed, **options):
    _, _, _, _, _, epsilon, delta = SETTINGS[setting]
    options = {"epsilon": epsilon, "delta": delta, "method": method, "center": None, "random_state": seed} | options
    return (PrivateCovariance(**options) if k is None else PrivatePCA(k, **options)).fit(X).release_


@pytest.mark.parametrize("setting", SETTINGS)
def test_algorithm_1(setting):
    n, p, r, lam, sigma2, epsilon, delta = SETTINGS[setting]
    rng, ours, theirs, twin = np.random.default_rng(1), [], [], []
    for seed in range(RUNS):
        X, basis = rows_of(n, p, r, lam, sigma2, seed)
        truth = lam * basis @ basis.T + sigma2 * np.eye(p)
        for found, scale in ((theirs, 1.0), (twin, 1.25)):
            U, covariance = algorithm_1(X, r, lam, sigma2, epsilon / scale, delta, rng)
            found.append((distance(U, basis), np.linalg.norm(covariance - truth)))
        release = fit(X, Spiked(lam, sigma2, constants="published"), setting, r, seed)
        ours.append((distance(release.components.T, basis), np.linalg.norm(release.covariance - truth)))
    ours, theirs, twin = np.array(ours), np.array(theirs), np.array(twin)
    for column in (0, 1):
        assert apart(ours[:, column], theirs[:, column]) < 4
    assert max(apart(ours[:, column], twin[:, column]) for column in (0, 1)) > 4


def test_the_leading_directions_are_those_of_the_largest_singular_values():
    """Where noise decides, a large negative eigenvalue counts like a positive one, as SVD_r has it."""
    n, p, r, lam, sigma2 = 150, 12, 2, 8.0, 2.0
    rng, ours, theirs, twin = np.random.default_rng(2), [], [], []
    options = {"epsilon": 1.0, "delta": 0.1}
    for seed in range(300):
        X, basis = rows_of(n, p, r, lam, sigma2, seed)
        release = fit(X, Spiked(lam, sigma2, constants="published"), "noisy", r, seed, **options)
        ours.append(distance(release.components.T, basis))
        theirs.append(distance(algorithm_1(X, r, lam, sigma2, 1.0, 0.1, rng)[0], basis))
        top = svd(X.T @ X / n, r)
        noisy = top @ top.T + symmetric(p, classical(deltas(n, p, r, lam, sigma2)[0], 0.5, 0.05), rng)
        twin.append(distance(np.linalg.eigh(noisy)[1][:, -r:], basis))
    assert apart(ours, theirs) < 4
    assert apart(ours, twin) > 4


def test_nothing_is_made_positive_in_silence():
    X, _ = rows_of(60, 12, 2, 8.0, 2.0, 0)
    published = [fit(X, Spiked(8.0, 2.0, rank=2, constants="published"), "noisy", None, s) for s in range(10)]
    assert min(release.eigenvalues[-1] for release in published) < 0
    assert min(np.linalg.eigvalsh(release.covariance)[0] for release in published) < 0
    assert all("may be negative" in release.guarantee.notes[0] for release in published)
    sharp = [fit(X, Spiked(8.0, 2.0, rank=2), "noisy", None, s) for s in range(10)]
    assert min(np.linalg.eigvalsh(release.covariance)[0] for release in sharp) > -1e-9


@pytest.mark.parametrize(("p", "n"), [(20, 3000), (30, 20), (7, 9), (40, 40)])
def test_the_bulk_estimate_is_the_printed_one(p, n):
    X, _ = rows_of(n, p, 2, 30.0, 1.5, p)
    values = np.linalg.eigvalsh(X.T @ X / n)[::-1]
    assert printed_bulk_variance(values, p, n) == pytest.approx(sigma_hat(values, p, n), rel=2e-3)
    if p == 20:
        assert printed_bulk_variance(values, p, n) == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_section_5_3(setting):
    """σ̃², directions and covariance; Δ₃ is computed with a σ² that is assumed."""
    n, p, r, lam, sigma2, epsilon, delta = SETTINGS[setting]
    assumed, rng, ours, theirs, twin = 1.5 * sigma2, np.random.default_rng(3), [], [], []
    for seed in range(RUNS):
        X, basis = rows_of(n, p, r, lam, sigma2, seed)
        truth = lam * basis @ basis.T + sigma2 * np.eye(p)
        for found, scale in ((theirs, 1.0), (twin, 1.5)):
            s2, U, covariance = section_5_3(X, r, lam, assumed, epsilon / scale, delta, rng)
            found.append((s2, distance(U, basis), np.linalg.norm(covariance - truth)))
        release = fit(X, Spiked(lam, constants="published", assumed=(lam, assumed)), setting, r, seed)
        s2 = release.facts["details"]["noise_variance"]
        ours.append((s2, distance(release.components.T, basis), np.linalg.norm(release.covariance - truth)))
    ours, theirs, twin = np.array(ours), np.array(theirs), np.array(twin)
    for column in range(3):
        assert apart(ours[:, column], theirs[:, column]) < 4
    assert apart(np.abs(ours[:, 0] - theirs[:, 0].mean()), np.abs(theirs[:, 0] - theirs[:, 0].mean())) < 4
    assert max(apart(ours[:, column], twin[:, column]) for column in (1, 2)) > 4
    spent = release.guarantee
    mu = epsilon / 3 / math.sqrt(2 * math.log(1.25 / (delta / 3)))
    assert spent.epsilon == pytest.approx(max(gaussian_epsilon(delta, math.sqrt(3) * mu), 1e-9), rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_sections_7_1_and_7_2(setting):
    """The private rank and λ from one release of eigenvalues."""
    n, p, r, lam, sigma2, epsilon, delta = SETTINGS[setting]
    R, rng, ours, theirs, twin = 5, np.random.default_rng(4), [], [], []
    method = Spiked("private", sigma2, rank="private", constants="published", assumed=(lam, sigma2), largest_rank=R)
    for seed in range(2 * RUNS):
        X, _ = rows_of(n, p, r, lam, sigma2, seed)
        theirs.append(section_7(X, R, (lam, sigma2), epsilon, delta, rng))
        twin.append(section_7(X, R, (lam, sigma2), epsilon / 3, delta, rng))
        details = fit(X, method, setting, None, seed).facts["details"]
        ours.append((details["rank"], details["signal"]))
    ours, theirs, twin = np.array(ours), np.array(theirs), np.array(twin)
    for column in (0, 1):
        assert apart(ours[:, column], theirs[:, column]) < 4
    spread = [np.abs(found[:, 1] - theirs[:, 1].mean()) for found in (ours, theirs, twin)]
    assert apart(spread[0], spread[1]) < 4 < apart(spread[0], spread[2])


@pytest.mark.parametrize("setting", SETTINGS)
def test_dp_gauss_and_its_scaled_version(setting):
    n, p, r, lam, sigma2, epsilon, delta = SETTINGS[setting]
    radius = dp_gauss_radius(n, p, r, lam, sigma2)
    assert radius**2 == pytest.approx((r + 4 * math.log(n)) * lam + p * sigma2)
    rng, found = np.random.default_rng(5), {"ours": [], "theirs": [], "twin": [], "ours*": [], "theirs*": []}
    for seed in range(RUNS):
        X, basis = rows_of(n, p, r, lam, sigma2, seed)
        longest = float((X**2).sum(axis=1).max())
        found["theirs"].append(distance(dp_gauss(X, r, radius**2, epsilon, delta, rng), basis))
        found["theirs*"].append(distance(dp_gauss(X, r, longest, epsilon, delta, rng), basis))
        found["twin"].append(distance(dp_gauss(X, r, 1.5 * radius**2, epsilon, delta, rng), basis))
        private = fit(X, Gaussian(constants="published"), setting, r, seed, bound=radius)
        found["ours"].append(distance(private.components.T, basis))
        found["ours*"].append(distance(fit(X, DataScaledGaussian(), setting, r, seed).components.T, basis))
    assert apart(found["ours"], found["theirs"]) < 4
    assert apart(found["ours*"], found["theirs*"]) < 4
    assert apart(found["ours"], found["twin"]) > 4 or setting == "noisy"


# --- DP-Oja -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "C", "step"), [(1000, 0.05, 0.5), (600, 0.02, 2.0)])
def test_dp_oja(n, C, step):
    p, lam, rng, ours, theirs, twin = 8, 20.0, np.random.default_rng(6), [], [], []
    for seed in range(50):
        X, basis = rows_of(n, p, 1, lam, 1.0, seed)
        theirs.append(distance(dp_oja(X, lam, 1.0, C, step, 4.0, 0.1, rng), basis))
        twin.append(distance(dp_oja(X, lam, 1.0, 3 * C, step, 4.0, 0.1, rng), basis))
        release = fit(X, OjaPrinted(lam, factor=C, step=step), "clear", 1, seed, epsilon=4.0, delta=0.1)
        ours.append(distance(release.components.T, basis))
    assert apart(ours, theirs) < 4
    assert apart(ours, twin) > 4


def test_the_guarantee_of_dp_oja_is_what_its_noise_gives():
    """At ε = 1 the printed α, of order ln(n/δ)/√n, is far too small; in the range of its proof it is generous."""
    X, _ = rows_of(1000, 8, 1, 20.0, 1.0, 0)
    release = fit(X, OjaPrinted(20.0), "clear", 1, 0, epsilon=1.0, delta=1e-3)
    mu = 1 / release.facts["details"]["alpha"]
    assert mu == pytest.approx(math.sqrt(1000) / math.log(1000 / 1e-3))
    assert 5 < release.guarantee.epsilon <= gaussian_epsilon(1e-3, mu) * 1.001
    assert release.guarantee.basis == "worst-case"
    small = fit(X, OjaPrinted(20.0), "clear", 1, 0, epsilon=0.05, delta=1e-3)
    assert small.guarantee.epsilon < 0.05


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"k": 2}, "'n_components' parameter of PrivatePCA must be 1"),
        ({"bound": 1.0}, "'bound' parameter of PrivatePCA must be None"),
        ({"center": "private"}, "'center' parameter of PrivatePCA must be public"),
        ({"relation": "add_remove"}, "'relation' parameter of PrivatePCA must be 'replace'"),
        ({"factor": 0.0}, "'factor' parameter of OjaPrinted"),
    ],
)
def test_dp_oja_refuses(options, match):
    method = OjaPrinted(20.0, factor=options.pop("factor", 0.2))
    with pytest.raises(ValueError, match=match):
        fit(np.zeros((100, 8)), method, "clear", options.pop("k", 1), 0, **options)


# --- what is not proven -----------------------------------------------------------------------------------------------


def test_rows_that_are_not_gaussian_move_the_projector_further():
    """A mixture of two scales with the covariance of the model: sub-Gaussian, and beyond the sharp Δ₁.

    Gaussian rows of the same covariance stay below it.
    """
    n, p, lam = 4000, 20, 10.0
    rng, share, factor = np.random.default_rng(8), 0.005, 60.0
    rest = (1 - share * factor) / (1 - share)  # E[scale] = 1

    def draw(count, mixed):
        scale = np.where(rng.uniform(size=count) < share, factor, rest) if mixed else np.ones(count)
        raw = rng.normal(size=(count, p)) * np.sqrt(np.r_[lam + 1, np.ones(p - 1)])
        return raw * np.sqrt(scale)[:, None]

    first, _ = sharp_sensitivities(n, p, 1, lam, 1.0)
    moved = {}
    for mixed in (True, False):
        X, fresh = draw(n, mixed), draw(1, mixed)[0]
        gram = X.T @ X
        tops = [svd(gram - np.outer(x, x) + np.outer(fresh, fresh), 1) for x in X[np.argsort(-(X**2).sum(axis=1))[:40]]]
        moved[mixed] = max(distance(svd(gram, 1), top) for top in tops)
    assert moved[False] < first < moved[True] / 1.5


def test_the_class_of_section_5_2_is_empty():
    """E exp(Z²) ≥ exp(E Z²) = e > 2 for every Z = ⟨X, u⟩/√(uᵀΣu), by Jensen; with Z = ±1 it is e."""
    assert math.exp(1.0) > 2
    for sample in (
        np.array([-1.0, 1.0]),
        np.random.default_rng(0).normal(size=10**5),
        np.linspace(-1.732, 1.732, 1001),
    ):
        z = sample / math.sqrt(np.mean(sample**2))
        with np.errstate(over="ignore"):
            assert np.mean(np.exp(z**2)) >= math.e - 1e-9


def test_rates_of_section_5():
    facts = {"n": 5000, "p": 50, "rank": 3, "signal": 10.0, "noise_variance": 1.0, "epsilon": 1.0, "delta": 1e-5}
    plain, sub = cai.subspace_upper_rate(**facts), cai.sub_gaussian_subspace_rate(**facts)
    ratio = (0.1 + math.sqrt(0.1)) * math.sqrt(3)
    assert sub - plain == pytest.approx(ratio * (math.sqrt(50 * math.log(50) / 5000) - math.sqrt(0.01)))
    assert cai.sub_gaussian_covariance_rate(**facts) > cai.covariance_upper_rate(**facts)
    more = {**facts, "delta": 1e-5 * 4 / 2.5}  # Theorem 5.4 has ln(4/δ) where 3.2 has ln(2.5/δ)
    assert cai.unknown_noise_subspace_rate(**more) == pytest.approx(plain)
    assert cai.unknown_noise_covariance_rate(**facts) > 0
    assert cai.dp_gauss_rate(**facts) == pytest.approx(80 * 1.1 * math.sqrt(150) / 5000 * math.sqrt(math.log(1e5)))
    assert cai.oja_rate(5000, 50, 10.0, 1.0, 1.0, 1e-5) < cai.oja_rate(5000, 50, 1.0, 1.0, 1.0, 1e-5)


def test_condition_12_gets_harder_with_less_privacy_budget_not_easier():
    facts = {"n": 500, "p": 400, "rank": 3, "signal": 10.0, "noise_variance": 1.0, "delta": 1e-5}
    first, second = cai.nuisance_conditions(**facts, epsilon=0.1)
    assert second > cai.nuisance_conditions(**facts, epsilon=1.0)[1]
    assert cai.nuisance_conditions(**facts, epsilon=0.1, printed=True)[1] < second
    assert first > cai.nuisance_conditions(**facts, epsilon=1.0)[0]
    assert cai.rank_condition(10**4, 50, 10, 1.0, 1e-5) < cai.rank_condition(10**4, 50, 10, 1.0, 1e-5, printed=True)
    assert cai.largest_delta_of_lower_bounds(1000, 50, 3, 1.0) < 1e-100
    with pytest.raises(ValueError, match="'delta' parameter of cai"):
        cai.oja_rate(5000, 50, 10.0, 1.0, 1.0, 0.0)
