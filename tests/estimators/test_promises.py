"""What a release says of its radius and of its noise, and what is refused because noise cannot be drawn as promised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.methods import METHODS, Gaussian, Kendall, Refined, SpatialSign
from dpeigen.sources import Source

X = np.random.default_rng(0).normal(size=(3000, 3)).clip(-3, 3)
BOX = ([-3.0] * 3, [3.0] * 3)


class Forbidden(Source):
    """Rows that must not be read, nor counted."""

    n_features = 3

    def blocks(self):
        raise AssertionError("a row was read")


# --- the radius -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "bound", "radius_is"),
    [
        ("gaussian", 5.0, "public"),
        ("gaussian", BOX, "public"),
        ("gaussian", "private", "released"),
        (Gaussian(tighten=True), BOX, "released"),
        ("spatial-sign", 5.0, "public"),
        ("spatial-sign", BOX, "released"),  # "radius for the scores"
        ("spatial-sign", None, "released"),
        ("refined", 5.0, "released"),
        (Refined(only_directions=True), 5.0, "public"),
        ("whitened", 5.0, "released"),
        ("eigenvector-sampling", 5.0, "public"),
        ("eigenvector-sampling", "private", "released"),
        (Kendall(variances="paid"), BOX, "released"),
        (Kendall(transform="winsorized", radius=2.0), 5.0, "public"),
        (Kendall(transform="winsorized", radius="private"), 5.0, "released"),
        ("oja", 5.0, "public"),
        ("oja", "private", "released"),
    ],
)
def test_a_radius_that_was_paid_for_is_not_called_public(method, bound, radius_is):
    options = {"epsilon": 8.0, "delta": 1e-6, "center": None, "random_state": 0}
    release = PrivatePCA(1, method=method, bound=bound, **options).fit(X).release_
    assert release.facts["radius_is"] == radius_is


def test_a_radius_paid_for_with_the_number_of_components_is_not_public():
    options = {"epsilon": 8.0, "delta": 1e-6, "center": None, "random_state": 0, "method": "gaussian"}
    for bound, radius_is in ((5.0, "public"), ("private", "released")):
        assert PrivatePCA("private", bound=bound, **options).fit(X).release_.facts["radius_is"] == radius_is


# --- the smallest delta -----------------------------------------------------------------------------------------------

CONTINUOUS = {"matrix-laplace", "eigenvector-sampling", "kapralov-talwar", "geodesic", "oja"}


@pytest.mark.parametrize("method", sorted(CONTINUOUS))
@pytest.mark.parametrize("k", [1, "private"])
def test_continuous_noise_cannot_keep_a_tiny_delta(method, k):
    for given in (method, METHODS[method]()):
        with pytest.raises(
            ValueError, match=r"'delta' parameter .* at least 1e-18 .*Got 1e-19 .*larger delta.*discrete"
        ):
            PrivatePCA(k, epsilon=1.0, delta=1e-19, method=given, bound=3.0, center=None).fit(Forbidden())
    with pytest.raises((AssertionError, ValueError)) as caught:  # it gets as far as the rows, or another refusal
        PrivatePCA(k, epsilon=1.0, delta=2e-18, method=method, bound=3.0, center=None).fit(Forbidden())
    assert "1e-18" not in str(caught.value)


@pytest.mark.parametrize("method", ["gaussian", "spatial-sign", "refined"])
def test_exact_noise_can(method):
    PrivatePCA(1, epsilon=1.0, delta=1e-19, method=method, bound=5.0, center=None, random_state=0).fit(X)


def test_auto_takes_what_can():
    options = {"epsilon": 1.0, "delta": 1e-19, "random_state": 0}
    for bound in (5.0, BOX):
        covariance = PrivateCovariance(bound=bound, **options).fit(X)
        assert covariance.guarantee_.mechanism not in CONTINUOUS
        assert PrivatePCA(1, bound=bound, **options).fit(X).guarantee_.mechanism not in CONTINUOUS


def test_pure_releases_by_continuous_noise_say_where_it_ends():
    said = {
        method: any(
            "9.155" in note
            for note in PrivatePCA(1, epsilon=1.0, method=method, bound=5.0, center=None).fit(X).guarantee_.notes
        )
        for method in ("matrix-laplace", "eigenvector-sampling", "spatial-sign", "laplace")
    }
    assert said == {"matrix-laplace": True, "eigenvector-sampling": True, "spatial-sign": True, "laplace": False}
    exact = PrivatePCA(1, epsilon=1.0, delta=1e-6, method="gaussian", bound=5.0, center=None).fit(X)
    assert not any("9.155" in note for note in exact.guarantee_.notes)


def test_the_noise_ends_where_it_is_said_to():
    from scipy.special import ndtri

    from dpeigen.privacy.randomness import SystemRandomness

    class Smallest(SystemRandomness):
        @staticmethod
        def _words(size):
            return np.zeros(size, dtype=np.uint64)

    assert abs(float(Smallest().normal(1)[0])) == pytest.approx(9.155, abs=5e-4)
    assert abs(float(ndtri(2.0**-65))) == pytest.approx(9.155, abs=5e-4)


# --- methods of one's own ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnMoment(Gaussian):
    name = "my-gaussian"


@dataclass(frozen=True)
class OwnSigns(SpatialSign):
    name = "my-signs"


@pytest.mark.parametrize(("own", "known"), [(OwnMoment(), "gaussian"), (OwnSigns(), "spatial-sign")])
def test_a_regression_by_a_method_of_ones_own_is_that_of_the_method(own, known, tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=10.0, delta=1e-3)
    options = {"epsilon": 4.0, "delta": 1e-6, "bound": (-3, 3), "target_bounds": (-3, 3), "random_state": 0}
    mine = PrivateRidge(method=own, ledger=ledger, **options).fit(X[:, :2], X[:, 2])
    theirs = PrivateRidge(method=known, **options).fit(X[:, :2], X[:, 2])
    assert mine.guarantee_.mechanism == own.name
    np.testing.assert_array_equal(mine.coef_, theirs.coef_)
    assert [entry["state"] for entry in ledger.history()] == ["committed"]
