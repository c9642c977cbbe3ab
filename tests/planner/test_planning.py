"""Predictions are those of real runs, from public facts alone; the inverse calls agree with them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from dpeigen import PrivateCovariance, PrivatePCA, planner
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Gaussian, Geodesic, Oja, SpatialSign
from dpeigen.planner import tables
from dpeigen.planner.problem import Problem, Simulator
from dpeigen.planner.splits import split_loss
from dpeigen.privacy import Relation, compose_delta, gaussian_epsilon
from dpeigen.privacy.guarantee import Guarantee
from dpeigen.stats.spectrum import relative_frobenius

SPECTRUM = np.array([20.0, 12.0, *np.ones(8)])
BOX = (-3.5 * np.sqrt(SPECTRUM), 3.5 * np.sqrt(SPECTRUM))  # columns are the principal directions
FACTS = {"epsilon": 1.0, "delta": 1e-6, "bound": "private", "center": None, "spectrum": SPECTRUM}


TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(10, 10)))[0]  # columns are no principal directions


def real_errors(method, n, k, runs, tails=None, shrink_noise=1.0, middle=np.mean, **options):
    """sinΘ of fits on rows that are what the plan assumes."""
    assumed, errors = planner.Rows(SPECTRUM, tails), []
    options["epsilon"] *= shrink_noise
    turn = np.eye(10) if isinstance(options.get("bound"), tuple) else TURN  # as plans assume
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in range(runs):
            X = assumed.draw(n, np.random.default_rng([7, run])) @ turn.T
            fitted = PrivatePCA(k, method=method, random_state=run, **options).fit(X)
            errors.append(sin_theta(fitted.components_, turn.T[:k]))
    return float(middle(errors))


CASES = [
    ("gaussian", 8000, {}, None),
    ("gaussian", 1500, {"bound": 14.0}, None),
    ("matrix-laplace", 8000, {"delta": 0.0}, None),
    ("spatial-sign", 8000, {}, 3.0),
    ("spatial-sign", 3000, {"center": "private", "bound": None}, None),
    ("refined", 8000, {"bound": None}, None),
    ("kendall", 3000, {"delta": 0.0, "epsilon": 4.0, "bound": None}, 3.0),
    ("gaussian", 6000, {"center": "pairs"}, None),
    ("gaussian", 3000, {"center": "pairs", "bound": BOX}, 3.0),
    ("gaussian", 3000, {"center": "private", "bound": BOX}, None),
    ("spatial-sign", 3000, {"relation": "add_remove", "center": "private"}, None),
    ("whitened", 5000, {"bound": None, "center": "private"}, 3.0),
    ("geodesic", 4000, {"bound": None}, None),
    ("eigenvector-sampling", 8000, {"epsilon": 4.0, "bound": 16.0}, None),
    ("kapralov-talwar", 8000, {"epsilon": 4.0, "delta": 0.0, "center": "private"}, None),
]


@pytest.mark.parametrize(("method", "n", "facts", "tails"), CASES, ids=str)
def test_predictions_are_those_of_runs(method, n, facts, tails):
    """Within 25%: 24 runs with deviations of about a quarter of the mean know it to 5%, and so does the plan.

    A right prediction leaves that range with probability below 1e-3. The twin, runs with a third of the ε, is outside.
    """
    facts = {**FACTS, **facts}
    predicted = planner.plan(n, 10, 2, methods=[method], tails=tails, **facts)[method].error
    options = {name: value for name, value in facts.items() if name != "spectrum"}
    real = real_errors(method, n, 2, 24, tails, **options)
    assert abs(math.log(predicted / real)) < math.log(1.25)
    noisier = real_errors(method, n, 2, 4, tails, shrink_noise=1 / 3, **options)
    assert abs(math.log(predicted / noisier)) > math.log(1.25)


def test_the_intervals_of_one_pass_hold_the_median_of_runs():
    """Of 7 runs, of which single ones go astray; the twin, at a sixth of the ε, is outside."""
    for method, n, facts in (("oja", 6000, {"epsilon": 4.0}), ("dp-pca", 30_000, {"bound": None, "epsilon": 3.0})):
        facts = {**FACTS, **facts}
        found = planner.plan(n, 10, 2, methods=[method], **facts)[method]
        options = {name: value for name, value in facts.items() if name != "spectrum"}
        assert found.low < real_errors(method, n, 2, 7, middle=np.median, **options) < found.high
        if method == "oja":
            assert real_errors(method, n, 2, 3, middle=np.median, shrink_noise=1 / 6, **options) > found.high


def test_a_plan_is_ordered_deterministic_and_plain():
    first, second = (planner.plan(5000, 10, 2, **FACTS) for _ in range(2))
    assert first == second
    errors = [p.error for p in first.predictions]
    assert errors == sorted(errors)
    assert first.best is first.predictions[0]
    assert all(0 < p.low <= p.error <= p.high <= 1 for p in first.predictions)
    assert first.floor < first.best.error
    assert first[first.best.method] is first.best
    plain = first.to_dict()
    assert plain["facts"]["n_rows"] == 5000
    assert plain["auto"]["method"] == first.choice.method.name
    assert {p["method"] for p in plain["predictions"]} | set(plain["refused"]) >= {"gaussian", "refined", "kendall"}


@pytest.mark.slow
def test_what_auto_would_do_is_predicted_with_its_options():
    box = (-4 * np.sqrt(SPECTRUM).max(), 4 * np.sqrt(SPECTRUM).max())
    for facts in ({}, {"bound": box, "delta": 0.0}, {"epsilon": 0.2, "delta": 0.0, "bound": None}):
        found = planner.plan(3000, 10, 2, **{**FACTS, **facts})
        assert found.chosen.method == found.choice.method.name
        own = planner.plan(3000, 10, 2, **{**FACTS, **facts}, methods=[found.choice.method])
        assert found.chosen == own.best
        assert own.chosen is None
        assert found.to_dict()["auto"]["prediction"]["error"] == found.chosen.error


def test_methods_that_the_facts_do_not_allow_are_named_with_the_reason():
    found = planner.plan(5000, 10, 2, **{**FACTS, "bound": None, "delta": 0.0})
    assert {"gaussian", "refined", "matrix-laplace"} <= set(found.refused)
    assert "delta" in found.refused["refined"]
    assert "bound" in found.refused["matrix-laplace"]
    assert "spiked" not in {p.method for p in found.predictions} | set(found.refused)
    with pytest.raises(ValueError, match="No method can do this"):
        planner.plan(50, 10, 2, **{**FACTS, "epsilon": 0.01}, methods=["gaussian"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 10}, "n_components"),
        ({"n_rows": 1}, "n_rows"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"spectrum": [1.0, 2.0]}, "spectrum"),
        ({"spectrum": "flat"}, "spectrum"),
        ({"spectrum": [1.0] * 9 + [-1.0]}, "eigenvalues"),
        ({"spectrum": None, "tails": -1.0}, "tails"),
        ({"spectrum": None, "contamination": 0.5}, "contamination"),
        ({"metric": "angle"}, "metric"),
        ({"methods": ["spiked"]}, "bound"),
        ({"methods": [Gaussian(constants="published")]}, "methods"),
        ({"bound": -1.0}, "bound"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    facts = {"n_rows": 5000, "n_features": 10, "n_components": 2, **FACTS, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        planner.plan(facts.pop("n_rows"), facts.pop("n_features"), facts.pop("n_components"), **facts)


def test_a_method_that_is_not_worst_case_is_planned_on_request_with_what_it_assumes():
    found = planner.plan(5000, 10, 2, **{**FACTS, "bound": None}, methods=["spiked", "refined"])
    assert any("independent" in text for text in found["spiked"].assumptions)
    assert found["refined"].assumptions == ()
    assert found.to_dict()["predictions"][0]["runs"] >= 5


def test_a_table_that_stands_for_a_larger_one_agrees_with_it(monkeypatch):
    """`geodesic` on 2,000 rows with its noise scaled, against the same on all 8,000.

    Most of the error of 2,000 rows is their sampling error, which is taken off: 100 runs with noise and as many without
    know the rest to 6%, and 60 runs on all rows know theirs to 3%.
    """

    def error(n, runs):
        problem = Problem.of(n, 10, 2, **{**FACTS, "bound": None})
        return float(np.mean(Simulator(problem).errors(Geodesic(), problem.task, runs)))

    whole = error(8000, 60)
    monkeypatch.setattr(tables, "_NUMBERS", 0)
    monkeypatch.setattr(tables, "_FEWEST", 2000)
    monkeypatch.setattr(tables, "_FLOOR_RUNS", 100)
    short = error(8000, 100)
    assert abs(math.log(short / whole)) < math.log(1.25)
    assert abs(math.log(short / error(2000, 13))) > math.log(1.5)  # the twin


def test_more_of_everything_helps():
    def error(method="gaussian", n=5000, **facts):
        return planner.plan(n, 10, 2, methods=[method], **{**FACTS, **facts})[method].error

    assert error(epsilon=0.3) > error() > error(epsilon=3.0) > error(n=50_000, epsilon=3.0)
    assert error(bound=60.0) > error(bound=15.0)
    assert error(spectrum=("spiked", 2.0)) > error(spectrum=("spiked", 20.0))
    assert error(tails=3.0) > error()
    assert error(contamination=0.04) > error()
    assert error("kendall", contamination=0.1, outlier_length=1e3) < 1.5 * error("kendall", contamination=0.1)


def test_an_earlier_release_may_be_assumed():
    X = planner.Rows(SPECTRUM).draw(20_000, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = PrivatePCA(2, epsilon=4.0, delta=1e-6, center=None, random_state=0).fit(X).release_
    facts = {**FACTS, "methods": ["refined"]}
    from_release = planner.plan(5000, 10, 2, **{**facts, "spectrum": release})["refined"].error
    from_matrix = planner.plan(5000, 10, 2, **{**facts, "spectrum": np.diag(SPECTRUM)})["refined"].error
    assert from_matrix == planner.plan(5000, 10, 2, **facts)["refined"].error
    assert abs(math.log(from_release / from_matrix)) < math.log(1.2)


# --- the whole covariance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "facts"),
    [
        ("gaussian", {}),
        ("matrix-laplace", {"bound": 16.0, "delta": 0.0}),
        ("spatial-sign", {"bound": None, "center": "private"}),
        ("whitened", {"bound": None}),
        ("gaussian", {"bound": BOX, "center": "private"}),
    ],
    ids=str,
)
def test_errors_of_covariances_are_those_of_runs(method, facts):
    """As above, for relative Frobenius errors, whose deviations are smaller; the twin has a third of the ε."""
    facts = {**FACTS, **facts}
    predicted = planner.plan(4000, 10, None, methods=[method], **facts)[method].error
    options = {name: value for name, value in facts.items() if name != "spectrum"}

    def real(runs, **changed):
        errors = []
        for run in range(runs):
            turn = np.eye(10) if isinstance(facts["bound"], tuple) else TURN
            X = planner.Rows(SPECTRUM).draw(4000, np.random.default_rng([13, run])) @ turn
            fitted = PrivateCovariance(method=method, random_state=run, **{**options, **changed}).fit(X)
            errors.append(relative_frobenius(fitted.covariance_, turn.T @ np.diag(SPECTRUM) @ turn))
        return float(np.mean(errors))

    assert abs(math.log(predicted / real(10))) < math.log(1.25)
    assert abs(math.log(predicted / real(4, epsilon=1 / 3))) > math.log(1.25)


def test_a_covariance_can_be_planned():
    found = planner.plan(5000, 10, None, **FACTS)
    assert found.metric == "relative_frobenius"
    assert found.facts["n_components"] is None
    assert {"gaussian", "matrix-laplace", "laplace", "spatial-sign", "whitened"} <= {
        p.method for p in found.predictions
    }
    assert "covariance" in found.refused["kendall"]
    assert found.floor < found.best.error
    operator = planner.plan(5000, 10, None, **FACTS, metric="relative_operator", methods=["gaussian"])
    assert 0 < operator.best.error < 1
    epsilon = planner.needed_epsilon(0.1, 5000, 10, None, spectrum=SPECTRUM, delta=1e-6, bound="private")
    assert planner.plan(5000, 10, None, **{**FACTS, "epsilon": epsilon, "center": "private"}).best.error < 0.1
    with pytest.raises(ValueError, match="metric"):
        planner.plan(5000, 10, None, **FACTS, metric="sin_theta")
    with pytest.raises(ValueError, match="tails"):
        planner.plan(5000, 10, None, **{**FACTS, "spectrum": None}, tails=2.0)


# --- the other way round ---------------------------------------------------------------------------------------------


def share_reached(target, n, method, **options):
    """Of 20 runs."""
    assumed, reached = planner.Rows(SPECTRUM), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in range(20):
            X = assumed.draw(n, np.random.default_rng([11, run])) @ TURN
            fitted = PrivatePCA(2, method=method, random_state=run, **options).fit(X)
            reached += sin_theta(fitted.components_, TURN[:2]) <= target
    return reached / 20


def test_the_epsilon_reaches_the_target_and_half_of_it_does_not():
    """19 of 20 runs are expected; fewer than 16 have a probability below 3e-3. The twin is about
    half the ε: for less, 4,000 rows are refused."""
    facts = {"delta": 1e-6, "bound": None, "center": None}
    epsilon = planner.needed_epsilon(0.1, 4000, 10, 2, spectrum=SPECTRUM, method="refined", **facts)
    assert share_reached(0.1, 4000, "refined", epsilon=epsilon, **facts) >= 0.8
    assert share_reached(0.1, 4000, "refined", epsilon=0.55 * epsilon, **facts) < 0.5


def test_the_rows_reach_the_target_and_half_of_them_do_not():
    facts = {"epsilon": 0.5, "delta": 1e-6, "bound": "private", "center": None}
    rows = planner.needed_rows(0.1, 10, 2, spectrum=SPECTRUM, method="gaussian", **facts)
    assert share_reached(0.1, rows, "gaussian", **facts) >= 0.8
    assert share_reached(0.1, rows // 2, "gaussian", **facts) <= 0.6


def test_a_target_that_nothing_reaches_is_said_to_be_one():
    with pytest.raises(planner.OutOfReachError, match="No ε up to 64"):
        planner.needed_epsilon(0.001, 500, 10, 2, spectrum=SPECTRUM, delta=1e-6, bound=None)
    with pytest.raises(ValueError, match="target"):
        planner.needed_epsilon(1.5, 500, 10, 2, delta=1e-6)


# --- splits ----------------------------------------------------------------------------------------------------------


def test_the_best_split_is_no_worse_and_fits():
    method = planner.best_split("spatial-sign", 4000, 10, 2, epsilon=1.0, delta=1e-6, spectrum=SPECTRUM)
    assert isinstance(method, SpatialSign)
    problem = Problem.of(4000, 10, 2, epsilon=1.0, delta=1e-6, spectrum=SPECTRUM)
    default, best = (split_loss(m, problem, Simulator(problem)) for m in (SpatialSign(), method))
    worse = split_loss(SpatialSign(emphasis={"variances": 1e-3}), problem, Simulator(problem))
    assert best <= default < worse
    X = planner.Rows(SPECTRUM).draw(4000, np.random.default_rng(0))
    guarantee = PrivatePCA(2, epsilon=1.0, delta=1e-6, method=method).fit(X).guarantee_
    assert compose_delta(guarantee.split, 1.0) <= 1e-6 * (1 + 1e-9)


@pytest.mark.slow
def test_the_best_split_is_better_in_runs():
    """Squared errors of directions, last variance and centre, summed over 12 paired runs: 40% less is expected here."""
    facts = {"epsilon": 1.0, "delta": 1e-6}
    best = planner.best_split("spatial-sign", 3000, 10, 2, **facts)
    values, losses = planner.spiked(10, 2), np.zeros(2)
    for run in range(12):
        X = planner.Rows(values).draw(3000, np.random.default_rng([17, run]))
        for which, method in enumerate(("spatial-sign", best)):
            fitted = PrivatePCA(2, method=method, random_state=run, **facts).fit(X)
            losses[which] += sin_theta(fitted.components_, np.eye(10)[:2]) ** 2
            losses[which] += (fitted.explained_variance_[1] / values[1] - 1) ** 2
            losses[which] += float(fitted.mean_ @ fitted.mean_) / values.sum()
    assert best.emphasis
    assert losses[1] < 0.9 * losses[0]


def test_what_has_no_shares_has_no_best_split():
    with pytest.raises(ValueError, match="emphasised"):
        planner.best_split("geodesic", 3000, 10, 2, epsilon=1.0, delta=1e-6)


def test_emphasis_moves_the_budget_and_nothing_else():
    task = Problem.of(5000, 10, 2, **FACTS).task
    plain, moved = (Gaussian(emphasis=e).shares(task) for e in ({}, {"radius": 2.0}))
    assert moved["radius"].epsilon == pytest.approx(2 * plain["radius"].epsilon)
    assert moved["second moment"].mu < plain["second moment"].mu
    with pytest.raises(ValueError, match="emphasis"):
        Gaussian(emphasis={"centre": 2.0}).check(task)
    with pytest.raises(ValueError, match="emphasis"):
        Gaussian(emphasis={"radius": 0.0}).check(task)


# --- for people ------------------------------------------------------------------------------------------------------


def test_the_best_attack_on_randomised_response_is_reached():
    """Randomised response is the worst case of ε: guessing what it says is right with e^ε/(1 + e^ε)."""
    for epsilon in (0.1, 1.0, 4.0):
        assert planner.adversary_success(epsilon) == pytest.approx(1 / (1 + math.exp(-epsilon)))
    assert planner.adversary_success(1.0, 0.1) > planner.adversary_success(1.0)
    assert planner.adversary_success(1000.0) == 1.0
    assert planner.adversary_success(0.1, prior=0.01) == pytest.approx(0.99)
    with pytest.raises(ValueError, match="prior"):
        planner.adversary_success(1.0, prior=0.0)


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.7])
def test_no_threshold_on_gaussian_noise_does_better(prior):
    """Tests of N(0, 1) against N(μ, 1), by brute force, against the bound for the (ε, δ) of that noise."""
    mu, delta = 0.8, 1e-4
    epsilon = gaussian_epsilon(delta, mu)
    cuts = np.linspace(-30, 30, 20_001)
    best = (prior * norm.sf(cuts - mu) + (1 - prior) * norm.cdf(cuts)).max()
    assert best <= planner.adversary_success(epsilon, delta, prior=prior)


def test_a_plan_states_the_attack_on_what_is_really_spent():
    found = planner.plan(5000, 10, 2, **FACTS)
    assert found.success == pytest.approx(planner.adversary_success(1.0, 1e-6))
    assert found["gaussian"].success < 0.6 < found["matrix-laplace"].success <= found.success
    spent = Guarantee(1.0, 1e-6, Relation.REPLACE, "m", split=())
    assert spent.best_attack() == pytest.approx(found.success)


def test_plans_of_oja_run_the_method_itself():
    """In all of its settings: batches, pairs, a paid frame, several blocks."""
    facts = {"epsilon": 8.0, "delta": 1e-6}
    for method, bound, center in (
        (Oja(batch=1), 12.0, None),
        (Oja(batch="auto"), 12.0, "pairs"),
        (Oja(block=5000), "private", "private"),
        (Oja(gap=9.0, block=5000), 12.0, None),
        (Oja(batch=1), ([-9.0] * 5, [9.0] * 5), "private"),
    ):
        problem = Problem.of(30_000, 5, 1, bound=bound, center=center, **facts)
        errors = Simulator(problem).errors(method, problem.task, 6)
        assert 0.001 < np.median(errors) < 0.5
        assert len(np.unique(errors)) == 6
