"""One cell of a comparison: a method, an ε and a repetition, fitted and measured against the truth.

A cell has its own random stream (`derived_generator`), given by the seed, the method, ε and the repetition. So its
results do not depend on which cells were run before it, in which process, or on how many there are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.estimators import PrivateCovariance, PrivatePCA
from dpeigen.evaluation.synthetic import Synthetic
from dpeigen.methods import Method
from dpeigen.privacy.randomness import SeededRandomness, derived_generator
from dpeigen.release import Release
from dpeigen.stats.spectrum import (
    captured_variance,
    projection_distance,
    relative_frobenius,
    sin_theta,
    symmetric_eigh,
)
from dpeigen.stats.threads import single_blas

__all__ = ["FLOOR", "Cell", "Result", "Work", "run_cell", "second_moment"]

Result = dict[str, Any]
FLOOR = "non-private"  # the label of the answer without privacy


@dataclass(frozen=True)
class Cell:
    """One run. The error without privacy has no ε."""

    label: str
    epsilon: float | None
    repetition: int


@dataclass(frozen=True)
class Work:
    """The settings that all cells share."""

    data: Floats | Synthetic
    methods: dict[str, str | Method]
    n_components: int | None
    delta: float
    bound: Any
    center: Any
    relation: str
    seed: int
    truth: Floats  # the covariance, or the second moment about a public centre

    def rows(self, repetition: int) -> Floats:
        if isinstance(self.data, Synthetic):
            return _drawn(self.data, self.seed, repetition)
        return self.data


@lru_cache(maxsize=1)
def _drawn(data: Synthetic, seed: int, repetition: int) -> Floats:
    """The rows of a repetition, which all methods share; cells are ordered by repetition."""
    return data.draw(seed, repetition)


def second_moment(rows: Floats, center: Any, weights: Floats | None = None) -> Floats:
    """The estimand: the covariance, or the second moment about a public centre; weights sum to 1."""
    if isinstance(center, str):
        origin = rows.mean(axis=0) if weights is None else weights @ rows
    else:
        origin = np.zeros(rows.shape[1]) if center is None else np.asarray(center, dtype=np.float64)
    centered = rows - origin
    return centered.T @ (centered / len(rows) if weights is None else centered * weights[:, None])


def run_cell(work: Work, cell: Cell) -> Result:
    """Fit and measure the errors. A refusal or a failure is a result with a reason."""
    with single_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seeded release is not private, or a guarantee not worst-case
        if cell.epsilon is None:
            return _floor(work, cell)
        try:
            return _fit(work, cell, cell.epsilon)
        except (ValueError, TypeError) as error:
            return {"status": "refused", "reason": " ".join(str(error).split())}
        except MemoryError:
            raise
        except Exception as error:  # one broken method must not lose the others
            return {"status": "failed", "reason": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _fit(work: Work, cell: Cell, epsilon: float) -> Result:
    method = work.methods[cell.label]
    stream = derived_generator(work.seed, cell.label, cell.epsilon, cell.repetition)
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": work.delta,
        "method": method,
        "bound": work.bound,
        "center": work.center,
        "relation": work.relation,
        "random_state": SeededRandomness(stream),
    }
    rows = work.rows(cell.repetition)
    if work.n_components is None:
        release: Release = PrivateCovariance(**options).fit(rows).release_
    else:
        release = PrivatePCA(work.n_components, **options).fit(rows).release_
    promise = release.guarantee
    about = {
        "mechanism": promise.mechanism,
        "basis": promise.basis,
        "spent_epsilon": promise.epsilon,
        "spent_delta": promise.delta,
    }
    return {"status": "done", **about, **_errors(work, release.components, release.covariance)}


def _floor(work: Work, cell: Cell) -> Result:
    """The error without privacy: of a fresh sample for synthetic data, of a bootstrap sample for a table."""
    rows, weights = work.rows(cell.repetition), None
    if not isinstance(work.data, Synthetic):
        n = len(rows)
        drawn = derived_generator(work.seed, FLOOR, cell.repetition).integers(n, size=n)
        weights = np.bincount(drawn, minlength=n) / n
    sample = second_moment(rows, work.center, weights)
    components = symmetric_eigh(sample)[1][: work.n_components]
    return {"status": "done", "mechanism": FLOOR, "basis": "none", **_errors(work, components, sample)}


def _errors(work: Work, components: Floats, covariance: Floats) -> Result:
    errors = {"relative_frobenius": relative_frobenius(covariance, work.truth)}
    if work.n_components is not None:
        truth = symmetric_eigh(work.truth)[1][: work.n_components]
        errors |= {
            "sin_theta": sin_theta(components, truth),
            "projection_distance": projection_distance(components, truth),
            "captured_variance": captured_variance(components, work.truth),
        }
    return errors
