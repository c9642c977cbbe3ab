"""Populations for `intervals.py`: random ones of many shapes, and public tables, whose rows are drawn anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import gamma, nbinom, poisson

from dpeigen import PrivatePCA

LAWS = ("normal", "student", "exponential", "uniform", "mixture", "skewed factors")
COLUMNS = ("normal", "lognormal", "long lognormal", "counts", "long counts", "rare", "share", "uniform", "spike")
SIGNS = ("kendall", "spatial-sign")
MOMENTS = ("gaussian", "matrix-laplace", "laplace")
METHODS = ("auto", "whitened", "eigenvector-sampling", *MOMENTS, *SIGNS)
NEEDS_DELTA = {"gaussian", *SIGNS}
NEEDS_BOUND = {"eigenvector-sampling", *MOMENTS}


def truth_of(covariance: np.ndarray, mean: np.ndarray, scaled: bool, about_zero: bool = False) -> dict[str, np.ndarray]:
    covariance = covariance + np.outer(mean, mean) if about_zero else covariance
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    return {"covariance": correlation if scaled else covariance, "correlation": correlation, "mean": mean}


def spectral_truth(covariance: np.ndarray, known: np.ndarray) -> dict[str, np.ndarray]:
    """Eigenvalues, shares and components of the known columns; loadings of others are not judged (NaN)."""
    values, vectors = np.linalg.eigh(covariance[np.ix_(known, known)])
    components = np.full((len(values), len(known)), np.nan)
    components[:, known] = np.clip(vectors[:, ::-1].T, -1.0, 1.0)  # rounding can make a loading exceed 1
    return {"eigenvalues": values[::-1], "shares": values[::-1] / values.sum(), "components": components}


@dataclass(frozen=True)
class Asked(ABC):
    """What is asked of a population."""

    seed: int
    n: int
    epsilon: float
    scaled: bool
    law: str
    options: dict[str, Any] = field(default_factory=lambda: {"delta": 1e-6}, kw_only=True)

    @property
    @abstractmethod
    def d(self) -> int:
        """Columns."""

    @property
    def about_zero(self) -> bool:
        """Whether moments are about 0, and not about the mean."""
        return self.options.get("center", "private") is None

    def truth_of_table(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """What the same numbers are for these rows."""
        return truth_of(np.cov(rows.T, bias=True), rows.mean(axis=0), self.scaled, self.about_zero)

    def fit(self, rows: np.ndarray, seed: int) -> Any:
        scale = "private" if self.scaled else None
        options = {"epsilon": self.epsilon, "scale": scale, "random_state": seed} | self.options
        return PrivatePCA(min(3, self.d), **options).fit(rows).release_

    def __str__(self) -> str:
        asked = " ".join(f"{name}={value}" for name, value in self.options.items() if (name, value) != ("delta", 1e-6))
        scaled = "scaled" if self.scaled else "      "
        return f"n={self.n:6d} d={self.d:2d} ε={self.epsilon:4.2f} {self.law[:11]:11} {scaled} {asked}"


@dataclass(frozen=True)
class Setting(Asked):
    """Linear combinations of independent sources of one law."""

    root: np.ndarray  # rows are sources @ root.T + mean, sources uncorrelated, of variance 1
    mean: np.ndarray
    freedom: float

    @property
    def d(self) -> int:
        return len(self.root)

    @classmethod
    def of(cls, seed: int, quick: bool, options: dict[str, Any] | None = None) -> Setting:
        rng = np.random.default_rng([23, seed])
        n = int(np.exp(rng.uniform(np.log(500), np.log(10_000 if quick else 50_000))))
        d = int(rng.integers(3, 13 if quick else 31))
        epsilon = float(np.exp(rng.uniform(np.log(0.3), np.log(8))))
        law = LAWS[int(rng.integers(len(LAWS)))]
        levels = np.exp(rng.uniform(0, np.log(30), size=d) * (rng.random(d) < 0.4))
        turn = (
            np.linalg.qr(rng.normal(size=(d, d)))[0]
            if rng.random() < 0.6
            else np.eye(d) + np.tri(d, k=-1) * rng.normal(size=(d, d)) * 0.3
        )
        units = 10 ** rng.uniform(-2, 2, size=d) if rng.random() < 0.5 else np.ones(d)
        mean = rng.normal(size=d) * 3
        return cls(
            seed, n, epsilon, bool(rng.random() < 0.5), law, units[:, None] * turn * np.sqrt(levels), units * mean,
            float(rng.uniform(5, 12)), options=options or {"delta": 1e-6},
        )  # fmt: skip

    def rows(self, rng: np.random.Generator) -> np.ndarray:
        shape = self.n, self.d
        if self.law in ("normal", "student"):
            sources = rng.normal(size=shape)
            if self.law == "student":
                sources *= np.sqrt((self.freedom - 2) / rng.chisquare(self.freedom, size=(self.n, 1)))
        elif self.law == "exponential":
            sources = rng.exponential(size=shape) - 1
        elif self.law == "uniform":
            sources = rng.uniform(-np.sqrt(3), np.sqrt(3), size=shape)
        elif self.law == "mixture":  # two groups of people
            sources = rng.normal(size=shape)
            sources[:, 0] = (sources[:, 0] + 2 * rng.choice([-1.0, 1.0], size=self.n)) / np.sqrt(5)
        else:
            sources = rng.normal(size=shape)
            sources[:, :2] = (rng.gamma(2.0, size=(self.n, 2)) - 2) / np.sqrt(2)
        return sources @ self.root.T + self.mean

    def truth(self) -> dict[str, np.ndarray]:
        return truth_of(self.root @ self.root.T, self.mean, self.scaled, self.about_zero)


@dataclass(frozen=True)
class Drawn(Asked):
    """A finite population whose rows are drawn with replacement."""

    @abstractmethod
    def population(self) -> np.ndarray:
        """All rows."""

    @cached_property
    def _population(self) -> np.ndarray:
        return self.population()

    @property
    def d(self) -> int:
        return self._population.shape[1]

    def rows(self, rng: np.random.Generator) -> np.ndarray:
        return self._population[rng.integers(len(self._population), size=self.n)]

    def truth(self) -> dict[str, np.ndarray]:
        return self.truth_of_table(self._population)


def column_of(law: str, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A normal column turned into one of another law."""
    if law == "normal":
        return z
    if law.endswith("lognormal"):
        return np.exp(z * rng.uniform(0.3, 0.7) if law == "lognormal" else z * rng.uniform(0.8, 1.2))
    u = np.clip(ndtr(z), 1e-12, 1 - 1e-12)
    if law == "uniform":
        return u
    if law in ("rare", "share"):
        return (u > 1 - (rng.uniform(0.02, 0.08) if law == "rare" else rng.uniform(0.1, 0.6))).astype(float)
    if law == "counts":
        return poisson.ppf(u, rng.uniform(1, 8))
    if law == "long counts":
        return nbinom.ppf(u, 0.7, 0.7 / (0.7 + rng.uniform(1, 8)))
    zeros = rng.uniform(0.3, 0.8)  # nothing for most rows, as money that is spent or lost
    return np.where(u < zeros, 0.0, gamma.ppf(np.clip((u - zeros) / (1 - zeros), 1e-12, 1 - 1e-12), 1.5))


@dataclass(frozen=True)
class Columns(Drawn):
    """Columns of laws of their own, made of correlated normal ones."""

    most_columns: int

    @classmethod
    def of(cls, seed: int, quick: bool, options: dict[str, Any] | None = None) -> Columns:
        rng = np.random.default_rng([41, seed])
        n = int(np.exp(rng.uniform(np.log(500), np.log(10_000 if quick else 50_000))))
        epsilon, scaled = float(np.exp(rng.uniform(np.log(0.3), np.log(8)))), bool(rng.random() < 0.5)
        return cls(seed, n, epsilon, scaled, "columns", 13 if quick else 31, options=options or {"delta": 1e-6})

    @cached_property
    def laws(self) -> list[str]:
        rng = np.random.default_rng([43, self.seed])
        few = rng.choice(len(COLUMNS), size=int(rng.integers(1, 5)))  # a table has columns of a few kinds
        return [COLUMNS[j] for j in rng.choice(few, size=int(rng.integers(3, self.most_columns)))]

    def population(self) -> np.ndarray:
        rng, laws = np.random.default_rng([47, self.seed]), self.laws
        d = len(laws)
        root = rng.normal(size=(d, min(3, d))) * rng.uniform(0.3, 1.2)
        z = rng.normal(size=(200_000, root.shape[1])) @ root.T + rng.normal(size=(200_000, d))
        z /= np.sqrt(1 + (root**2).sum(axis=1))
        units = 10 ** rng.uniform(-1, 1, size=d) if rng.random() < 0.5 else np.ones(d)
        return np.column_stack([column_of(law, z[:, j], rng) for j, law in enumerate(laws)]) * units


@dataclass(frozen=True)
class TableSetting(Drawn):
    """A public table as the population."""

    table: Any

    @classmethod
    def of(cls, seed: int, tables: list, options: dict[str, Any] | None = None) -> TableSetting:
        rng = np.random.default_rng([31, seed])
        table = tables[int(rng.integers(len(tables)))]
        n = int(np.exp(rng.uniform(np.log(1000), np.log(20_000))))
        epsilon = float(np.exp(rng.uniform(np.log(0.5), np.log(8))))
        return cls(seed, n, epsilon, bool(rng.random() < 0.5), table.name, table, options=options or {"delta": 1e-6})

    def population(self) -> np.ndarray:
        return self.table.X


def options_of(seed: int) -> dict[str, Any]:
    """A method, δ and a centre, drawn from the seed."""
    rng = np.random.default_rng([53, seed])
    method = METHODS[int(rng.integers(len(METHODS)))]
    delta = 1e-6 if method in NEEDS_DELTA or rng.random() < 0.5 else 0.0
    options: dict[str, Any] = {"delta": delta}
    if method != "auto":
        options["method"] = method
    if method in NEEDS_BOUND:
        options["bound"] = "private"
    if rng.random() < 0.3 and method != "kendall":
        options["center"] = None
    return options
