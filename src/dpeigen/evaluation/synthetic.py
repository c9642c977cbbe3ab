"""Made-up rows with a known covariance: they are nobody's data, so errors may be computed.

>>> made = Synthetic.parse("spiked:rows=1000,columns=5,spikes=2,strength=10")
>>> made.eigenvalues.tolist()
[10.0, 10.0, 1.0, 1.0, 1.0]
>>> made.draw(seed=0, repetition=0).shape
(1000, 5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.privacy.randomness import Generator, derived_generator

__all__ = ["KINDS", "Synthetic"]

_OWNER = "Synthetic"
KINDS = ("cluster", "symmetric", "scatter", "ray")
_SPREAD = 0.05  # of a cluster, in units of the smallest variances
_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": {"true": True, "false": False}.__getitem__,
}
_WORDS = {"int": "an integer", "float": "a number", "str": "a word", "bool": "true or false"}


@dataclass(frozen=True)
class Synthetic:
    """Rows of a multivariate Gaussian or Student distribution, in a basis drawn once for each seed; outliers if wanted.

    Errors are measured against the truth for rows that are not outliers: their covariance or, if tails are so heavy
    that there is none, the dispersion matrix of the distribution, which has the same axes.

    Parameters
    ----------
    spectrum : {"spiked", "power"}
        "spiked": ``spikes`` eigenvalues of size ``strength``, the others 1. "power": the i-th is i^−decay.
    rows : int
        Rows of a table; every repetition draws a new one.
    columns : int
        Columns of a table.
    spikes : int, default=3
        Of "spiked".
    strength : float, default=10.0
        Of "spiked".
    decay : float, default=1.0
        Of "power".
    tail : float, default=inf
        Degrees of freedom of Student's distribution; inf is Gaussian. Above 2 it is scaled to the same covariance; up
        to 2 it has none, and the eigenvalues are those of the dispersion matrix (1: Cauchy).
    offset : float, default=0.0
        The mean of every column.
    outliers : float, default=0.0
        The share of rows that are outliers, in [0, 0.5).
    kind : {"cluster", "symmetric", "scatter", "ray"}, default="cluster"
        The kind of outliers. "cluster": all about one point. "symmetric": about that point and its mirror image.
        "scatter": in random directions. "ray": in one direction, at random distances up to the given one and beyond.
    distance : float, default=5.0
        Of outliers from the centre, in root mean square lengths of the other rows (roots of the trace of their
        dispersion matrix).
    across : bool, default=True
        The direction of outliers: at right angles to all leading directions, in the last one of the basis, or (False)
        halfway between the first and the last.
    """

    spectrum: str
    rows: int
    columns: int
    spikes: int = 3
    strength: float = 10.0
    decay: float = 1.0
    tail: float = math.inf
    offset: float = 0.0
    outliers: float = 0.0
    kind: str = "cluster"
    distance: float = 5.0
    across: bool = True

    def __post_init__(self) -> None:
        check_choice("spectrum", self.spectrum, ["spiked", "power"], _OWNER)
        check_count("rows", self.rows, _OWNER, low=2)
        check_count("columns", self.columns, _OWNER)
        if self.spectrum == "spiked":
            check_count("spikes", self.spikes, _OWNER, low=0, high=self.columns)
        check_positive("strength", self.strength, _OWNER)
        check_positive("decay", self.decay, _OWNER)
        if not self.tail > 0:
            raise ValueError(complain("tail", _OWNER, "above 0", self.tail))
        if not 0 <= self.outliers < 0.5:
            raise ValueError(complain("outliers", _OWNER, "a share of the rows in [0, 0.5)", self.outliers))
        check_choice("kind", self.kind, list(KINDS), _OWNER)
        check_positive("distance", self.distance, _OWNER)
        if not math.isfinite(self.offset):
            raise ValueError(complain("offset", _OWNER, "finite", self.offset))

    @classmethod
    def parse(cls, text: str) -> Synthetic:
        """Read a setting from text.

        Parameters
        ----------
        text : str
            Such as "spiked:rows=5000,columns=20,spikes=3,strength=10,tail=5".

        Returns
        -------
        Synthetic
            The setting.
        """
        spectrum, _, rest = text.partition(":")
        known = {field.name: field.type for field in fields(cls) if field.name != "spectrum"}
        values: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            name, _, value = part.partition("=")
            name = name.strip()
            if name not in known:
                raise ValueError(complain("synthetic", "compare", f"name=value with a name of {list(known)}", part))
            try:
                values[name] = _PARSERS[str(known[name])](value.strip())
            except (ValueError, KeyError):
                must = f"name=value with {_WORDS[str(known[name])]}"
                raise ValueError(complain("synthetic", "compare", must, part)) from None
        if not {"rows", "columns"} <= values.keys():
            must = "given with rows and columns, as spiked:rows=5000,columns=20"
            raise ValueError(complain("synthetic", "compare", must, text))
        return cls(spectrum.strip(), **values)

    @property
    def eigenvalues(self) -> Floats:
        """Eigenvalues of the covariance, in the order of the basis."""
        number = np.arange(1, self.columns + 1)
        if self.spectrum == "power":
            return np.asarray(number**-self.decay, dtype=np.float64)
        return np.where(number <= self.spikes, float(self.strength), 1.0)

    def basis(self, seed: int) -> Floats:
        """Draw the eigenvectors: a uniformly random orthogonal matrix, the same in all repetitions.

        Parameters
        ----------
        seed : int
            The seed of the comparison.

        Returns
        -------
        (d, d) array
            Eigenvectors, as rows.
        """
        drawn = derived_generator(seed, "basis").standard_normal((self.columns, self.columns))
        q, r = np.linalg.qr(drawn)
        return (q * np.sign(np.diag(r))).T

    def covariance(self, seed: int) -> Floats:
        """Return the covariance of the distribution without outliers, or its dispersion matrix if it has none.

        Parameters
        ----------
        seed : int
            The seed of the comparison.

        Returns
        -------
        (d, d) array
            The matrix.
        """
        basis = self.basis(seed)
        return (basis.T * self.eigenvalues) @ basis

    def mean(self) -> Floats:
        """Return the mean of the distribution.

        Returns
        -------
        (d,) array
            The mean.
        """
        return np.full(self.columns, float(self.offset))

    def draw(self, seed: int, repetition: int) -> Floats:
        """Draw the table of one repetition.

        Parameters
        ----------
        seed : int
            The seed of the comparison.
        repetition : int
            Counted from 0.

        Returns
        -------
        (n, d) array
            The rows.
        """
        generator = derived_generator(seed, "rows", repetition)
        rows = generator.standard_normal((self.rows, self.columns)) * np.sqrt(self.eigenvalues)
        if math.isfinite(self.tail):
            # (chi-squared/tail)^½ divides; the factor (1 − 2/tail)^½ brings the covariance back.
            scale = self.tail - 2 if self.tail > 2 else self.tail
            rows *= np.sqrt(scale / generator.chisquare(self.tail, size=(self.rows, 1)))
        if self.outliers:
            self._replace(rows, derived_generator(seed, "outliers", repetition))
        return rows @ self.basis(seed) + self.offset

    def _replace(self, rows: Floats, generator: Generator) -> None:
        """Put outliers in the place of a share of the rows, which are in the order of the basis."""
        which = generator.choice(self.rows, size=round(self.outliers * self.rows), replace=False)
        count, length = len(which), self.distance * math.sqrt(float(self.eigenvalues.sum()))
        place = np.zeros(self.columns)
        place[-1] = 1.0
        if not self.across:
            place[0] = 1.0
        place *= length / np.linalg.norm(place)
        if self.kind == "scatter":
            drawn = generator.standard_normal((count, self.columns))
            rows[which] = drawn * (length / np.linalg.norm(drawn, axis=1, keepdims=True))
            return
        factors = np.ones((count, 1))
        if self.kind == "symmetric":
            factors = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)[:, None]
        elif self.kind == "ray":
            factors = 2 * generator.random((count, 1))
        rows[which] = factors * place + _SPREAD * generator.standard_normal((count, self.columns))

    def __str__(self) -> str:
        shape = f"{self.spikes} spikes of {self.strength:g}" if self.spectrum == "spiked" else f"i^−{self.decay:g}"
        tail = f"Student {self.tail:g}" if math.isfinite(self.tail) else "Gaussian"
        away = f", {100 * self.outliers:g}% outliers ({self.kind})" if self.outliers else ""
        return f"{tail} rows, {self.rows:,}×{self.columns}, {shape}{away}"
