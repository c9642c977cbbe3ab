"""Batches of dp-pca: within their limits, better than equal ones by the same prediction; ratios of small groups."""

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.methods import DPPCA
from dpeigen.methods.base import Task
from dpeigen.methods.one_pass.schedule import plan_batches, predicted_error, row_shares
from dpeigen.privacy import Budget, Relation
from dpeigen.questions.scale import log_slopes, log_spectra

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")


def all_of(size, is_first):
    return size


@pytest.mark.parametrize("rows", [8_000, 90_000, 3_000_000])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.95])
def test_batches_use_the_rows_and_keep_their_limits(rows, ratio):
    sizes = plan_batches(rows, 3000, 700, 200_000, all_of, 20, 0.24, ratio)
    assert 0.99 * rows - len(sizes) <= sum(sizes) <= rows
    assert sizes[0] >= 3000
    assert all(700 <= size <= 200_000 for size in sizes)
    assert sizes[1:] == sorted(sizes[1:])


def test_growing_batches_are_predicted_to_be_better():
    sizes = plan_batches(90_000, 3000, 700, 200_000, all_of, 20, 0.24, 0.25)
    best = predicted_error(sizes, 20, 0.24, 0.25)
    for count in (4, 8, 16, 32):
        assert best <= predicted_error([90_000 / count] * count, 20, 0.24, 0.25)


def test_weaker_directions_get_more_rows():
    assert row_shares([0.5]) == [1.0]
    first, second = row_shares([0.25, 0.25])
    assert second > 1.3 * first
    assert first + second == pytest.approx(1.0)


@pytest.mark.parametrize(("n_rows", "k"), [(30_000, 1), (100_000, 2), (400_000, 3)])
@pytest.mark.parametrize("pairs", [False, True])
def test_plans_of_the_method_fit_the_rows(n_rows, k, pairs):
    task = Task("PrivatePCA", 6, k, Budget(4.0, 1e-6), Relation.REPLACE, None, "pairs" if pairs else None, n_rows)
    sizes = DPPCA().plan(task, n_rows, [0.5] * k)
    assert len(sizes) == k
    assert 0.98 * n_rows < sum(map(sum, sizes)) <= n_rows
    assert all(size % (2 if pairs else 1) == 0 for part in sizes for size in part)


def test_ratios_of_small_groups_are_not_those_of_chance():
    """40 rows of 30 columns: sample eigenvalues are spread over a factor of ten where the true ones are equal."""
    scale = np.ones(30)
    scale[0] = 4.0
    groups = np.random.default_rng(0).normal(size=(200, 40, 30)) * scale
    logs = log_spectra(groups, 30)
    plain = np.median(logs[:, 0] - logs[:, 1])
    assert plain < 2.9  # log₂ 16 = 4 is the truth
    assert abs(np.median(log_slopes(logs, 0, 40)) - 4) < 0.4
    assert np.median(log_slopes(log_spectra(groups / scale, 30), 0, 40)) < 1.5  # equal ones: 0 for many groups


@pytest.mark.parametrize(("variances", "k", "most"), [((4.0,), 1, 0.027), ((4.0, 4.0), 2, 0.07), ((4.0, 2.0), 2, 0.11)])
def test_error_on_gaussian_rows(variances, k, most):
    """Mean sine of three runs, 100,000 × 20, (1, 1e-6). With half of each batch for the scale it was twice ``most``."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng([seed, 77])
        Q = np.linalg.qr(rng.normal(size=(20, 20)))[0]
        scale = np.sqrt(np.append(variances, np.ones(20 - len(variances))))
        X = (rng.normal(size=(100_000, 20)) * scale) @ Q.T
        pca = PrivatePCA(k, epsilon=1.0, delta=1e-6, method="dp-pca", center=None, random_state=seed).fit(X)
        cosine = np.linalg.svd(pca.components_ @ Q[:, :k], compute_uv=False)[-1]
        errors.append(math.sqrt(max(0.0, 1 - cosine**2)))
    assert np.mean(errors) < most


def test_batches_of_a_stream_grow_and_hold_what_was_asked_for():
    pca = PrivatePCA(2, epsilon=2.0, delta=1e-6, method="dp-pca", center=None, random_state=0)
    rng, wanted = np.random.default_rng(1), []
    for _ in range(30):
        pca.partial_fit(rng.normal(size=(2000, 4)) * [4.0, 2.0, 1.0, 1.0])
        wanted.append(pca._stream.stream.wanted())
    assert wanted[-1] > 2 * min(wanted)
    assert abs(pca.components_[0, 0]) > 0.98
    assert abs(pca.components_[1, 1]) > 0.95
