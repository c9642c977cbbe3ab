"""Made-up rows with a known covariance: nobody's data, so that every error may be looked at.

>>> made = Synthetic.parse("spiked:rows=1000,columns=5,spikes=2,strength=10")
>>> made.eigenvalues.tolist()
[10.0, 10.0, 1.0, 1.0, 1.0]
>>> made.draw(seed=0, repetition=0).shape
(1000, 5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.privacy.randomness import derived_generator

_OWNER = "Synthetic"


@dataclass(frozen=True)
class Synthetic:
    """Rows of a multivariate Gaussian or Student distribution, in a basis drawn once for each seed.

    Parameters
    ----------
    spectrum : "spiked" (``spikes`` eigenvalues of size ``strength``, the others 1) or "power" (the i-th is i^−decay).
    rows, columns : the size of a table; every repetition draws a new one.
    spikes, strength : of "spiked".
    decay : of "power".
    tail : degrees of freedom > 2 of Student's distribution, scaled to the same covariance; inf is Gaussian.
    offset : the mean of every column.
    """

    spectrum: str
    rows: int
    columns: int
    spikes: int = 3
    strength: float = 10.0
    decay: float = 1.0
    tail: float = math.inf
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_choice("spectrum", self.spectrum, ["spiked", "power"], _OWNER)
        check_count("rows", self.rows, _OWNER, low=2)
        check_count("columns", self.columns, _OWNER)
        if self.spectrum == "spiked":
            check_count("spikes", self.spikes, _OWNER, low=0, high=self.columns)
        check_positive("strength", self.strength, _OWNER)
        check_positive("decay", self.decay, _OWNER)
        if not self.tail > 2:
            remedy = "Student's distribution has no covariance otherwise."
            raise ValueError(complain("tail", _OWNER, "above 2", self.tail, remedy))
        if not math.isfinite(self.offset):
            raise ValueError(complain("offset", _OWNER, "finite", self.offset))

    @classmethod
    def parse(cls, text: str) -> Synthetic:
        """From "spiked:rows=5000,columns=20,spikes=3,strength=10,tail=5"."""
        spectrum, _, rest = text.partition(":")
        known = {field.name: field.type for field in fields(cls) if field.name != "spectrum"}
        values: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            name, _, value = part.partition("=")
            name = name.strip()
            if name not in known:
                raise ValueError(complain("synthetic", "compare", f"name=value with a name of {list(known)}", part))
            try:
                values[name] = int(value) if known[name] == "int" else float(value)
            except ValueError:
                must = f"name=value with {'an integer' if known[name] == 'int' else 'a number'}"
                raise ValueError(complain("synthetic", "compare", must, part)) from None
        if not {"rows", "columns"} <= values.keys():
            must = "given with rows and columns, as spiked:rows=5000,columns=20"
            raise ValueError(complain("synthetic", "compare", must, text))
        return cls(spectrum.strip(), **values)

    @property
    def eigenvalues(self) -> Floats:
        """Of the covariance, in the order of the basis."""
        number = np.arange(1, self.columns + 1)
        if self.spectrum == "power":
            return np.asarray(number**-self.decay, dtype=np.float64)
        return np.where(number <= self.spikes, float(self.strength), 1.0)

    def basis(self, seed: int) -> Floats:
        """The eigenvectors, as rows: a uniformly random orthogonal matrix, the same in all repetitions."""
        drawn = derived_generator(seed, "basis").standard_normal((self.columns, self.columns))
        q, r = np.linalg.qr(drawn)
        return (q * np.sign(np.diag(r))).T

    def covariance(self, seed: int) -> Floats:
        """Of the distribution, not of a sample."""
        basis = self.basis(seed)
        return (basis.T * self.eigenvalues) @ basis

    def mean(self) -> Floats:
        """Of the distribution."""
        return np.full(self.columns, float(self.offset))

    def draw(self, seed: int, repetition: int) -> Floats:
        """The table of one repetition."""
        generator = derived_generator(seed, "rows", repetition)
        rows = generator.standard_normal((self.rows, self.columns)) * np.sqrt(self.eigenvalues)
        if math.isfinite(self.tail):
            # (chi-squared/tail)^½ divides; the factor (1 − 2/tail)^½ brings the covariance back.
            rows *= np.sqrt((self.tail - 2) / generator.chisquare(self.tail, size=(self.rows, 1)))
        return rows @ self.basis(seed) + self.offset

    def __str__(self) -> str:
        shape = f"{self.spikes} spikes of {self.strength:g}" if self.spectrum == "spiked" else f"i^−{self.decay:g}"
        tail = f"Student {self.tail:g}" if math.isfinite(self.tail) else "Gaussian"
        return f"{tail} rows, {self.rows:,}×{self.columns}, {shape}"
