"""The private scale of vectors: right within its bins at every size, one label per vector, refusals."""

import math

import numpy as np
import pytest

from dpeigen.auditing.events import audit
from dpeigen.curator import DataCurator
from dpeigen.methods import private_top_eigenvalue
from dpeigen.methods.one_pass.spread import ask_ratios, groups_needed, histogram_share, scale_shares, top_eigenvalue
from dpeigen.privacy import Budget, Relation, Spend, compose, compose_pld
from dpeigen.privacy.histogram import tail_spend, threshold
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.questions.scale import bins_per_doubling, log_spectra
from dpeigen.sources.memory import Batch
from dpeigen.stats import Frame

BUDGET = Budget(1.0, 1e-6)


def scale_of(rows, budget=BUDGET, rng=None):
    return top_eigenvalue(Batch(rows, in_random_order=True), budget, rng or SystemRandomness())


def ratios_of(rows, k):
    source = Batch(rows, in_random_order=True)
    curator = DataCurator(source, Relation.REPLACE, scale_shares(BUDGET), BUDGET, SystemRandomness())
    return ask_ratios(curator, Frame(rows.shape[1]), len(rows), k)


@pytest.mark.parametrize("unit", [1.0, 1e-100, 1e100])
@pytest.mark.parametrize("deviations", [(3.0, 1.0, 1.0), (1.0, 0.0, 0.0)])
def test_within_a_bin_of_the_truth(unit, deviations):
    rows = np.random.default_rng(0).normal(size=(20_000, 3)) * deviations * unit + 7 * unit
    found = scale_of(rows)
    width = 1 / bins_per_doubling(20_000 // 2 // groups_needed(BUDGET))
    assert abs(math.log2(found) - 2 * math.log2(deviations[0] * unit)) <= width / 2 + 0.3


def test_bins_of_a_quarter_where_groups_are_large():
    assert [bins_per_doubling(size) for size in (10, 300, 1000, 4000)] == [0.5, 1.0, 2.0, 4.0]


def test_constant_rows_have_scale_zero_and_scattered_ones_none():
    assert scale_of(np.full((2000, 2), 5.0)) == 0.0
    sizes = 2.0 ** np.arange(-700, 700)[:, None]
    assert scale_of(sizes) is None


def test_a_sorted_table_and_its_neighbour_are_not_told_apart():
    """Values 0, 0, 1, 1, 2, 2 …: consecutive rows are equal, until a smaller value at the front shifts them all."""
    rows = np.repeat(np.arange(2000.0), 2)[:, None]
    shifted = np.sort(np.append(rows[:-1], -1.0))[:, None]  # the last row replaced, and sorted again
    found = [[private_top_eigenvalue(table, epsilon=1.0, delta=1e-6) for _ in range(5)] for table in (rows, shifted)]
    assert np.min(found) > 1000.0  # the spread of the values, however the table is sorted


def test_one_vector_moves_one_group_bit_for_bit():
    groups = np.random.default_rng(1).normal(size=(40, 12, 5))
    changed = groups.copy()
    changed[17, 3] = [1e300, -5.0, 0.0, 2.0, 1e-300]
    before, after = log_spectra(groups, 2), log_spectra(changed, 2)
    same = (before == after).all(axis=1)
    assert not same[17]
    assert same.sum() == 39


@pytest.mark.parametrize("shape", [(6, 4, 9), (6, 30, 9)])
def test_spectra_are_those_of_numpy(shape):
    groups = np.random.default_rng(2).normal(size=shape)
    expected = [np.linalg.eigvalsh(g.T @ g / len(g))[::-1][:3] for g in groups]
    np.testing.assert_allclose(2 ** log_spectra(groups, 3), expected, rtol=1e-5)


def test_ratios_of_eigenvalues():
    rows = np.random.default_rng(3).normal(size=(60_000, 4)) * [8.0, 4.0, 1.0, 1.0]
    first, second = ratios_of(rows, 2)
    assert 2.0**-4 <= first <= 2.0**-1  # the truth is 2^−2, and its exponent is known within a factor of 2
    assert 2.0**-8 <= second <= 2.0**-2
    assert ratios_of(rows * [1, 0, 0, 0], 1)[0] < 2.0**-30


def test_the_share_is_the_whole_budget_and_no_more():
    pytest.importorskip("dp_accounting")
    cost, failure = histogram_share(BUDGET)
    spends = [Spend("a", "m", cost), tail_spend("b", failure, BUDGET.epsilon)]
    assert 0.999 < compose(spends, BUDGET.delta) <= BUDGET.epsilon
    assert compose_pld(spends, BUDGET.delta) <= BUDGET.epsilon + 2e-4


def released_bins(epsilon, delta, factor, tools):
    """Runs on two neighbours: one bin has as many groups as the threshold asks for, or one less; the rest are alone."""
    budget = Budget(epsilon, delta)
    groups = groups_needed(budget)
    full = int(threshold(*histogram_share(budget)[:1], 1, histogram_share(budget)[1], Relation.REPLACE))
    assert full < groups

    def run(data, count):
        label, vectors = data
        rng = tools.faulty([label, 9], factor) if factor else tools.seeded([label, 9])
        return np.array([[scale_of(vectors, budget, rng) is not None] for _ in range(count)], dtype=float)

    sizes = np.where(np.arange(groups) < full, 1.0, 16.0 ** np.arange(groups))
    vectors = np.stack([sizes, -sizes], axis=1).reshape(-1, 1)
    changed = vectors.copy()
    changed[0] = 16.0**20  # one group moves into a bin of its own
    return run, (1, vectors), (2, changed)


@pytest.mark.slow
def test_audit_of_the_scale(tools):
    """1500 runs; a false alarm has probability below 1e-6. With a tenth of the noise the same audit proves more."""
    run, first, second = released_bins(1.0, 0.01, None, tools)
    assert audit(run, first, second, runs=1500, delta=0.01, confidence=1 - 1e-6).epsilon_lower <= 1.0
    run, first, second = released_bins(1.0, 0.01, 0.1, tools)
    assert audit(run, first, second, runs=1500, delta=0.01, confidence=1 - 1e-6).epsilon_lower > 1.0


def test_public_function_and_its_refusals():
    rows = np.random.default_rng(4).normal(size=(5000, 3)) * [4, 1, 1]
    with pytest.warns(UserWarning, match="seeded"):
        assert 4 < private_top_eigenvalue(rows, epsilon=2.0, delta=1e-6, random_state=0) < 64
    with pytest.raises(ValueError, match=r"needs at least \d+ rows.*Nothing was spent"):
        private_top_eigenvalue(rows[:50], epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="'delta' parameter of private_top_eigenvalue must be > 0"):
        private_top_eigenvalue(rows, epsilon=1.0, delta=0.0)
    with pytest.raises(ValueError, match="table of real numbers"):
        private_top_eigenvalue(["a"], epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="NaN or infinite"):
        private_top_eigenvalue(np.full((5000, 2), np.nan), epsilon=1.0, delta=1e-6)
