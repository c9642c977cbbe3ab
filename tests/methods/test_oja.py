"""oja: both calibrations against independent bounds, the ball of gradients, steps, order of the stream, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dpeigen import PrivatePCA
from dpeigen.auditing.events import audit
from dpeigen.methods import Oja
from dpeigen.methods.one_pass.oja import _shuffled_mu
from dpeigen.methods.one_pass.oja_steps import OjaStream
from dpeigen.methods.one_pass.schedule import gain
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    GaussianCost,
    Relation,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from dpeigen.questions import Matrix, OjaSteps
from dpeigen.questions.steps import inside
from dpeigen.stats import Frame
from dpeigen.stats.lattice import LEVELS

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")


def spiked(n, d, seed=0):
    scale = np.full(d, 0.5)
    scale[:2] = 4.0, 2.5
    return np.random.default_rng(seed).normal(size=(n, d)) * scale


def fit(X, k=1, method=None, **options):
    options = {"epsilon": 2.0, "delta": 1e-6, "bound": 8.0, "center": None, "random_state": 0, **options}
    return PrivatePCA(k, method=method or Oja(batch=1), **options).fit(X)


def sine(component, axis=0):
    return math.sqrt(max(0.0, 1 - component[axis] ** 2))


# --- calibration --------------------------------------------------------------------------------------------------


def closed_form(mu, n, delta):
    """ε by Theorem 3.8 of Feldman, McMillan, Talwar 2021, with its printed constants, half of δ for each term."""
    best = math.inf
    for power in np.linspace(0.5, 6, 40):
        delta0 = delta / (8 * n**power)
        epsilon0 = gaussian_epsilon(delta0, mu)
        if epsilon0 > math.log(n / (16 * math.log(4 / delta))):
            continue
        e0 = math.exp(epsilon0)
        loss = math.log1p((e0 - 1) / (e0 + 1) * (8 * math.sqrt(e0 * math.log(8 / delta) / n) + 8 * e0 / n))
        if (math.exp(loss) + 1) * (1 + 1 / e0 / 2) * n * delta0 <= delta / 2:
            best = min(best, loss)
    return best


def summed_delta(epsilon, mu, n, delta):
    """The clones' δ(ε), by adding up likelihoods over both counts; no code shared with `privacy.shuffling`."""
    best = 1.0
    for power in (0.5, 0.7, 0.9, 1.2, 1.6):
        delta0 = delta / n**power
        epsilon0 = gaussian_epsilon(delta0, mu)
        rate = math.exp(-epsilon0) * (1 - delta0)
        spread = math.sqrt(n * rate) + 5
        high, low = int(min(n - 1, n * rate + 12 * spread)), int(max(0, n * rate - 12 * spread))
        up, down = math.exp(epsilon0) / (1 + math.exp(epsilon0)), 1 / (1 + math.exp(epsilon0))
        total = float(binom.cdf(low - 1, n - 1, rate) + binom.sf(high, n - 1, rate))
        for c in range(low, high + 1, max(1, (high - low) // 100)):
            reach = int(12 * math.sqrt(c) + 12)  # beyond this there is less than 1e-60
            a = np.arange(max(0, c // 2 - reach), min(c + 1, c // 2 + reach) + 1)
            mass, before = binom.pmf(a, c, 0.5), binom.pmf(a - 1, c, 0.5)
            first, second = up * before + down * mass, down * before + up * mass
            width = min(max(1, (high - low) // 100), high + 1 - c)
            weight = binom.cdf(c + width - 1, n - 1, rate) - binom.cdf(c - 1, n - 1, rate)
            total += weight * float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
        moved = delta0 * (1 + (n - 1) * math.exp(-epsilon0))
        best = min(best, total + (1 + math.exp(epsilon)) * moved)
    return best


@pytest.mark.mostly_slow(fast=2)
@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_shuffled_calibration_against_independent_bounds(n, epsilon):
    delta = 1e-6
    mu = _shuffled_mu(Budget(epsilon, delta), n)
    assert mu > gaussian_mu(epsilon, delta)  # shuffling helps
    # An independent sum for the same noise, on a coarser grid of (ε₀, δ₀) and of counts, meets the same (ε, δ) nearly.
    assert summed_delta(epsilon, 0.97 * mu, n, delta) <= delta
    # The published closed form allows less: its constants are larger. And it never contradicts the sum.
    assert closed_form(mu, n, delta) > epsilon
    low = mu / 20
    if closed_form(low, n, delta) < math.inf:
        assert summed_delta(closed_form(low, n, delta), low, n, delta) <= delta
    # The twin: three tenths more of μ are not covered by the bound.
    assert summed_delta(epsilon, 1.3 * mu, n, delta) > delta


def test_the_better_calibration_is_used():
    method = Oja(batch=1)
    assert method.local(Budget(1.0, 1e-6), 50_000, 1)[1] == "shuffled"
    assert method.local(Budget(1.0, 1e-6), 50_000, 10)[1] == "plain"  # sums of a batch are not local randomisers
    assert method.local(Budget(30.0, 1e-6), 10, 1)[1] == "plain"
    plain, _ = method.local(Budget(1.0, 1e-6), 50_000, 10)
    assert gaussian_delta(1.0, plain) <= 1e-6


# --- steps ----------------------------------------------------------------------------------------------------------


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.lists(st.floats(-1, 1), min_size=6, max_size=6))
def test_gradients_lie_in_the_ball_of_half_the_squared_bound(x, w):
    x, w = np.array(x), np.array(w) + 1e-3
    x, w = x / max(1.0, np.linalg.norm(x)), w / np.linalg.norm(w)
    assert np.linalg.norm(x * (x @ w) - w / 2) <= 0.5 + 1e-12


def steps(method=None, d=2, mu=1.0, radius=1.0, **changes):
    """One step of one row that takes all of its gradient and leaves nothing of w, as `Oja` asks for it."""
    reach = radius**2 / 2
    clip = (method or Oja(batch=1)).clip
    ball = (reach, reach) if clip is None or clip >= reach else (clip, 0.0)
    facts = {"weights": Matrix(np.array([[0.0, 1.0]])), "size": 1, "ball": ball, "mu": mu, **changes}
    return OjaSteps(Frame(d), radius, Matrix(np.eye(d)[:1]), **facts)


def stepped(question, rows, rng, cost=None):
    found = question.statistic().update(rows)
    return question.answer(found, None, cost or GaussianCost(question.mu), Relation.REPLACE, rng)


def test_a_step_without_noise_is_a_step_of_oja(tools):
    for method in (Oja(batch=1), Oja(batch=1, clip=0.2)):
        row = np.array([[0.6, 0.8]])
        gradient = row[0] * 0.6  # x(xᵀw)
        for size in (1, 3):
            found = stepped(steps(method, size=size), np.repeat(row, size, axis=0), tools.Silent())
            np.testing.assert_allclose(found[0], gradient / np.linalg.norm(gradient), atol=5e-3)  # the grid


def test_steps_that_are_worth_more_than_their_cost_are_refused(tools):
    rows = np.zeros((10_000, 2))
    mu = _shuffled_mu(Budget(1.0, 1e-6), 10_000)
    every = Matrix(np.tile([0.5, 0.5], (10_000, 1)))
    for question, cost, refused in (
        (steps(mu=1.0), GaussianCost(1.0), False),
        (steps(mu=1.001), GaussianCost(1.0), True),
        (steps(mu=mu, weights=every), ApproximateCost(1.0, 1e-6), False),
        (steps(mu=1.01 * mu, weights=every), ApproximateCost(1.0, 1e-6), True),
        (steps(mu=mu, size=2), ApproximateCost(1.0, 1e-6), True),  # sums are not local randomisers
        (steps(mu=1.0, weights=Matrix(np.ones((10_001, 2)))), GaussianCost(1.0), True),  # more steps than rows
    ):
        if refused:
            with pytest.raises(AssertionError, match=r"worth more than what pays|in one step"):
                stepped(question, rows, tools.seeded(0), cost)
        else:
            stepped(question, rows, tools.seeded(0), cost)


@pytest.mark.parametrize(
    ("method", "reach"), [(Oja(batch=1), 0.5), (Oja(batch=1, clip=0.1), 0.1), (Oja(batch=1, clip=9.0), 0.5)]
)
def test_steps_stay_in_their_ball_and_noise_is_for_its_diameter(tools, method, reach):
    task = tools.task(np.zeros((10, 5)), epsilon=1.0, delta=1e-6, k=1)
    radius, offset = OjaStream(method, task, np.eye(5)[:1])._ball()
    assert radius == reach
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 5))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    unit = radius / (LEVELS - math.sqrt(5) / 2 - 1)
    for w in rng.normal(size=(3, 5)):
        w /= np.linalg.norm(w)
        for row in rows:
            step = np.rint(((row @ w) * row - offset * w) / unit)
            step = step if step @ step <= LEVELS**2 else inside(step)
            assert step @ step <= LEVELS**2
            assert (step == np.rint(step)).all()


def test_sizes_of_steps_are_those_of_gain(tools):
    """In closed form; the expected error of a random start is held for as many steps as it is said to take."""
    task = tools.task(np.zeros((10, 5)), epsilon=1.0, delta=1e-6, k=2)
    run = OjaStream(Oja(batch=1), task, np.eye(5)[:2])
    run.tops, run.gaps, run.errors, run.held = [3.0, 2.0], [2.0, 0.1], [0.25, 0.2], [3.0, 0.0]
    errors, counts = list(run.errors), [0, 0]
    for block in (7, 40):
        weights = run._weights(block, 2.0)
        for i, (kept, taken) in enumerate(weights):
            j = i % 2
            share, left = gain(errors[j], run.noise[j], run.gaps[j] / run.tops[j])
            size = min(share / run.gaps[j], 1 / run.tops[j])
            assert (kept, taken) == pytest.approx((1 - size * run.tops[j], size), rel=1e-9)
            counts[j] += 1
            if j == 1 or counts[j] > 3:
                errors[j] = left
    assert run.errors == pytest.approx(errors, rel=1e-9)
    assert run.steps == counts == [24, 23]
    assert run.held == [0.0, 0.0]


@pytest.mark.parametrize("bad", [[np.inf, 1.0], [np.nan, 2.0], [1e300, -1e300], [2.0**21, 0.0]])
def test_whatever_it_is_it_is_brought_inside(bad):
    shorter = inside(np.array(bad))
    assert shorter @ shorter <= LEVELS**2
    assert np.isfinite(shorter).all()


def proven_mu(tools, mu, factor=None, runs=1500):
    """What an audit proves about one step, for rows whose gradients are at opposite ends of the ball."""
    up, down = np.array([[1.0, 1.0]]) / math.sqrt(2), np.array([[1.0, -1.0]]) / math.sqrt(2)

    def run(data, count):
        label, row = data
        rng = tools.faulty([label, 1], factor) if factor else tools.seeded([label, 1])
        found = [stepped(steps(mu=mu), row, rng)[0] for _ in range(count)]
        return np.array([math.atan2(w[1], abs(w[0])) for w in found])[:, None]

    return audit(run, (1, up), (2, down), runs=runs, confidence=1 - 1e-6).mu_lower


def test_audit_of_a_step(tools):
    """False alarm below 1e-6; half of the noise is caught."""
    assert 0.5 < proven_mu(tools, 1.0) <= 1.0
    assert proven_mu(tools, 1.0, factor=0.25) > 1.0  # that is, half of the deviation


def shuffled_runs(mu, shuffle, n=1000, seed=0):
    """n reports of one number; an adversary has put the row that differs first, and looks at the first report."""

    def run(row, count):
        rng = np.random.default_rng([seed, int(row) + 1])
        place = rng.integers(n, size=count) if shuffle else np.zeros(count)
        return ((place == 0) * row * mu / 2 + rng.normal(size=count))[:, None]

    return run


def test_an_order_chosen_by_an_adversary_does_not_help_where_rows_are_shuffled():
    """The calibrated noise holds with the shuffle; without it the same audit proves a violation."""
    epsilon, delta = 0.5, 1e-3
    mu = _shuffled_mu(Budget(epsilon, delta), 1000)
    options = {"runs": 200_000, "delta": delta, "confidence": 1 - 1e-6}
    assert audit(shuffled_runs(mu, True), 1.0, -1.0, **options).epsilon_lower <= epsilon
    assert audit(shuffled_runs(mu, False), 1.0, -1.0, **options).epsilon_lower > epsilon


def test_every_block_is_shuffled_and_each_row_used_once(monkeypatch):
    used = []
    honest = OjaSteps.answer

    def spy(self, found, noise, cost, *rest):
        used.append((found.table()[:, -1].copy(), self.mu, cost))
        return honest(self, found, noise, cost, *rest)

    monkeypatch.setattr(OjaSteps, "answer", spy)
    X = spiked(6000, 3)
    X[:, -1] = np.linspace(0.1, 0.2, 6000)  # the place of a row
    pca = PrivatePCA(
        1, method=Oja(batch=1, block=2000), epsilon=2.0, delta=1e-6, bound=30.0, center=None, random_state=0
    )
    for start in range(0, 6000, 500):
        pca.partial_fit(X[start : start + 500])
    details = pca.release_.facts["details"]
    assert len(used) == 2
    for places, mu, cost in used:
        assert len(np.unique(places)) == len(places) == 1800 == details["calibration"]["rows"]
        assert (np.diff(places) < 0).sum() > 800
        assert mu == Oja(batch=1).local(Budget(2.0, 1e-6), 1800, 1)[0]
        assert cost == ApproximateCost(2.0, 1e-6)
    assert used[0][0].max() < used[1][0].min()  # no row is in two blocks
    assert not np.array_equal(np.argsort(used[0][0]), np.argsort(used[1][0]))


# --- results and refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, "auto", 50])
@pytest.mark.parametrize("gap", [None, 9.75])
def test_components_and_variances(batch, gap):
    runs = [fit(spiked(20_000, 4), method=Oja(batch=batch, gap=gap), random_state=seed) for seed in range(3)]
    assert np.median([sine(pca.components_[0]) for pca in runs]) < (0.25 if gap else 0.15)
    pca = runs[1]
    assert 11 < pca.explained_variance_[0] < 18
    assert pca.guarantee_.numerics == "seeded"
    assert pca.release_.facts["details"]["calibration"]["name"] == ("shuffled" if batch == 1 else "plain")


def test_two_components_a_paid_bound_and_a_centre():
    X = spiked(40_000, 4) + 3.0
    pca = fit(X, 2, bound="private", center="private")
    assert sine(pca.components_[0]) < 0.25
    assert sine(pca.components_[1], 1) < 0.3
    np.testing.assert_allclose(pca.mean_, 3.0, atol=0.5)


def test_numerics_are_stated_as_they_are():
    rows = spiked(2000, 3)
    assert fit(rows, random_state=None).guarantee_.numerics == "idealised"
    assert fit(rows, method=Oja(batch="auto"), random_state=None).guarantee_.numerics == "exact"


def test_weak_signals_are_told():
    noise = np.random.default_rng(0).normal(size=(3000, 6))
    assert any("mean little" in note for note in fit(noise, bound=5.0).guarantee_.notes)


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        (Oja(batch=1), {"relation": "add_remove"}, "'relation' parameter"),
        (Oja(batch=1), {"delta": 0.0}, "'delta' parameter"),
        (Oja(batch=1), {"bound": None}, "'bound' parameter .* must be given for method='oja'"),
        (Oja(batch=1), {"epsilon": 0.01}, r"needs at least \d+ rows here.*Oja\(batch='auto'\)"),
        (Oja(batch="all"), {}, "'batch' parameter of Oja"),
        (Oja(batch=10**6), {}, "'batch' parameter of Oja must be ≤"),
        (Oja(batch=1, clip=0.0), {}, "'clip' parameter of Oja"),
        (Oja(batch=1, h=0.1), {}, "'h' parameter of Oja"),
        (Oja(batch=1, block=3), {}, "'block' parameter of Oja"),
    ],
)
def test_refusals(method, options, match):
    with pytest.raises(ValueError, match=match):
        fit(spiked(1000, 3), method=method, **options)
