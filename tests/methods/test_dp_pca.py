"""dp-pca: near the truth, noise that follows the gradients, one row in one batch, plans, refusals."""

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.curator import Feed
from dpeigen.methods import DPPCA
from dpeigen.methods.base import Task, run_method
from dpeigen.methods.one_pass.dp_pca_stream import DPPCAStream
from dpeigen.methods.one_pass.schedule import gain
from dpeigen.privacy import Budget, Relation, Spend, compose_pld
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame
from dpeigen.stats.gradients import Clipped, Gradients, SquaredScores
from dpeigen.stats.spectrum import orthonormal

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")


def spiked(n, d, seed=0, deviations=(4.0, 2.5), offset=0.0):
    scale = np.ones(d)
    scale[: len(deviations)] = deviations
    return np.random.default_rng(seed).normal(size=(n, d)) * scale + offset


def fit(X, k=1, method=None, epsilon=2.0, seed=0, **options):
    options = {"delta": 1e-6, "method": method or DPPCA(), "random_state": seed, **options}
    return PrivatePCA(k, epsilon=epsilon, **options).fit(X)


def sine(component, axis=0):
    return math.sqrt(max(0.0, 1 - component[axis] ** 2))


@pytest.mark.parametrize("center", [None, "private", "pairs"])
def test_components_and_variances(center):
    X = spiked(120_000, 6, offset=0.0 if center is None else 50.0)
    pca = fit(X, 2, center=center)
    assert sine(pca.components_[0], 0) < 0.05
    assert sine(pca.components_[1], 1) < 0.08
    np.testing.assert_allclose(pca.explained_variance_, [16, 6.25], rtol=0.15)
    assert 0.8 < pca.noise_variance_ < 1.3
    if center == "private":
        np.testing.assert_allclose(pca.mean_, 50, atol=0.4)


def test_sorted_rows_and_units_do_not_matter():
    X = spiked(60_000, 4)
    ordered = X[np.argsort(X[:, 0])]
    assert sine(fit(ordered, center=None).components_[0]) < 0.1
    tiny = fit(X * 1e-60, center=None)
    assert sine(tiny.components_[0]) < 0.1
    assert 10 < tiny.explained_variance_[0] * 1e120 < 20


def test_noise_follows_the_gradients():
    """Rows ±v + σ·noise: the error falls with σ, that of `gaussian` does not."""
    v = np.ones(10) / math.sqrt(10)
    errors = {"dp-pca": [], "gaussian": []}
    for sigma in (1e-1, 1e-3):
        rng = np.random.default_rng(1)
        X = rng.choice([-1.0, 1.0], size=(60_000, 1)) * v + sigma * rng.normal(size=(60_000, 10))
        for method, found in errors.items():
            bound = 1 + 5 * sigma if method == "gaussian" else None
            c = fit(X, method=method, bound=bound, center=None, epsilon=1.0).components_[0]
            found.append(np.linalg.norm(c - (c @ v) * v))
    assert errors["dp-pca"][1] < errors["dp-pca"][0] / 20
    assert errors["dp-pca"][1] < 0.5 * errors["gaussian"][1]


def test_constant_rows_and_rows_on_a_line():
    line = np.outer(np.random.default_rng(2).choice([-1.0, 1.0], 40_000), [0.6, 0.8, 0.0])
    pca = fit(line, center=None)
    assert abs(pca.components_[0] @ [0.6, 0.8, 0.0]) > 0.999
    np.testing.assert_allclose(pca.explained_variance_, 1.0, rtol=0.01)
    zero = fit(np.zeros((40_000, 3)), center=None)
    np.testing.assert_allclose(zero.explained_variance_, 0.0, atol=1e-6)


def test_a_given_gap_and_batch_are_used():
    pca = fit(spiked(50_000, 4), method=DPPCA(gap=9.75, batch=3000), center=None)
    details = pca.release_.facts["details"]
    assert details["batches"] == [[3000] * (50_000 // 3000 - 1)]
    assert details["steps"] == [50_000 // 3000 - 1]  # the last batch is for the variances
    assert sine(pca.components_[0]) < 0.15


def test_each_part_is_worth_the_budget():
    pytest.importorskip("dp_accounting")
    pca = fit(spiked(50_000, 4), epsilon=1.0, center=None)
    details = pca.release_.facts["details"]
    assert set(details["parts"]) == {"scale", "first mean", "look", "mean"}
    for part in details["parts"].values():
        spent = compose_pld([Spend.from_dict(s) for s in part], 1e-6)
        assert 0.999 < spent <= 1.0 + 4e-4
    assert pca.guarantee_.spent_epsilon == 1.0


def test_every_row_is_in_one_batch_at_most(monkeypatch):
    X = np.column_stack([spiked(30_000, 2), np.arange(30_000.0)])
    seen = []
    honest = Feed._finish

    def spy(self):
        seen.append(self._buffer[:, -1].copy())
        honest(self)

    monkeypatch.setattr(Feed, "_finish", spy)
    fit(X, center=None)
    numbers = np.concatenate(seen)
    assert len(np.unique(numbers)) == len(numbers)
    assert len(numbers) > 0.9 * len(X)


def test_a_changed_row_changes_one_gradient():
    """Bit for bit, whatever the row: scores, deflation and products look at one row at a time."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(500, 7))
    directions = orthonormal(rng.normal(size=(3, 7)))
    gradients = Gradients(Clipped(Frame(7), 3.0), directions).image
    changed = rows.copy()
    changed[123] = [1e308, -1e308, 1e-308, 0, 5, 1, 1]
    before, after = gradients(rows), gradients(changed)
    assert (before == after).all(axis=1).sum() == 499
    np.testing.assert_array_equal(gradients(rows[100:200]), before[100:200])
    inside = rows[np.linalg.norm(rows, axis=1) < 3]
    rest = inside - inside @ directions[:2].T @ directions[:2]
    np.testing.assert_allclose(gradients(inside), rest * (inside @ directions[2])[:, None], atol=1e-4)


def test_batches_are_drawn_over_all_rows_of_a_table(monkeypatch):
    """In a sorted table one changed value shifts the rows after it: who shares a batch must not follow from places.

    The first 8,192 of 30,000 rows in random order hold each residue modulo 4 about 2,048 times (deviation 34), and
    their mean place is 15,000 (deviation 82). Fewer than 1e-6 of all runs fail.
    """
    read = []
    monkeypatch.setattr(Feed, "take", lambda self, block: read.append(np.asarray(block)[:, 0].copy()))
    rows = np.column_stack([np.arange(30_000.0), np.ones(30_000)])
    task = Task("PrivatePCA", 2, 1, Budget(4.0, 1e-5), Relation.REPLACE, None, None, 30_000)
    for _ in range(2):
        run_method(DPPCA(), ArraySource(rows), task, SystemRandomness())
    half = len(read) // 2
    first, second = np.concatenate(read[:half]), np.concatenate(read[half:])
    np.testing.assert_array_equal(np.sort(first), rows[:, 0])
    assert (first != second).any()
    for order in (first, second):
        assert np.abs(np.bincount(order[:8192].astype(int) % 4) - 2048).max() < 34 * 5.5
        assert abs(order[:8192].mean() - 15_000) < 82 * 5.5


def test_gain_is_the_best_share():
    for error, noise, most in ((10.0, 0.01, 0.5), (0.01, 0.5, 1.0)):
        share, left = gain(error, noise, most)
        grid = np.linspace(0, most, 2001)
        assert left <= ((1 - grid) ** 2 * error + grid**2 * noise).min() + 1e-12
        assert share <= most
    error = 1.0
    for t in range(1, 100):
        share, error = gain(error, 1.0, 1.0)
        assert share == pytest.approx(1 / (1 + t))  # the rate of Theorem 2.2


def test_too_few_rows_say_how_many_before_anything_is_spent(tmp_path):
    from dpeigen import Ledger

    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    X = spiked(3000, 4)
    with pytest.raises(ValueError, match=r"'X' parameter of PrivatePCA .* needs at least (\d+) rows") as refusal:
        fit(X, epsilon=1.0, ledger=ledger)
    assert ledger.history() == []
    needed = int(str(refusal.value).split("at least ")[1].split(" rows")[0])
    fit(spiked(needed, 4), epsilon=1.0, ledger=ledger)
    with pytest.raises(ValueError, match="needs at least"):
        fit(spiked(needed - 1, 4), epsilon=1.0)


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        (DPPCA(), {"relation": "add_remove"}, "'relation' parameter .* 'replace'.*move every batch"),
        (DPPCA(), {"delta": 0.0}, "'delta' parameter"),
        (DPPCA(), {"bound": "private"}, "'bound' parameter .* public or None"),
        (DPPCA(gap=-1.0), {}, "'gap' parameter of DPPCA"),
        (DPPCA(h=0.5), {}, "'h' parameter of DPPCA must be > 0.5"),
        (DPPCA(batch=10), {}, "'batch' parameter of DPPCA must be ≥"),
    ],
)
def test_refusals(method, options, match):
    with pytest.raises(ValueError, match=match):
        fit(spiked(100, 3), method=method, **options)


def test_bad_rows():
    X = spiked(30_000, 3)
    X[17, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        fit(X, center=None)
    assert sine(fit(X, center=None, missing="drop").components_[0]) < 0.2


def test_a_public_bound_limits_rows():
    X = spiked(40_000, 3)
    X[:2000] = [0.0, 0.0, 1e6]  # 5% of outliers
    assert sine(fit(X, bound=12.0, center=None).components_[0]) < 0.2
    box = fit(X, bound=([-12.0] * 3, [12.0] * 3), center=None)
    assert box.components_.shape == (1, 3)


def test_a_file_that_breaks_off_costs_nothing_and_a_bad_row_in_a_late_batch_does(tmp_path):
    """All rows are read before the first batch is drawn; a batch may find a bad row after others were paid for."""
    from dpeigen import Ledger
    from dpeigen.sources import Source
    from dpeigen.sources.base import UnreadableRowsError

    class Breaking(Source):
        def __init__(self, bad_row):
            self.bad_row, self.n_rows, self.n_features = bad_row, 40_000, 3

        def blocks(self):
            for start in range(0, self.n_rows, 1000):
                block = spiked(1000, 3, seed=start)
                if start == 30_000:
                    if not self.bad_row:
                        raise UnreadableRowsError("a damaged file")
                    block[0, 0] = np.nan
                yield block

    for bad_row, kind, state in ((False, UnreadableRowsError, "cancelled"), (True, ValueError, "reserved")):
        ledger = Ledger.create(tmp_path / str(bad_row), epsilon=8.0, delta=1e-4)
        with pytest.raises(kind):
            fit(Breaking(bad_row), center=None, epsilon=8.0, delta=1e-4, seed=0, ledger=ledger)
        assert [entry["state"] for entry in ledger.history()] == [state]


@pytest.mark.parametrize("method", ["dp-pca", "oja"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 2)])
def test_all_components_of_few_columns(method, d, k):
    X = np.random.default_rng(5).normal(size=(30_000, d)) * [3.0, 1.0][:d]
    bound = None if method == "dp-pca" else 8.0
    runs = [fit(X, k, method=method, bound=bound, center=None, seed=seed) for seed in range(5)]
    variances = np.median([pca.explained_variance_ for pca in runs], axis=0)
    np.testing.assert_allclose(variances, [9.0, 1.0][:d], rtol=0.3)
    assert all(pca.noise_variance_ == 0.0 for pca in runs)


def test_a_stream_asks_for_variances_until_they_are_found(monkeypatch):
    """A batch whose scale does not stand out is lost; the next round asks again, not the second or fourth after it."""
    ask, lost = DPPCAStream._ask_mean, []

    def unlucky(self, batch, view, terms, widen=2**0.25):
        if isinstance(view, SquaredScores) and len(lost) < 3:
            lost.append(self.turn)
            return None
        return ask(self, batch, view, terms, widen)

    monkeypatch.setattr(DPPCAStream, "_ask_mean", unlucky)
    pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, method="dp-pca", random_state=0)
    feed = np.random.default_rng(0)
    for _ in range(15):
        pca.partial_fit(feed.normal(size=(3000, 5)) * [4, 1, 1, 1, 1] + 20)
    assert lost == [1, 2, 3]
    assert pca.components_.shape == (1, 5)
