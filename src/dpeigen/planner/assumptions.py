"""What a plan assumes about the rows, without reading them: a spectrum, tails, outliers. All of it is public.

>>> power_law(3, exponent=1.0)
array([1.        , 0.5       , 0.33333333])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_positive, complain
from dpeigen.privacy.randomness import Generator
from dpeigen.release import Release

__all__ = ["SIGNAL", "Rows", "assumed_rows", "from_covariance", "power_law", "spiked"]

SIGNAL = 10.0  # the default assumption: leading variances exceed the others by ten times their size


@dataclass(frozen=True)
class Rows:
    """An assumed population of rows, elliptical about its centre.

    Parameters
    ----------
    eigenvalues : (d,) array
        Variances along the principal directions, decreasing.
    tails : float or None, default=None
        Degrees of freedom of a multivariate t (its scale matrix has the eigenvalues); None: normal rows.
    contamination : float, default=0.0
        The fraction of rows that are outliers, all in one direction.
    outlier_length : float, default=10.0
        The norm of an outlier, relative to the root mean square norm of the other rows.
    """

    eigenvalues: Floats
    tails: float | None = None
    contamination: float = 0.0
    outlier_length: float = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eigenvalues", _checked(self.eigenvalues))
        if self.tails is not None:
            check_positive("tails", self.tails, "Rows")
        if not 0 <= self.contamination < 0.5:
            raise ValueError(complain("contamination", "Rows", "in [0, 0.5)", self.contamination))
        check_positive("outlier_length", self.outlier_length, "Rows")

    @property
    def n_features(self) -> int:
        """The number of columns d."""
        return len(self.eigenvalues)

    @property
    def normal(self) -> bool:
        """Whether the rows are normal, without outliers."""
        return self.tails is None and not self.contamination

    @property
    def covariance(self) -> Floats:
        """The covariance of rows without outliers, in the eigenbasis; with heavy tails it exceeds the scale matrix."""
        if self.tails is not None and self.tails <= 2:
            raise ValueError(complain("tails", "Rows", "above 2 for rows that have a covariance", self.tails))
        return np.diag(self.eigenvalues * (1.0 if self.tails is None else self.tails / (self.tails - 2)))

    @property
    def variances(self) -> Floats:
        """Variances along the principal directions; those of the scale matrix if variances are infinite."""
        return self.eigenvalues if self.tails is not None and self.tails <= 2 else np.diag(self.covariance)

    def draw(self, count: int, rng: Generator) -> Floats:
        """Draw rows in the eigenbasis, about their centre, outliers included.

        Parameters
        ----------
        count : int
            How many rows.
        rng : numpy.random.Generator
            The generator; the rows are made up, not private.

        Returns
        -------
        (count, d) array
            The rows.
        """
        rows = rng.normal(size=(count, self.n_features)) * np.sqrt(self.eigenvalues)
        if self.tails is not None:
            rows *= np.sqrt(self.tails / rng.chisquare(self.tails, size=(count, 1)))
        if self.contamination:
            rows[rng.random(count) < self.contamination] = self.outlier
        return rows

    @property
    def outlier(self) -> Floats:
        """The position of outliers: orthogonal to the leading directions, if there are others."""
        length = self.outlier_length * float(np.sqrt(self.eigenvalues.sum()))
        return np.append(np.zeros(self.n_features - 1), length)


def spiked(n_features: int, n_components: int, signal: float = SIGNAL) -> Floats:
    """Make some large variances and others of 1.

    Parameters
    ----------
    n_features : int
        The number of columns d.
    n_components : int
        How many are large.
    signal : float, default=10.0
        They are 1 + ``signal``.

    Returns
    -------
    (d,) array
        Eigenvalues, decreasing.
    """
    check_count("n_features", n_features, "spiked")
    check_count("n_components", n_components, "spiked", high=n_features)
    check_positive("signal", signal, "spiked")
    return np.append(np.full(n_components, 1.0 + signal), np.ones(n_features - n_components))


def power_law(n_features: int, exponent: float = 1.0) -> Floats:
    """Make variances 1, 2^−a, 3^−a, …

    Parameters
    ----------
    n_features : int
        The number of columns d.
    exponent : float, default=1.0
        a.

    Returns
    -------
    (d,) array
        Eigenvalues.
    """
    check_count("n_features", n_features, "power_law")
    return np.arange(1.0, n_features + 1) ** -check_positive("exponent", exponent, "power_law")


def from_covariance(source: Release | ArrayLike) -> Floats:
    """Compute the eigenvalues of a public covariance matrix, or of an earlier release, at no further cost.

    Parameters
    ----------
    source : (d, d) array or Release
        The matrix or the release.

    Returns
    -------
    (d,) array
        Eigenvalues, decreasing.
    """
    matrix = np.asarray(source.covariance if isinstance(source, Release) else source, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
        raise ValueError(complain("source", "from_covariance", "a release or a symmetric matrix", matrix.shape))
    values = np.linalg.eigvalsh(matrix)[::-1]
    return np.maximum(values, max(values[0], 1e-300) * 1e-9)


def assumed_rows(spectrum: Any, n_features: int, n_components: int, **options: Any) -> Rows:
    """`Rows` from the caller's options; see `plan`."""
    if isinstance(spectrum, Rows):
        found = spectrum
    else:
        found = Rows(_eigenvalues(spectrum, n_features, n_components), **options)
    if found.n_features != n_features:
        raise ValueError(complain("spectrum", "plan", f"of {n_features} columns", f"{found.n_features}"))
    return found


def _eigenvalues(spectrum: Any, d: int, k: int) -> Floats:
    if spectrum is None or isinstance(spectrum, str):
        spectrum = (spectrum or "spiked", None)
    if isinstance(spectrum, tuple) and spectrum and isinstance(spectrum[0], str):
        name, value = spectrum
        if name == "spiked":
            return spiked(d, min(k, d - 1) or 1, SIGNAL if value is None else value)
        if name == "power-law":
            return power_law(d, 1.0 if value is None else value)
        raise ValueError(
            complain("spectrum", "plan", "'spiked', 'power-law', eigenvalues, a matrix or a release", name)
        )
    if isinstance(spectrum, Release) or np.ndim(spectrum) == 2:
        return from_covariance(spectrum)
    return _checked(spectrum)


def _checked(values: Any) -> Floats:
    found = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1].copy()
    if not len(found) or not np.isfinite(found).all() or found[-1] <= 0:
        raise ValueError(complain("eigenvalues", "Rows", "finite numbers > 0", "others"))
    found.setflags(write=False)
    return found
