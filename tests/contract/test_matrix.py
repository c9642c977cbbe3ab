"""Every method × bound × centre × relation × task × δ: a sane fit within the budget, or a documented refusal.

Each fit's split is priced by an independent accountant, dp-accounting's privacy-loss distributions.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.methods import METHODS, Gaussian, Laplace, MatrixLaplace
from dpeigen.privacy import ConcentratedCost, Cost, GaussianCost, PureCost, Spend, compose, compose_pld

EPSILON, DELTA, N, D, K = 4.0, 1e-6, 800, 3, 2

CHOICES = ["auto", *METHODS, Gaussian(tighten=True), Laplace(tighten=True), MatrixLaplace(tighten=True)]
BOUNDS = {"radius": 5.0, "box": ([-5.0, -4.0, -3.0], 4.0), "private": "private", "none": None}
CENTERS = {"none": None, "public": np.array([0.5, -0.5, 0.0]), "private": "private", "pairs": "pairs"}
RELATIONS = ["replace", "add_remove"]
KINDS = ["pca", "covariance"]
DELTAS = [0.0, DELTA]
MATRIX = list(itertools.product(CHOICES, BOUNDS, CENTERS, RELATIONS, KINDS, DELTAS))

# All that may be left on a fitted object: parameters, public facts, and what was paid for.
ATTRIBUTES = {
    "pca": {"components_", "explained_variance_", "explained_variance_ratio_", "mean_", "noise_variance_",
            "n_components_", "n_features_in_", "guarantee_", "release_", "scale_"},
    "covariance": {"covariance_", "precision_", "correlation_", "scale_", "location_", "n_features_in_",
                   "guarantee_", "release_"},
}  # fmt: skip
FACTS = {
    "method",
    "n_rows",
    "n_rows_is",
    "noise_deviation",
    "covariance_error",
    "radius",
    "radius_is",
    "center",
    "feature_names",
    "details",
    "choice",
    "estimand",
    "dpeigen",
    "date",
}


def name_of(method) -> str:
    return method if isinstance(method, str) else f"{method.name}-tight"


def cell(case) -> str:
    method, *rest = case
    return "-".join([name_of(method), *map(str, rest)])


ONE_PASS = {"dp-pca": 24_000, "oja": 6_000}  # rows: batches are small parts of them


@functools.cache
def rows(n: int = N) -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.normal(size=(n, D)) * [1.5, 1.0, 0.5] + [0.4, -0.6, 0.1]


def one_pass_refusal(name, bound, center, relation, delta, kind) -> str | None:
    """The same for the methods that see each row once."""
    if delta == 0:
        return f"'delta' parameter of .* must be > 0 for method='{name}'"
    if name == "oja" and bound == "none":
        return "'bound' parameter of .* must be given for method='oja'.*bound='private'"
    if relation == "add_remove":
        return "'center' parameter of .* other than 'pairs'|'relation' parameter of .* must be 'replace' for method="
    if kind == "covariance":
        return f"'method' parameter of PrivateCovariance must be other than '{name}'.*method='gaussian'"
    if name == "dp-pca" and bound == "private":
        return "'bound' parameter of .* must be public or None for method='dp-pca'"
    return None


DIFFERENCES = ("kendall", "geodesic")  # methods that see rows in pairs only
UNBOUNDED = ("spatial-sign", "auto", "refined", "whitened", "spiked", *DIFFERENCES)


def documented_refusal(method, bound, center, relation, kind, delta) -> str | None:
    """What cannot be done, as the documentation lists it; the words its error must hold."""
    name = name_of(method)
    if name in ONE_PASS:
        return one_pass_refusal(name, bound, center, relation, delta, kind)
    if name.startswith(("gaussian", "refined", "spiked", "geodesic")) and delta == 0:
        return "'delta' parameter of .* must be > 0 for method='.*'. Got 0.0 instead. Give a delta"
    if bound == "none" and not name.startswith(UNBOUNDED):
        return "'bound' parameter of .* must be given for method=.*bound=R.*bound=\\(lower, upper\\).*bound='private'"
    if center == "pairs" and relation == "add_remove":
        return "'center' parameter of .* must be other than 'pairs' under relation='add_remove'.*center='private'"
    if relation == "add_remove" and name in DIFFERENCES:
        return "'relation' parameter of .* must be 'replace' for method=.*spatial-sign"
    if name == "geodesic" and kind == "covariance":
        return "'n_components' parameter of .* must be below the number of columns for method='geodesic'"
    return documented_refusal_of_spiked(bound, center, relation) if name == "spiked" else None


def documented_refusal_of_spiked(bound, center, relation) -> str | None:
    """Its model has a known mean and rows that are not clipped, and is about replacement."""
    if relation == "add_remove":
        return "'relation' parameter of .* must be 'replace' for method='spiked'"
    if bound != "none":
        return "'bound' parameter of .* must be None for method='spiked'.*method='refined'"
    if center == "private":
        return "'center' parameter of .* must be other than 'private' for method='spiked'.*center='pairs'"
    return None


def make(method, bound, center, relation, kind, delta):
    options = {"epsilon": EPSILON, "delta": delta, "method": method, "bound": BOUNDS[bound], "center": CENTERS[center],
               "relation": relation, "random_state": 11}  # fmt: skip
    return PrivatePCA(K, **options) if kind == "pca" else PrivateCovariance(**options)


@functools.cache
def independent_epsilon(costs: tuple[Cost, ...], delta: float) -> float:
    split = [Spend("a share", "", cost) for cost in costs]
    if not any(isinstance(spend.cost, ConcentratedCost) for spend in split):
        return compose_pld(split, delta)
    # Draws of directions are concentrated: Rényi divergences, ρα each, and the moment bound over the pure steps.
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=1 + np.logspace(-2, 3, 2000))
    for spend in split:
        cost = spend.cost
        if isinstance(cost, ConcentratedCost):
            accountant.compose(dp_accounting.ZCDpEvent(cost.rho))
        elif isinstance(cost, GaussianCost):
            accountant.compose(dp_accounting.GaussianDpEvent(1 / cost.mu))
    pure = math.fsum(spend.cost.epsilon for spend in split if isinstance(spend.cost, PureCost))
    # Basic composition on top of the accountant is an upper bound that the closed form must not be above.
    return min(accountant.get_epsilon(delta) + pure, EPSILON if compose(split, delta) <= EPSILON else math.inf)


@pytest.mark.filterwarnings("ignore:The guarantee of method='spiked' is not worst-case")
@pytest.mark.parametrize("case", MATRIX, ids=cell)
def test_a_fit_or_a_documented_refusal(case):
    method, bound, center, relation, kind, delta = case
    estimator = make(*case)
    before = set(vars(estimator))
    refusal = documented_refusal(method, bound, center, relation, kind, delta)
    if refusal:
        with pytest.raises(ValueError, match=refusal):
            estimator.fit(rows())
        assert not hasattr(estimator, "release_")
        return
    fitted = estimator.fit(rows(ONE_PASS.get(name_of(method), N)))
    check_sane(fitted, method, center)
    check_guarantee(fitted, method, relation, delta)
    assert set(vars(fitted)) - before == ATTRIBUTES[kind]
    assert set(fitted.release_.facts) == FACTS | ({"bounds"} if isinstance(fitted.bound, tuple) else set())


def check_sane(fitted, method, center):
    release = fitted.release_
    k = K if isinstance(fitted, PrivatePCA) else D
    assert release.components.shape == (k, D)
    np.testing.assert_allclose(release.components @ release.components.T, np.eye(k), atol=1e-12)
    assert (np.diff(release.eigenvalues) <= 0).all()
    assert release.eigenvalues[-1] >= 0
    assert np.linalg.eigvalsh(release.covariance).min() >= -1e-12
    # 800 rows at ε = 4 are enough for a rough answer from every method but the entrywise one at its worst.
    truth = np.diag([2.25, 1.0, 0.25])
    relative = release.facts["details"].get("variances") == "relative"
    if relative:
        truth = truth / 3.5
    elif center == "none" and name_of(method) not in DIFFERENCES:
        truth = truth + np.outer([0.4, -0.6, 0.1], [0.4, -0.6, 0.1])
    assert np.linalg.norm(release.covariance - truth) < (0.3 if relative else 2.5)
    assert abs(release.components[0] @ np.linalg.eigh(truth)[1][:, -1]) > 0.6
    if center == "pairs":
        assert release.mean is None
    elif center == "private" and (relative or (name_of(method) in DIFFERENCES and k == K)):
        assert release.mean is None  # not paid for unless asked, or where rows are few
    elif center == "private":
        assert np.linalg.norm(release.mean - [0.4, -0.6, 0.1]) < 0.5
    else:
        np.testing.assert_array_equal(release.mean, np.zeros(D) if CENTERS[center] is None else CENTERS[center])


def check_guarantee(fitted, method, relation, delta):
    guarantee = fitted.guarantee_
    assert guarantee is fitted.release_.guarantee
    assert guarantee.relation.value == relation
    assert guarantee.epsilon <= EPSILON
    assert guarantee.delta <= delta
    assert guarantee.numerics == "seeded"
    assert guarantee.basis == ("distributional" if method == "spiked" else "worst-case")
    assert guarantee.mechanism == name_of(method).removesuffix("-tight") or method == "auto"
    assert len({spend.purpose for spend in guarantee.split}) == len(guarantee.split) > 0
    if guarantee.delta == 0:
        assert all(isinstance(spend.cost, PureCost) for spend in guarantee.split)
        assert math.fsum(spend.cost.epsilon for spend in guarantee.split) <= EPSILON
    assert compose(guarantee.split, guarantee.delta) <= EPSILON * (1 + 1e-9)


def check_by_an_independent_accountant(guarantee):
    # Pessimistic rounding: each pure share is moved up to the next of dp-accounting's grid of 1e-4.
    found = independent_epsilon(tuple(spend.cost for spend in guarantee.split), guarantee.delta)
    assert found <= guarantee.epsilon * (1 + 1e-4)
    # And nothing is wasted: the split is worth what was asked for.
    assert found >= guarantee.epsilon * (1 - 1e-4)


def fitted_guarantees(method):
    for case in MATRIX:
        if name_of(case[0]) == method and documented_refusal(*case) is None:
            yield make(*case).fit(rows(ONE_PASS.get(method, N))).guarantee_


NAMES = list(dict.fromkeys(name_of(case[0]) for case in MATRIX))


@pytest.mark.filterwarnings("ignore:The guarantee of method='spiked' is not worst-case")
@pytest.mark.parametrize("method", NAMES)
def test_an_independent_accountant_agrees_on_a_case_of_each_method(method):
    pytest.importorskip("dp_accounting")
    check_by_an_independent_accountant(next(fitted_guarantees(method)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The guarantee of method='spiked' is not worst-case")
@pytest.mark.parametrize("method", NAMES)
def test_an_independent_accountant_agrees_on_every_case(method):
    """A hundred different splits of some seconds each; the cases of a method share them."""
    pytest.importorskip("dp_accounting")
    for guarantee in fitted_guarantees(method):
        check_by_an_independent_accountant(guarantee)


def test_the_independent_accountant_sees_a_split_that_is_too_dear():
    pytest.importorskip("dp_accounting")
    fitted = make("gaussian", "private", "private", "replace", "pca", DELTA).fit(rows())
    for j, spend in enumerate(fitted.guarantee_.split):
        cost = spend.cost
        dearer = GaussianCost(1.02 * cost.mu) if isinstance(cost, GaussianCost) else PureCost(1.1 * cost.epsilon)
        split = [*fitted.guarantee_.split]
        split[j] = Spend(spend.purpose, spend.mechanism, dearer)
        assert compose_pld(split, DELTA) > EPSILON * (1 + 1e-4)


def test_every_method_reaches_every_kind_of_input_it_claims():
    done = [c for c in MATRIX if documented_refusal(*c) is None]
    once = [c for c in done if name_of(c[0]) in ONE_PASS]
    assert len(MATRIX) == (15 + len(ONE_PASS)) * 4 * 4 * 2 * 2 * 2
    assert len(once) == 2 * 3 * 4  # three bounds, all centres; replacement, δ > 0, components only
    assert len(done) - len(once) == 2 * (
        3 * 4 * 7 * 2  # auto, spatial-sign and whitened: all bounds; pairs only under replacement; both δ
        + 4 * 3 * 7 * 2  # laplace and matrix-laplace, plain and tight: three bounds
        + 2 * 3 * 7 * 2  # eigenvector-sampling and kapralov-talwar: three bounds
        + 2 * 3 * 7  # gaussian, plain and tight: δ > 0
        + 4 * 4 * 2  # kendall: all bounds and centres under replacement; both δ
        + 4 * 7  # refined: all bounds, δ > 0
        + 3  # spiked: no bound, three centres, replacement, δ > 0
    ) + (4 * 4)  # geodesic: components only, δ > 0
