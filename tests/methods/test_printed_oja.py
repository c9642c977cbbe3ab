"""Algorithm 2 of Liu, Kong, Jain, Oh 2022 as printed, against a transcription that shares no code; rates."""

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.methods import Oja
from dpeigen.papers import liu
from dpeigen.privacy import gaussian_epsilon

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
SETTINGS = [  # n, d, ε, C′, β, h, ξ
    (2000, 3, 0.5, 2.0, 40.0, 1.0, 10.0),
    (1500, 4, 0.2, 0.5, 15.0, 2.0, 30.0),
]
DELTA, GAP, RUNS = 1e-5, 8.0, 40


def algorithm_2(X, epsilon, constant, beta, h, xi, rng):
    """w′ = w + η_t(clip_β(A_t w) + 2αβ z_t), normalised; rows in random order, a random start."""
    n, d = X.shape
    alpha = constant * math.log(n / DELTA) / (epsilon * math.sqrt(n))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    steps = rng.permutation(n)[: n - math.ceil(0.1 * n)]  # a tenth pays for variances
    for t, i in enumerate(steps, 1):
        g = X[i] * (X[i] @ w)
        g *= min(1.0, beta / np.linalg.norm(g))
        w = w + h / (GAP * (xi + t)) * (g + 2 * alpha * beta * rng.normal(size=d))
        w /= np.linalg.norm(w)
    return w


def difference(setting, fault=()):
    """Standard errors between the mean squared cosines of the two."""
    n, d, epsilon, constant, beta, h, xi = setting
    ours, theirs = [], []
    options = {"clip": beta, "h": h, "xi": xi, "noise_constant": constant} | dict(fault)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d)) * [3.0, *[1.0] * (d - 1)]
        method = Oja(constants="published", batch=1, gap=GAP, **options)
        pca = PrivatePCA(1, epsilon=epsilon, delta=DELTA, method=method, bound=100.0, center=None, random_state=seed)
        ours.append(pca.fit(X).components_[0, 0] ** 2)
        theirs.append(algorithm_2(X, epsilon, constant, beta, h, xi, rng)[0] ** 2)
    a, b = np.array(ours), np.array(theirs)
    return abs(a.mean() - b.mean()) / math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_agrees_with_the_transcription(setting):
    """Within 5.5 standard errors (4e-8)."""
    assert difference(setting) < 5.5


@pytest.mark.slow
def test_other_noise_is_seen():
    assert difference(SETTINGS[1], {"noise_constant": 4 * SETTINGS[1][3]}) > 5.5


def fitted(epsilon, constant, n=1500):
    X = np.random.default_rng(0).normal(size=(n, 2)) * [3.0, 1.0]
    method = Oja(constants="published", batch=1, gap=GAP, clip=20.0, noise_constant=constant)
    return PrivatePCA(1, epsilon=epsilon, delta=DELTA, method=method, bound=50.0, center=None).fit(X).guarantee_


def test_the_guarantee_says_what_the_printed_noise_gives():
    """C′ = 1 at ε = 4 promises far more than it gives; a large C′ less."""
    alpha = math.log(1500 / DELTA) / (4.0 * math.sqrt(1500))
    weak = fitted(4.0, 1.0).epsilon
    assert weak > 40
    assert weak <= gaussian_epsilon(DELTA, 1 / alpha) * (1 + 1e-9)
    assert fitted(4.0, 100.0).epsilon < 4.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"gap": None}, "'gap' parameter of Oja"),
        ({"clip": None}, "'clip' parameter of Oja"),
        ({"batch": 5}, "'batch' parameter of Oja"),
        ({"block": 100}, "'X' parameter"),
        ({"xi": -1.0}, "'xi' parameter of Oja"),
        ({"noise_constant": 0.0}, "'noise_constant' parameter of Oja"),
    ],
)
def test_refusals(options, match):
    method = Oja(**({"constants": "published", "batch": 1, "gap": 1.0, "clip": 1.0} | options))
    with pytest.raises(ValueError, match=match):
        PrivatePCA(1, epsilon=1.0, delta=DELTA, method=method, bound=1.0, center=None).fit(np.zeros((2000, 2)))


def test_rates_are_the_printed_formulas():
    """By hand, at λ = (4, 1), so κ = 4/3; n = 1000, d = 5, ε = 2, δ = e^−8."""
    facts = (1000, 5, 2.0)
    assert liu.exponential_rate(*facts, 4.0, 1.0) == pytest.approx(4 / 3 * 25 / 2000)
    assert liu.gaussian_rate(*facts, math.exp(-8), 4.0, 1.0) == pytest.approx(4 / 3 * (math.sqrt(0.005) + 13 / 2000))
    spread = liu.Spread(M=2.0, V=3.0, gamma=1.5, a=1.0, K=1.0)
    n, e = math.log(1000), math.log(1000) + 8
    reach = 1.5 * math.log(1000 * 5 / 0.01) + 1
    by_hand = 2 * 4 / 3 * n + (reach * 4 / 3 * 5 / 2) ** (2 / 3) * e * n ** (2 / 3)
    by_hand += 3 * (4 / 3 * n) ** 2 + reach * 4 / 3 * e * n * 5 / 2 + (4 / 3 * n) ** 2
    assert liu.oja_rows(*facts, math.exp(-8), 4.0, 1.0, spread) == pytest.approx(by_hand)
    tails = 1.5 * 4 / 3 * math.log(1000 * 5 / n) * math.sqrt(8) * 5 / 2
    by_hand = 2 * 4 / 3 * n * math.log(5 * n) + math.sqrt(3 * math.log(5 * 48)) * 4 / 3
    by_hand += tails * math.sqrt(math.log(n)) * n + 3 * (4 / 3 * n) ** 2 + tails * n**2
    assert liu.dp_pca_rows(*facts, math.exp(-8), 4.0, 1.0, spread) == pytest.approx(by_hand)
    assert liu.oja_noise(1000, 2.0, math.exp(-8)) == pytest.approx(e / (2 * math.sqrt(1000)))
    assert liu.oja_clip(1000, 5, 4.0, spread) == pytest.approx(
        (1.5 * math.log(2 * 1000 * 5 / 0.01) + 1) * 4 * math.sqrt(5)
    )
    with pytest.raises(ValueError, match="'second' parameter"):
        liu.exponential_rate(*facts, 1.0, 1.0)


def test_with_the_printed_xi_nothing_moves():
    """ξ of (67) is far larger than any number of steps, so η_t stays near 0."""
    spread = liu.gaussian_constants(100_000, 20)
    assert liu.printed_xi(100_000, 20, 1.0, 1e-6, 4.0, 1.0, spread, steps=100, h=2.0) > 1e6
