"""Algorithms 3 to 5 of Liu, Kong, Jain, Oh 2022 as printed, against a transcription that shares no code."""

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.curator import DataCurator
from dpeigen.methods import DPPCA
from dpeigen.methods.one_pass.printed import PrintedShares, ask_printed_mean, real_epsilon_of_mean
from dpeigen.privacy import Budget, Relation, Spend, compose_delta
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
SETTINGS = [(2, 8.0, 1.0, 1.0, 6.0), (3, 6.0, 1.2, 0.8, 4.0)]  # d, ε, K, a, C₁
DELTA, ZETA, ROWS, RUNS = 1e-5, 0.05, 6000, 60


def histogram(labels, epsilon, delta, rng):
    """Lemma B.1 by Karwa and Vadhan 2018: Laplace noise on occupied bins, small ones are not shown."""
    names, counts = np.unique(labels, return_counts=True)
    noisy = counts + rng.laplace(scale=2 / epsilon, size=len(counts))
    shown = noisy >= 1 + 2 * math.log(2 / delta) / epsilon
    return names[shown][np.argmax(noisy[shown])] if shown.any() else None


def algorithm_4(g, epsilon, delta, zeta, C1, rng):
    differences = g[1::2] - g[0::2]
    k = math.ceil(C1 * math.log(1 / (delta * zeta)) / epsilon)
    b = len(g) // 2 // k
    tops = [np.linalg.eigvalsh(G.T @ G / b)[-1] for G in differences[: b * k].reshape(k, b, -1)]
    label = histogram(np.floor(4 * np.log2(tops)), epsilon, delta, rng)
    return None if label is None else 2 ** (label / 4)


def algorithm_5(g, epsilon, delta, zeta, Lambda, K, a, rng):
    B, d = g.shape
    tau = 2**0.25 * K * math.sqrt(Lambda) * math.log(25) ** a
    bar = np.zeros(d)
    for j in range(d):
        each = epsilon / (4 * math.sqrt(2 * d * math.log(4 / delta)))
        found = histogram(np.floor(g[:, j] / tau), each, delta / (4 * d), rng)
        bar[j] = 0.0 if found is None else found * tau
    reach = 3 * K * math.sqrt(Lambda) * math.log(B * d / zeta) ** a
    cut = np.clip(g, bar - reach, bar + reach)
    sigma = 12 * K * math.sqrt(Lambda) * math.log(B * d / zeta) ** a * math.sqrt(2 * d * math.log(2.5 / delta))
    return cut.mean(axis=0) + rng.normal(scale=sigma / (epsilon * B), size=d)


def both(d, epsilon, K, a, C1, seed, fault):
    """(Λ̂, mean) of the library and of the transcription on the same rows."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(ROWS, d)) * np.array([3.0, 1.0, 0.5][:d]) + [40.0, -1.0, 0.3][:d]
    budget = Budget(epsilon, DELTA)
    method = DPPCA(
        constants="published", gap=1.0, batch=ROWS, **({"K": K, "a": a, "zeta": ZETA, "groups_constant": C1} | fault)
    )
    curator = DataCurator(ArraySource(g), Relation.REPLACE, {}, budget, randomness(seed))
    found, scale = ask_printed_mean(method, curator, Frame(d), ROWS, budget)
    half = ROWS // 2
    Lambda = algorithm_4(g[:half], epsilon, DELTA, ZETA, C1, rng)
    theirs = None if Lambda is None else algorithm_5(g[half:], epsilon, DELTA, ZETA, Lambda, K, a, rng)
    return (scale, None if found is None else found.mean), (Lambda, theirs)


def furthest(setting, fault=()):
    """Standard errors between the two: of ⊥, of ln Λ̂, and of each coordinate of the mean and of its spread."""
    ours, theirs = zip(*(both(*setting, seed, dict(fault)) for seed in range(RUNS)), strict=True)
    empty = [np.mean([scale is None for scale, _ in side]) for side in (ours, theirs)]
    found = [abs(empty[0] - empty[1]) / math.sqrt(0.5 / RUNS)]
    logs = [np.log([scale for scale, _ in side if scale]) for side in (ours, theirs)]
    means = [np.array([mean for _, mean in side if mean is not None]) for side in (ours, theirs)]
    for a, b in ((logs[0][:, None], logs[1][:, None]), (means[0], means[1])):
        error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b)) + 1e-9
        found.append(float((np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max()))
    spread = np.log(means[0].var(axis=0) / means[1].var(axis=0)) / math.sqrt(2 / len(means[0]) + 2 / len(means[1]))
    return max(*found, float(np.abs(spread).max()))


@pytest.mark.parametrize("setting", SETTINGS)
def test_agrees_with_the_transcription(setting):
    """Ten comparisons within 6 standard errors: a false alarm has probability below 1e-7."""
    assert furthest(setting) < 6


@pytest.mark.parametrize("fault", [{"K": 2.5}, {"a": 1.5}, {"zeta": 1e-12}])
def test_another_constant_is_seen(fault):
    assert furthest(SETTINGS[0], fault) > 6


LOOPS = [(2, 8.0, 2.0, 0.0, 3.0), (3, 6.0, 1.0, 3.0, 2.0)]  # d, ε, h, ξ, λ₁ − λ₂
LOOP_BATCH, LOOP_STEPS, LOOP_RUNS = 6000, 8, 40
LOOP_K, LOOP_A, LOOP_C1 = 0.25, 0.5, 24.0  # so many groups that thresholds, which the paper leaves open, do not matter


def algorithm_3(X, epsilon, h, xi, gap, rng):
    """w₀ uniform; T batches of B rows; w ← w + η_t·ĝ, normalised, ĝ by Algorithms 4 and 5 on the halves of a batch."""
    w = rng.normal(size=X.shape[1])
    w /= np.linalg.norm(w)
    for t, rows in enumerate(X.reshape(LOOP_STEPS, LOOP_BATCH, -1), start=1):
        g = rows * (rows @ w)[:, None]  # A_i·w with A_i = x_i·x_iᵀ
        first, second = g[: LOOP_BATCH // 2], g[LOOP_BATCH // 2 :]
        Lambda = algorithm_4(first, epsilon, DELTA, ZETA, LOOP_C1, rng)
        if Lambda is not None:
            w = w + h / (gap * (xi + t)) * algorithm_5(second, epsilon, DELTA, ZETA, Lambda, LOOP_K, LOOP_A, rng)
            w /= np.linalg.norm(w)
    return w


def loops(d, epsilon, h, xi, gap, fault):
    """Squared sines of the angle to the first direction: the library's, the transcription's."""
    ours, theirs, rng = [], [], np.random.default_rng(17)
    options = {"h": h, "xi": xi, "gap": gap, "K": LOOP_K, "a": LOOP_A, "zeta": ZETA, "groups_constant": LOOP_C1} | fault
    method = DPPCA(constants="published", batch=LOOP_BATCH, **options)
    for seed in range(LOOP_RUNS):
        data = np.random.default_rng([seed, d])
        X = data.normal(size=((LOOP_STEPS + 1) * LOOP_BATCH, d)) * np.r_[2.0, np.ones(d - 1)]
        pca = PrivatePCA(1, epsilon=epsilon, delta=DELTA, method=method, center=None, random_state=seed).fit(X)
        details = pca.release_.facts["details"]
        assert details["steps"][0] + details["skipped"] == LOOP_STEPS
        ours.append(1 - pca.components_[0, 0] ** 2)
        theirs.append(1 - algorithm_3(X[: LOOP_STEPS * LOOP_BATCH], epsilon, h, xi, gap, rng)[0] ** 2)
    return np.array(ours), np.array(theirs)


def apart(setting, fault=()):
    """Standard errors between the mean squared sines."""
    ours, theirs = loops(*setting, dict(fault))
    return abs(ours.mean() - theirs.mean()) / math.sqrt((ours.var() + theirs.var()) / LOOP_RUNS)


@pytest.mark.parametrize("setting", LOOPS)
def test_the_loop_agrees_with_the_transcription(setting):
    """Within 6 standard errors: a false alarm has probability below 1e-8."""
    assert apart(setting) < 6


def test_another_learning_rate_is_seen():
    assert apart(LOOPS[0], {"h": 0.6, "xi": 60.0}) > 6


@pytest.mark.parametrize("epsilon", [0.1, 0.9, 1.0, 4.0, 16.0])
def test_the_second_half_is_within_the_budget_for_every_epsilon(epsilon):
    budget = Budget(epsilon, 1e-6)
    spends = [Spend(purpose.value, "", cost) for purpose, cost in PrintedShares.of(budget, 30).costs.items()]
    assert compose_delta(spends, epsilon) <= 1e-6
    assert real_epsilon_of_mean(budget, 30) < 0.6 * epsilon


def test_a_direction_is_found_where_batches_are_large():
    X = np.random.default_rng(0).normal(size=(95_000, 3)) * [4.0, 1.0, 1.0]
    method = DPPCA(constants="published", gap=15.0, batch=10_000, h=3.0, groups_constant=10.0)
    pca = PrivatePCA(1, epsilon=16.0, delta=1e-5, method=method, center=None, random_state=2).fit(X)
    details = pca.release_.facts["details"]
    assert details["steps"][0] + details["skipped"] == 8
    assert abs(pca.components_[0, 0]) > 0.95
    assert pca.guarantee_.epsilon == 16.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"gap": None}, "'gap' parameter of DPPCA"),
        ({"batch": None}, "'batch' parameter of DPPCA"),
        ({"box": True}, "'box' parameter"),
        ({"zeta": 2.0}, "'zeta' parameter"),
        ({"K": 0.0}, "'K' parameter"),
        ({"constants": "other"}, "'constants' parameter"),
    ],
)
def test_refusals(options, match):
    given = {"constants": "published", "gap": 1.0, "batch": 5000} | options
    with pytest.raises(ValueError, match=match):
        PrivatePCA(1, epsilon=4.0, delta=1e-6, method=DPPCA(**given), center=None).fit(np.zeros((50_000, 3)))


def test_one_component_only():
    method = DPPCA(constants="published", gap=1.0, batch=5000)
    with pytest.raises(ValueError, match="'n_components' parameter"):
        PrivatePCA(2, epsilon=4.0, delta=1e-6, method=method, center=None).fit(np.zeros((50_000, 3)))
