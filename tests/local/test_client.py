"""The client: what it sends, what it refuses, what it imports."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer
from dpeigen.local.calibrate import CapParameters, gaussian_share
from dpeigen.privacy import Budget, allocate, gaussian_mu, gaussian_sigma
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment

HEAVY = ("scipy", "sklearn", "opendp", "pyarrow", "pandas", "matplotlib", "safetensors")


@pytest.mark.parametrize("mechanism", ["gaussian", "privunit"])
def test_a_device_needs_numpy_only(mechanism):
    """Nothing but NumPy and the standard library can be imported, and a report comes out."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in HEAVY)
    code = (
        f"import sys; {blocked}\n"
        "from dpeigen.local import LocalRandomizer, fetch_parameters, post_reports\n"
        f"client = LocalRandomizer(4, epsilon=1.0, delta=1e-6, mechanism={mechanism!r})\n"
        "print(len(client.report([0.1, 0.2, 0.3, 0.4])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(56 + 40 + 8), done.stderr


def test_the_probe_sees_a_heavy_import():
    code = "import sys; sys.modules['scipy'] = None; import dpeigen.local.server"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.5, 1.0, 2.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-16, 1e-6, 1e-3, 0.1])
def test_the_calibration_without_scipy_is_the_one_with(epsilon, delta):
    ours, theirs = gaussian_share(epsilon, delta, 36), gaussian_mu(epsilon, delta)
    assert theirs * (1 - 2e-6) < ours <= theirs


def test_the_allowance_for_discrete_noise_is_the_library_s():
    """With the entries of 400 columns, beside the share that the central method gets."""
    m = 400 * 401 // 2
    share = allocate(Budget(1.0, 1e-6), main={"a": 1.0}, coordinates=m)["a"].mu
    assert gaussian_share(1.0, 1e-6, m) == pytest.approx(share, rel=2e-6)


@pytest.mark.parametrize(("p", "sensitivity"), [(1, 1.0), (2, math.sqrt(2)), (7, math.sqrt(2))])
def test_the_noise_is_that_of_the_true_sensitivity(p, sensitivity):
    parameters = LocalParameters(p, 1.0, 1e-5, bound=3.0)
    assert parameters.noise == pytest.approx(gaussian_sigma(1.0, 1e-5, sensitivity * 9.0), rel=1e-4)


def test_noise_of_gaussian_reports_in_isometric_coordinates(client):
    """Standard deviations of 4000 reports of the zero row; off by 6% has probability below 1e-6."""
    p, made = 3, client(3, epsilon=1.0, delta=1e-5, bound=2.0)
    server = LocalAggregator(made)
    draws = np.stack([server.read(made.report(np.zeros(p))).steps for _ in range(4000)]) * made.parameters.step
    expected = np.where(np.equal(*np.triu_indices(p)), 1.0, 1 / math.sqrt(2)) * made.parameters.noise
    assert draws.std(axis=0) == pytest.approx(expected, rel=0.06)
    assert np.abs(draws.mean(axis=0)).max() < 6 * made.parameters.noise / math.sqrt(4000)


class Silent(SystemRandomness):
    """No noise: what a report says then is the statistic itself."""

    def discrete_gaussian(self, scale, size):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize(
    ("row", "clipped"),
    [
        ([0.3, -0.4, 0.5], [0.3, -0.4, 0.5]),
        ([30.0, 0.0, 40.0], [4.5, 0.0, 6.0]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        ([1e-300, 1e300, 0.0], [0.0, 7.5, 0.0]),
    ],
)
def test_without_noise_a_report_is_the_clipped_square(row, clipped):
    made = LocalRandomizer(3, epsilon=1.0, delta=1e-6, bound=7.5, random_state=Silent())
    moment = LocalAggregator(made).add_many([made.report(row)]).moment
    assert moment == pytest.approx(np.outer(clipped, clipped), abs=1e-3)


def test_a_site_reports_the_lattice_sum_of_its_rows(rows):
    made = LocalRandomizer(3, epsilon=1.0, delta=1e-6, most_rows=400, random_state=Silent())
    server = LocalAggregator(made).add_many([made.report_rows(rows)])
    exact = SecondMoment(Lattice(Frame(3), 1.0)).update(rows)
    assert server.n_rows == len(rows)
    assert server.moment == pytest.approx(np.asarray(exact) / len(rows), abs=1e-6)


def test_sites_and_rows_go_into_one_aggregate(client, rows):
    made = client(epsilon=20.0, most_rows=249)
    server = LocalAggregator(made)
    server.add_many([made.report_rows(rows[:150]), made.report_rows(rows[150:399]), made.report(rows[399])])
    assert (server.n_reports, server.n_rows) == (3, 400)
    clipped = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    assert server.moment == pytest.approx(clipped.T @ clipped / 400, abs=8 * server.noise_deviation)
    assert server.noise_deviation == pytest.approx(made.parameters.noise / math.sqrt(2) * math.sqrt(3) / 400)
    assert any("Sites" in note for note in server.guarantee.notes)


def test_one_site_has_far_less_noise_than_its_rows_one_by_one(client, rows):
    made = client(most_rows=400)
    one = LocalAggregator(made).add_many([made.report_rows(rows)])
    many = LocalAggregator(made).add_many([made.report(row) for row in rows])
    assert one.noise_deviation == pytest.approx(many.noise_deviation / math.sqrt(len(rows)))


@pytest.mark.parametrize("mechanism", ["gaussian", "privunit"])
def test_rows_scaled_to_the_bound_report_directions(client, rows, mechanism):
    made = client(epsilon=20.0, mechanism=mechanism, rows="scale")
    server = LocalAggregator(made).add_many([made.report(row) for row in rows])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert server.moment == pytest.approx(unit.T @ unit / len(rows), abs=7 * server.noise_deviation)


def test_pure_reports_have_the_right_mean(client, rows):
    """Rows shorter and longer than the bound; the moment is within seven standard deviations, entry by entry."""
    made = client(delta=0, epsilon=3.0, bound=0.8)
    server = LocalAggregator(made).add_many(made.report(row) for row in np.tile(rows, (5, 1)))
    clipped = rows * np.minimum(1, 0.8 / np.linalg.norm(rows, axis=1, keepdims=True))
    assert made.parameters.mechanism == "privunit"
    assert np.abs(server.moment - clipped.T @ clipped / 400).max() < 7 * math.sqrt(2) * server.noise_deviation
    assert np.abs(server.moment).max() > 10 * server.noise_deviation  # the test could fail


def test_pure_reports_are_less_noisy_than_gaussian_ones():
    """At the same ε, with any usual δ on the Gaussian side."""
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        pure = LocalParameters(20, epsilon, 0.0).noise
        assert pure < 0.85 * LocalParameters(20, epsilon, 1e-4).noise


def test_gain_is_the_best_of_all_heights():
    best = CapParameters.of(2.0, 100, 2**28)
    for q in (0.01, 0.05, 0.1, 0.3, 0.5):  # κ = φ(γ)(e^ε − 1)/(1 − q + q·e^ε)
        from scipy.stats import norm

        height = norm.isf(q)
        assert norm.pdf(height) * math.expm1(2.0) / (1 - q + q * math.exp(2.0)) <= best.gain * (1 + 1e-6)


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_features": 0}, "n_features"),
        ({"n_features": 10_000}, "n_features"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1e-5}, "epsilon"),
        ({"epsilon": 60.0}, "epsilon"),
        ({"delta": 0.0, "mechanism": "gaussian"}, "delta"),
        ({"delta": 1e-40}, "delta"),
        ({"delta": 0.7}, "delta"),
        ({"bound": -1.0}, "bound"),
        ({"bound": float("nan")}, "bound"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"rows": "round"}, "rows"),
        ({"on_bad_row": "skip"}, "on_bad_row"),
    ],
)
def test_bad_parameters_are_named(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        LocalRandomizer(**{"n_features": 3, "epsilon": 1.0, "delta": 1e-6, **change})


@pytest.mark.parametrize("row", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], np.ones((2, 3)), ["a", "b", "c"], [1j, 0, 0], 5.0])
def test_what_is_no_row_is_refused_without_its_values(row):
    with pytest.raises(ValueError, match="must be") as caught:
        LocalRandomizer(3, epsilon=1.0, delta=1e-6).report(row)
    assert "4.0" not in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite(bad):
    with pytest.raises(BadRowsError):
        LocalRandomizer(2, epsilon=1.0, delta=1e-6).report([0.5, bad])
    made = LocalRandomizer(2, epsilon=1.0, delta=1e-6, on_bad_row="drop-to-zero", random_state=Silent())
    assert not LocalAggregator(made).add_many([made.report([0.5, bad])]).moment.any()


def test_the_pure_randomiser_has_no_sum_of_a_site(rows):
    with pytest.raises(ValueError, match="one report for each row"):
        LocalRandomizer(3, epsilon=1.0, delta=0).report_rows(rows)


def test_a_site_keeps_to_the_agreed_number_of_rows(rows):
    with pytest.raises(ValueError, match=r"rows of X.*most_rows.*is 399"):
        LocalRandomizer(3, epsilon=1.0, delta=1e-6, most_rows=399).report_rows(rows)
    with pytest.raises(ValueError, match="most_rows"):
        LocalParameters(3, 1.0, 0.0, most_rows=2)
    assert LocalParameters(3, 1.0, 1e-6, most_rows=2).digest != LocalParameters(3, 1.0, 1e-6).digest


def test_consent_limits_what_a_server_may_ask_for():
    asked = LocalParameters(3, 4.0, 1e-6).to_dict()
    assert LocalRandomizer.from_parameters(asked, at_most=4.0).parameters == LocalParameters(**asked)
    with pytest.raises(ValueError, match=r"epsilon.*consented"):
        LocalRandomizer.from_parameters(asked, at_most=1.0)
    with pytest.raises(ValueError, match=r"delta.*consented"):  # δ = ½ would be no privacy at all
        LocalRandomizer.from_parameters({**asked, "delta": 0.5}, at_most=4.0)


def test_the_digest_is_that_of_the_values():
    one, other = LocalParameters(3, 1.0, 1e-6), LocalParameters(3, 1.0, 2e-6)
    assert one.digest == LocalParameters(3, 1.0, 1e-6, mechanism="gaussian").digest != other.digest


def test_guarantees():
    local = LocalRandomizer(3, epsilon=1.0, delta=1e-6).guarantee
    assert (local.trust, local.epsilon, local.delta, local.numerics) == ("local", 1.0, 1e-6, "exact")
    pure = LocalRandomizer(3, epsilon=1.0, delta=1e-6, mechanism="privunit").guarantee
    assert (pure.epsilon, pure.delta, pure.mechanism) == (1.0, 0.0, "local-privunit")


def test_a_seed_is_stamped_on_every_report(client, rows):
    server = LocalAggregator(client()).add_many([client().report(rows[0])])
    assert server.guarantee.numerics == "seeded"
    assert not server.pca(1).guarantee.is_private
