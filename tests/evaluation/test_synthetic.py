"""Made-up rows have the distribution they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.evaluation import Synthetic


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
        "spiked:rows=10,columns=3,tail=2",
        "spiked:rows=10,columns=3,strength=-1",
        "power:rows=10,columns=3,decay=0",
        "power:rows=10,columns=3,offset=inf",
    ],
)
def test_what_cannot_be_drawn_is_refused(text):
    with pytest.raises(ValueError, match="must be"):
        Synthetic.parse(text)
