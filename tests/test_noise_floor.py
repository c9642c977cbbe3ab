"""A floor for each component: one rule for `resolved`, tables, plots, JSON and the number of components."""

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, load_release
from dpeigen.cli._show import as_json, components_table, console
from dpeigen.sources import ArraySource
from dpeigen.stats.intervals import Spectrum, gaussian_errors

NOISE = "not distinguishable from noise"
METHODS = {
    "auto": {},
    "scaled": {"scale": "private"},
    "gaussian": {"method": "gaussian", "bound": 12.0},
    "matrix-laplace": {"method": "matrix-laplace", "bound": 12.0, "delta": 0.0},
    "laplace": {"method": "laplace", "bound": 12.0, "delta": 0.0},
    "refined": {"method": "refined"},
    "kendall": {"method": "kendall"},
    "spatial-sign": {"method": "spatial-sign"},
    "eigenvector-sampling": {"method": "eigenvector-sampling", "bound": 12.0, "delta": 0.0},
    "robust": {"robust": True},
}


def rows(n=3000, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 6)) * [3, 2, 1.4, 1, 1, 0.9]


def released(k=6, epsilon=2.0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing but noise is to be expected
        return PrivatePCA(k, **{"epsilon": epsilon, "delta": 1e-6, "random_state": 0, **options}).fit(rows()).release_


def one_after_another(spectrum, level, most):
    """The rule in words: compare the largest with what equal ones show, then the second, up to one that is not above.

    Every draw is used, where `Spectrum` takes few of them if that is enough.
    """
    for j in range(min(most, len(spectrum.values) - 1)):
        left = np.eye(len(spectrum.values) - j) * max(spectrum.values[j:].mean(), 0.0)
        largest = np.linalg.eigvalsh(spectrum.errors[:, j:, j:] + left)[:, -1]
        if spectrum.values[j] <= np.quantile(largest, level, method="weibull"):
            return j
    return min(most, len(spectrum.values))


@pytest.mark.parametrize("seed", range(12))
def test_floors_are_the_rule_of_resolved(seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    truth = np.diag(np.sort(rng.exponential(size=6))[::-1])
    errors = gaussian_errors(6, 161, 10 ** rng.uniform(-2, 0), rng)
    spectrum = Spectrum.of(truth + errors[0], errors[1:])
    floors, clear = spectrum.floors(0.98, 6), one_after_another(spectrum, 0.98, 6)
    assert spectrum.resolved(0.98, 6) == clear
    np.testing.assert_array_equal(spectrum.values > floors, np.arange(6) < clear)
    assert len(set(floors[clear:])) <= 1  # what is left is compared with one number
    np.testing.assert_array_equal(spectrum.floors(0.98, 3), np.minimum(floors[:3], math.inf))


def test_the_last_of_all_has_no_floor():
    errors = gaussian_errors(3, 60, 0.01, np.random.Generator(np.random.PCG64(0)))
    floors = Spectrum.of(np.diag([9.0, 4.0, 1.0]), errors).floors(0.98, 3)
    assert np.isfinite(floors[:2]).all()
    assert floors[2] == -math.inf
    assert np.isfinite(Spectrum.of(np.diag([9.0, 4.0, 1.0]), errors).floors(0.98, 2)).all()
    assert Spectrum.of(np.eye(1), errors[:, :1, :1]).floors(0.98, 1).tolist() == [-math.inf]


@pytest.mark.parametrize("epsilon", [0.4, 2.0, 30.0])
@pytest.mark.parametrize("method", METHODS)
def test_a_component_is_resolved_exactly_if_it_lies_above_its_floor(method, epsilon):
    release = released(epsilon=epsilon, **METHODS[method])
    above = release.measured_variances > release.noise_floors
    assert above.tolist() == [release.is_resolved(i) for i in range(6)]
    assert above.sum() == release.resolved == release.intervals(of="table").resolved
    assert (np.diff(release.measured_variances) <= 0).all()
    np.testing.assert_array_equal(release.intervals(0.5).noise_floors, release.noise_floors)


def test_floors_do_not_depend_on_how_many_components_were_asked_for():
    whole = released(6)
    for k in (1, 3):
        few = replace(whole, components=whole.components[:k], eigenvalues=whole.eigenvalues[:k])
        np.testing.assert_array_equal(few.noise_floors, whole.noise_floors[:k])
        np.testing.assert_array_equal(few.measured_variances, whole.measured_variances[:k])


def test_a_private_number_of_components_is_that_of_variances_above_their_floors():
    for epsilon, seed in ((0.4, 0), (2.0, 1), (30.0, 2)):
        pca = PrivatePCA("private", epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows())
        release = pca.release_
        covariance = PrivateCovariance(epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows()).release_
        assert covariance.noise_floors is not None
        above = release.measured_variances > release.noise_floors
        assert len(above) == max(1, int(above.sum()))


def test_floors_of_pure_noise_are_exceeded_in_one_of_twenty_releases_at_most():
    """At most 3 of 40 where 2% are expected: 0.8% false alarms; a floor at the median would show 20."""
    shown = 0
    for seed in range(40):
        table = np.random.default_rng(100 + seed).normal(size=(2000, 5))
        release = PrivatePCA(2, epsilon=1.0, delta=1e-6, random_state=seed).fit(table).release_
        shown += release.measured_variances[0] > release.noise_floors[0]
    assert shown <= 3


def test_unknown_columns_leave_components_without_a_floor():
    table = np.column_stack([rows(), np.ones(3000)])
    release = PrivatePCA(7, epsilon=2.0, delta=1e-6, scale="private", random_state=0).fit(table).release_
    assert release.noise_floors[-1] == math.inf
    assert math.isnan(release.measured_variances[-1])
    assert release.resolved < 7
    said = as_json(release, "out")
    assert (said["noise_floors"][-1], said["measured_variances"][-1]) == (None, None)


def test_they_are_the_same_after_saving(tmp_path):
    release = released(3)
    again = load_release(release.save(tmp_path / "out"))
    np.testing.assert_array_equal(again.noise_floors, release.noise_floors)
    np.testing.assert_array_equal(again.measured_variances, release.measured_variances)


def test_a_release_without_what_was_measured_has_none():
    release = replace(released(3), measured=None)
    assert (release.noise_floors, release.measured_variances) == (None, None)
    said = as_json(release, "out")
    assert (said["noise_floors"], said["measured_variances"]) == (None, None)
    assert "noise floor" not in release._repr_html_()


@pytest.mark.parametrize("epsilon", [0.4, 2.0, 30.0])
def test_terminal_notebook_and_json_show_them(epsilon):
    release = released(3, epsilon)
    said = json.loads(json.dumps(as_json(release, "out"), allow_nan=False))
    above = [m > f for m, f in zip(said["measured_variances"], said["noise_floors"], strict=True)]
    assert sum(above) == said["resolved"]
    out = console()
    with out.capture() as shown:
        out.print(components_table(release))
    for text in (shown.get(), release._repr_html_(), release.intervals()._repr_html_()):
        assert "noise floor" in text
        assert text.count("measured ") >= 3
        assert text.count(NOISE) == 3 - sum(above)
        assert "before shrinking" in " ".join(text.split())


def test_a_notebook_prints_no_loadings_of_noise_beyond_100_columns():
    """There intervals take minutes, but what is noise is known all the same."""
    table = np.random.default_rng(0).normal(size=(400, 110))
    source = ArraySource(table, [f"c{j}" for j in range(110)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = PrivatePCA(2, epsilon=1.0, delta=1e-6, random_state=0).fit(source).release_
    assert release.resolved == 0
    assert release.usual_intervals is None
    assert release._repr_html_().count(NOISE) == 2
