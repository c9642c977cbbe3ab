"""The paper's three laws (Section 4.2): two spikes in d columns, with Gaussian rows, Cauchy rows, or 5% outliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LAWS = ("gaussian", "cauchy", "contaminated")
FIRST, SECOND, REST = 10.0, 5.0, 1.0  # the eigenvalues
SHARE = 0.05  # of the rows are outliers
DISTANCE = 2.5 * FIRST  # of the outliers from the centre


def spectrum(d: int) -> Floats:
    """The eigenvalues of Σ."""
    return np.r_[FIRST, SECOND, np.full(d - 2, REST)]


def plane(d: int) -> Floats:
    """v₁ and v₂, as rows."""
    rows = np.zeros((2, d))
    rows[:, :4] = np.array([[1, 1, 1, 1], [1, -1, 1, -1]]) / 2
    return rows


def outlier_direction(d: int) -> Floats:
    """v_⊥ without its length."""
    direction = np.zeros(d)
    direction[[1, 3]] = np.array([1, -1]) / np.sqrt(2)
    return direction


def draw(law: str, n: int, d: int, rng: np.random.Generator, share: float = SHARE) -> Floats:
    """n rows of the law; ``share`` of them outliers, if it has any."""
    rows = rng.normal(size=(n, d))
    v = plane(d)
    stretch = np.sqrt([FIRST, SECOND]) - np.sqrt(REST)
    rows = np.sqrt(REST) * rows + (rows @ v.T * stretch) @ v
    if law == "cauchy":
        rows /= np.sqrt(rng.chisquare(1, size=(n, 1)))
    if law == "contaminated":
        bad = rng.choice(n, size=round(share * n), replace=False)
        rows[bad] = DISTANCE * outlier_direction(d) + 0.05 * rng.normal(size=(len(bad), d))
    return rows
