"""Plans for local reports: near real studies, inverses reach their targets, rates are the printed formulas."""

import math

import numpy as np
import pytest

from dpeigen.local import LocalAggregator, LocalRandomizer
from dpeigen.papers.wang import (
    local_lower_rate,
    local_upper_rate,
    printed_penalty,
    sparse_local_lower_rate,
    sparse_local_upper_rate,
)
from dpeigen.planner import OutOfReachError, needed_local_epsilon, needed_local_rows, plan_local

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
SPECTRUM = [9.0, 4.0, 1.0, 1.0, 1.0]


@pytest.mark.nightly
def test_predictions_are_near_real_studies():
    """Eight studies of 3,000 reports: their mean is known to about 10%; predictions must be within 35%."""
    found = plan_local(3000, 5, 2, epsilon=4.0, delta=1e-4, spectrum=SPECTRUM)
    kinds = {
        "local-privunit": {"delta": 0.0},
        "local-gaussian": {"delta": 1e-4},
        "local-gaussian, published": {"delta": 1e-4, "constants": "published"},
    }
    for name, options in kinds.items():
        errors = []
        for seed in range(8):
            X = np.random.default_rng(seed).normal(size=(3000, 5)) * np.sqrt(SPECTRUM)
            client = LocalRandomizer(5, epsilon=4.0, rows="scale", random_state=seed, **options)
            U = LocalAggregator(client).add_many(map(client.report, X)).pca(2).components
            errors.append(math.sqrt(max(0.0, 1 - np.linalg.svd(U[:, :2], compute_uv=False)[-1] ** 2)))
        assert found[name].error == pytest.approx(np.mean(errors), rel=0.35)
    assert found["local-gaussian, published"].epsilon > 4.5
    assert found.floor < found.best.error


def test_the_inverses_reach_the_target():
    facts = {"delta": 1e-6, "spectrum": SPECTRUM}
    epsilon = needed_local_epsilon(0.2, 50_000, 5, 2, **facts)
    assert plan_local(50_000, 5, 2, epsilon=epsilon, **facts).best.high < 0.23
    assert plan_local(50_000, 5, 2, epsilon=epsilon / 2, **facts).best.high > 0.2
    rows = needed_local_rows(0.2, 5, 2, epsilon=2.0, **facts)
    assert plan_local(rows, 5, 2, epsilon=2.0, **facts).best.high < 0.23
    with pytest.raises(OutOfReachError):
        needed_local_epsilon(1e-4, 1000, 5, 2, **facts)
    with pytest.raises(TypeError, match="plan_local"):
        needed_local_epsilon(0.2, 1000, 5, 2, colour="red")


def test_a_bound_clips_and_a_long_one_adds_noise():
    near = plan_local(50_000, 5, 2, epsilon=2.0, bound=6.0, spectrum=SPECTRUM).best.error
    far = plan_local(50_000, 5, 2, epsilon=2.0, bound=20.0, spectrum=SPECTRUM).best.error
    assert far > 2 * near


def test_rates_are_the_printed_formulas():
    """By hand: λ = (0.4, 0.2, 0.1), n = 1000, p = 8, k = 2, s = 8, ε = ½, δ = e^−9."""
    facts, values = (1000, 8, 2), [0.4, 0.2, 0.1]
    assert local_lower_rate(*facts, 0.5, values).value == pytest.approx(0.04 / 0.01 * 16 / 250)
    assert local_upper_rate(*facts, 0.5, math.exp(-9), values).value == pytest.approx(0.16 / 0.01 * 16 * 9 / 250)
    width = 2 + math.log(8)
    assert sparse_local_lower_rate(*facts, 8, 0.5, values).value == pytest.approx(4 * 8 * width / 250)
    found = sparse_local_upper_rate(*facts, 8, 0.5, 1e-6, values).value
    assert found == pytest.approx(16 * 64 * math.log(8) / 250)
    assert printed_penalty(1000, 8, 0.5, 0.4) == pytest.approx(0.4 * math.sqrt(math.log(8) / 250))
    assert local_lower_rate(*facts, 0.5, values).unmet == ()
    assert any("ε ≤ ½" in text for text in local_lower_rate(*facts, 0.6, values).unmet)
    with pytest.raises(ValueError, match="gap"):
        local_lower_rate(1000, 8, 1, 0.5, [0.2, 0.2])


def test_the_printed_upper_rate_is_too_small_for_small_eigenvalues():
    """Theorem 2 does not change if all eigenvalues shrink; the noise does not shrink with them, so the error grows.

    Rows of norm below 1 whose covariance is 1/16 of another's: the corrected rate is 256 times as large, and the error
    of the same number of reports goes from small to that of a random direction.
    """
    large = np.array([0.16, 0.01, 0.01, 0.01])
    printed = [local_upper_rate(40_000, 4, 1, 1.0, 1e-4, values).value for values in (large, large / 16)]
    assert printed[0] == pytest.approx(printed[1])
    errors = [
        plan_local(40_000, 4, 1, epsilon=1.0, delta=1e-4, bound=1.0, spectrum=values)["local-gaussian"].error
        for values in (large, large / 16)
    ]
    assert errors[0] < 0.35
    assert errors[1] > 0.7


def test_the_command_line_plans_local_studies():
    import json

    from typer.testing import CliRunner

    from dpeigen.cli.app import app

    given = ["plan", "--trust", "local", "--rows", "50000", "--columns", "5", "-k", "2", "--epsilon", "2"]
    given += ["--delta", "1e-6", "--spectrum", "9,4,1,1,1"]
    shown = CliRunner().invoke(app, [*given, "--target", "0.2"])
    assert shown.exit_code == 0, shown.output
    assert "local-privunit" in shown.output
    assert "reports at this ε" in " ".join(shown.output.split())
    said = json.loads(CliRunner().invoke(app, [*given, "--json", "--sparsity", "4"]).stdout)
    assert said["facts"]["trust"] == "local"
    assert any("Theorem 3" in name for name in said["rates"])
    for wrong in (["--method", "gaussian"], ["--bound", "private"], ["--lower", "0", "--upper", "1"]):
        assert CliRunner().invoke(app, [*given, *wrong]).exit_code != 0
    assert CliRunner().invoke(app, [*given[:2], "nobody", *given[3:]]).exit_code != 0
