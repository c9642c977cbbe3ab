"""Made-up rows have the distribution they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.evaluation import Synthetic, compare
from dpeigen.methods import Refined


@pytest.mark.parametrize(
    "made",
    [
        Synthetic("spiked", rows=200_000, columns=6, spikes=2, strength=9.0),
        Synthetic("power", rows=200_000, columns=6, decay=1.5, offset=-3.0),
        Synthetic("spiked", rows=400_000, columns=6, tail=6.0, offset=1.0),
    ],
    ids=str,
)
def test_rows_have_the_stated_mean_and_covariance(made):
    """Entries of a sample covariance deviate by about λ₁·(3/n)^½ at these tails; 12 of that is a false alarm < 1e-6."""
    rows, truth = made.draw(seed=1, repetition=0), made.covariance(1)
    largest = made.eigenvalues.max()
    np.testing.assert_allclose(np.cov(rows.T), truth, atol=12 * largest * math.sqrt(3 / made.rows))
    np.testing.assert_allclose(rows.mean(axis=0), made.mean(), atol=12 * math.sqrt(largest / made.rows))
    np.testing.assert_allclose(np.linalg.eigvalsh(truth)[::-1], made.eigenvalues, rtol=1e-9)
    with pytest.raises(AssertionError):  # a covariance off by a fifth is seen
        np.testing.assert_allclose(np.cov(rows.T), 1.2 * truth, atol=12 * largest * math.sqrt(3 / made.rows))


def test_student_rows_are_heavy():
    light, heavy = (Synthetic("power", rows=50_000, columns=3, tail=tail).draw(0, 0) for tail in (math.inf, 4.0))
    kurtosis = [float(np.mean(r[:, 0] ** 4) / np.mean(r[:, 0] ** 2) ** 2) for r in (light, heavy)]
    assert kurtosis[0] < 3.3 < 4.5 < kurtosis[1]


def test_repetitions_differ_and_the_basis_stays():
    made = Synthetic("spiked", rows=10, columns=4)
    assert not np.array_equal(made.draw(0, 0), made.draw(0, 1))
    assert np.array_equal(made.draw(0, 1), made.draw(0, 1))
    assert np.array_equal(made.basis(0), made.basis(0))
    assert not np.array_equal(made.basis(0), made.basis(1))


def test_parse():
    assert Synthetic.parse("power: rows=10, columns=3,decay=2,tail=5") == Synthetic("power", 10, 3, decay=2.0, tail=5.0)


@pytest.mark.parametrize(
    "text",
    [
        "spiked",
        "spiked:rows=10",
        "flat:rows=10,columns=3",
        "spiked:rows=10,columns=3,height=2",
        "spiked:rows=ten,columns=3",
        "spiked:rows=1,columns=3",
        "spiked:rows=10,columns=3,spikes=4",
        "spiked:rows=10,columns=3,tail=0",
        "spiked:rows=10,columns=3,outliers=0.5",
        "spiked:rows=10,columns=3,kind=cloud",
        "spiked:rows=10,columns=3,across=maybe",
        "spiked:rows=10,columns=3,distance=0",
        "spiked:rows=10,columns=3,strength=-1",
        "power:rows=10,columns=3,decay=0",
        "power:rows=10,columns=3,offset=inf",
    ],
)
def test_what_cannot_be_drawn_is_refused(text):
    with pytest.raises(ValueError, match="must be"):
        Synthetic.parse(text)


@pytest.mark.parametrize("kind", ["cluster", "symmetric", "scatter", "ray"])
def test_outliers_are_as_many_and_as_far_as_said_and_the_rest_is_unchanged(kind):
    plain = Synthetic("spiked", rows=5000, columns=6, spikes=2, strength=9.0, offset=2.0)
    made = Synthetic.parse(
        f"spiked:rows=5000,columns=6,spikes=2,strength=9,offset=2,outliers=0.1,kind={kind},distance=8"
    )
    clean, rows = plain.draw(3, 1), made.draw(3, 1)
    changed = (clean != rows).any(axis=1)
    assert changed.sum() == 500
    np.testing.assert_array_equal(made.covariance(3), plain.covariance(3))
    away = rows[changed] - 2.0
    lengths = np.linalg.norm(away, axis=1) / math.sqrt(22)
    middle = np.linalg.norm(away.mean(axis=0)) / math.sqrt(22)
    if kind == "ray":
        assert lengths.max() > 15
        assert abs(lengths.mean() - 8) < 0.7  # uniform up to 16: a standard error of 0.21
    else:
        np.testing.assert_allclose(lengths, 8, rtol=0.02)
    assert (middle > 7) == (kind in ("cluster", "ray"))
    along = np.abs(away @ made.basis(3)[:2].T).max()
    assert (along < 1) == (kind != "scatter")  # across the leading directions
    halfway = Synthetic("spiked", rows=500, columns=6, outliers=0.1, across=False).draw(0, 0)
    assert np.isfinite(halfway).all()


def test_heavy_tails_without_a_covariance_are_measured_against_the_dispersion_matrix():
    made = Synthetic("spiked", rows=100_000, columns=4, spikes=1, strength=16.0, tail=1.0)
    scores = made.draw(0, 0) @ made.basis(0).T
    np.testing.assert_allclose(np.median(np.abs(scores), axis=0), [4, 1, 1, 1], rtol=0.03)  # Cauchy: the quartile is 1
    np.testing.assert_allclose(np.linalg.eigvalsh(made.covariance(0)), [1, 1, 1, 16], rtol=1e-12)


def test_compare_sees_what_outliers_do():
    """A cluster of a tenth of the rows turns the components of the covariance, and not the robust ones."""
    made = Synthetic("spiked", rows=3000, columns=6, spikes=2, strength=10.0, outliers=0.1)
    methods = {"plain": "whitened", "robust": Refined(cutoff="private")}
    found = compare(made, methods=methods, epsilons=[2.0], delta=1e-6, n_components=2, repetitions=2, seed=0, workers=1)
    errors = found.table.to_pandas().groupby("method")["sin_theta"].max()
    assert errors["robust"] < 0.15 < 0.9 < errors["plain"]
