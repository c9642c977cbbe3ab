"""The error of a covariance matrix because every entry comes from the rows that have both of its cells.

Let aᵢ = mᵢ/qᵢ − 1, where mᵢ is 1 if a row has cell i, and qᵢ is the share of rows that do. If cells are missing
independently, entry ij of the corrected matrix differs from that of the complete rows by the mean of
zᵢzⱼ·(aᵢ + aⱼ + aᵢaⱼ), and a variance by that of zᵢ²·aᵢ. The means of these three products are uncorrelated with the
rows and, for different sets of columns, with each other. Since the shares qᵢ are measured on the same rows, zᵢzⱼ − Cᵢⱼ
takes the place of zᵢzⱼ beside one a. With hᵢ = 1/qᵢ − 1 = E aᵢ² and normal rows of covariance C, n times the
covariances are

    E[aᵢ²(zᵢzⱼ − Cᵢⱼ)(zᵢzₖ − Cᵢₖ)] = hᵢ·(Cᵢᵢ·Cⱼₖ + CᵢⱼCᵢₖ),     E[aᵢ²aⱼ²zᵢ²zⱼ²] = hᵢhⱼ·(CᵢᵢCⱼⱼ + 2·Cᵢⱼ²).

Sampling error vanishes along a combination of columns that is constant in every row, and this error does not. So it
cannot be drawn as a multiple of sampling error. It matters most for regressions on correlated columns.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator

__all__ = ["missing_errors"]


def missing_errors(covariance: Floats, seen: Floats, terms: float, draws: int, rng: Generator) -> Floats:
    """Draws of this error, draws × d × d; ``seen``: the share of rows that have each cell."""
    d, variances = len(covariance), np.diag(covariance)
    absent = 1 / np.clip(seen, 1 / terms, 1.0) - 1
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    rows = rng.normal(size=(draws, d, d)) @ root * np.sqrt(np.maximum(variances, 0.0))[:, None]
    rows += rng.normal(size=(draws, d, 1)) * covariance
    rows *= np.sqrt(absent)[:, None]  # row i: the means of aᵢzᵢzⱼ
    both = np.outer(absent, absent) * (np.outer(variances, variances) + 2 * covariance**2)
    upper = np.triu(rng.normal(size=(draws, d, d)) * np.sqrt(np.maximum(both, 0.0)), 1)
    found = rows + np.swapaxes(rows, 1, 2) + upper + np.swapaxes(upper, 1, 2)
    index = np.arange(d)
    found[:, index, index] = rows[:, index, index]
    return np.asarray(found / math.sqrt(terms))
