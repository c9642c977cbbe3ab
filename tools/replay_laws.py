"""What an answer tells of the statistic behind it, for each kind of noise in the library.

Every loss is an upper bound that the proof of its mechanism gives for the change at hand, computed from the noise that
was really drawn (`tests/test_replay.py` compares the bound for the sparse-vector technique with its exact law).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from replay_tape import Loss
from scipy.special import ndtr

from dpeigen.privacy import histogram

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Independent:
    """Independent noise on every number: Gaussian, priced by the ℓ2 norm, or Laplace, priced by the ℓ1 norm."""

    kind: str
    scales: tuple[tuple[float, int], ...]  # (scale, how many numbers), in the order of the statistic

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:  # noqa: ARG002
        change = difference(before, after).ravel()
        units = np.repeat([scale for scale, _ in self.scales], [count for _, count in self.scales])
        if self.kind == "laplace":
            return (Loss("pure", float(np.sum(np.abs(change) / units))),)
        return (Loss("gaussian", float(np.linalg.norm(change / units))),)


@dataclass(frozen=True)
class Wishart:
    """s·(G₁G₁ᵀ − G₂G₂ᵀ): moving it by P − Q costs (tr P + tr Q)/2s, which is least for the parts of the spectrum."""

    scale: float

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:  # noqa: ARG002
        change = difference(before, after)
        return (Loss("pure", float(np.abs(np.linalg.eigvalsh(change)).sum()) / (2 * self.scale)),)


@dataclass(frozen=True)
class SparseVector:
    """The first of many counts above a threshold, discrete Laplace noise of one scale on all of them and on it.

    Counts that rise by at most a and fall by at most b cost (2a + b)/scale one way and (2b + a)/scale the other.
    """

    scale: float

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:  # noqa: ARG002
        change = difference(after, before)
        rise, fall = max(0.0, float(change.max())), max(0.0, float(-change.min()))
        return (Loss("pure", max(2 * rise + fall, 2 * fall + rise) / self.scale),)


@dataclass(frozen=True)
class NoisyMax:
    """The place of the largest of many scores, noise |Z| on each, Z discrete Laplace; or one such place in each row.

    The threshold that the noise of one score must reach moves by no more than the changes of the scores differ.
    """

    scale: float

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:  # noqa: ARG002
        change = np.atleast_2d(difference(after, before))
        rise, fall = np.maximum(change.max(axis=1), 0), np.maximum(-change.min(axis=1), 0)
        return (Loss("pure", float((rise + fall).sum()) / self.scale),)


@dataclass(frozen=True)
class Histograms:
    """Noise on the counts of occupied bins, shown from a threshold on; statistics are {bin: count} of each column.

    A bin that only one of the tables occupies is never shown for the other: its chance of being shown by noise alone is
    the failure that is paid for in δ.
    """

    kind: str
    scale: float  # in items
    threshold: float  # in items
    unit: int  # grid steps of an item

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:
        shown = [count for column in released for count in column.values()]
        assert all(count >= self.threshold - 1 / self.unit for count in shown), "a bin below the threshold is shown"
        changes = np.array([a.get(bin_, 0) - b.get(bin_, 0) for a, b in zip(before, after, strict=True)
                            for bin_ in a.keys() | b.keys()], dtype=np.float64)  # fmt: skip
        alone = sum(a.keys() != b.keys() for a, b in zip(before, after, strict=True))
        failure = Loss("failure", alone * self.tail())
        if self.kind == "laplace":
            return Loss("pure", float(np.abs(changes).sum()) / self.scale), failure
        return Loss("gaussian", float(np.linalg.norm(changes)) / self.scale), failure

    def tail(self) -> float:
        """The chance that noise alone reaches the threshold."""
        if self.kind == "laplace":
            return math.exp(-math.ceil(self.threshold) / self.scale) / (1 + math.exp(-1 / self.scale))
        return float(ndtr(-(self.threshold - 1 / self.unit) / self.scale))


@dataclass(frozen=True)
class Directions:
    """Directions drawn one after the other from exp(c·uᵀMu), each orthogonal to those before it.

    The utilities of all directions move by between the least and the largest eigenvalue of the change, in the space
    that is left: so much is the bounded range of a draw.
    """

    concentrations: tuple[float, ...]

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:
        change = difference(before, after)
        d, found = len(change), []
        for i, concentration in enumerate(self.concentrations):
            if d - i == 1:
                break  # a last single direction is not a choice
            space = np.linalg.qr(np.column_stack([released[:i].T, np.eye(d)]))[0][:, i:]
            values = np.linalg.eigvalsh(space.T @ change @ space)
            found.append(Loss("range", concentration * float(values[-1] - values[0])))
        return tuple(found)


def difference(before: Any, after: Any) -> Floats:
    """The change of a statistic; integers of any size are subtracted exactly."""
    first, second = np.asarray(before), np.asarray(after)
    if first.dtype.kind != "f":
        first, second = first.astype(object), second.astype(object)
    return np.asarray(first - second).astype(np.float64)


def bins(labels: Floats) -> list[dict[float, int]]:
    """The occupied bins of each column."""
    columns = histogram._occupied(labels)
    return [dict(zip(names.tolist(), counts.tolist(), strict=True)) for names, counts in columns]
