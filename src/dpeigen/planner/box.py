"""Assumed rows in a box of public column bounds: the spreads of columns are proportional to the widths.

A box says more about columns than a radius does. The columns are assumed to have standard deviations proportional to
the half-widths, as far as the eigenvalues allow. By the theorem of Schur and Horn there is a symmetric matrix with
given eigenvalues and a given diagonal if and only if the eigenvalues majorise the diagonal, and plane rotations find
one (Chan and Li 1983). If they do not, the diagonal is reduced to one that they majorise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from dpeigen._types import Floats
from dpeigen.methods.base import Task
from dpeigen.privacy.randomness import Generator, made_up_generator

__all__ = ["BoxedAxes"]

_RANDOM = (1.0, 0.6, 0.4, 0.25, 0.15, 0.1, 0.05, 0.0)


@dataclass(frozen=True)
class BoxedAxes:
    """A box about the centre of the rows, and the orientation of their principal directions in it."""

    turn: Floats  # d × d, orthogonal: a row in the eigenbasis times ``turn.T`` is in the box's columns
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, task: Task, eigenvalues: Floats) -> BoxedAxes | None:
        """The box of a task; None if there is none."""
        if not isinstance(task.bound, tuple):
            return None
        lower, upper = task.bound
        origin = lower / 2 + upper / 2 if isinstance(task.center, str) else 0.0 if task.center is None else task.center
        found = cls(np.eye(len(lower)), lower - origin, upper - origin)
        return cls(_turn(eigenvalues, found.half**2, made_up_generator(len(lower))), found.lower, found.upper)

    @property
    def half(self) -> Floats:
        """Half-widths from the centre, as `methods.framing` uses them."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    @property
    def weights(self) -> Floats | None:
        """Weights of columns in weighted frames; None if all are the same."""
        return 1 / np.sqrt(self.half) if np.ptp(self.half) > 0 else None

    def clipped(self, rows: Floats) -> Floats:
        """Rows in the eigenbasis, clipped to the box."""
        inside = rows @ self.turn.T
        if ((inside >= self.lower) & (inside <= self.upper)).all():
            return rows
        return np.clip(inside, self.lower, self.upper) @ self.turn


def _turn(eigenvalues: Floats, widths: Floats, rng: Generator) -> Floats:
    """An orthogonal U for which the diagonal of UΛUᵀ is about proportional to the widths."""
    wanted = _majorised(widths * (eigenvalues.sum() / widths.sum()), eigenvalues)
    d = len(wanted)
    order = np.argsort(-wanted, kind="stable")
    skew = rng.normal(size=(d, d)) * (math.pi / math.sqrt(8 * d))
    for share in _RANDOM:  # as random as the wanted diagonal allows
        turn = expm(share * (skew - skew.T)) if share else np.eye(d)
        diagonal = np.einsum("ij,j,ij->i", turn, eigenvalues, turn)
        if _share(wanted, diagonal) >= 1 - 1e-9:
            break
    largest = np.argsort(-diagonal, kind="stable")
    turn, diagonal, goals = turn[largest], diagonal[largest], wanted[order]  # both decreasing
    tolerance = 1e-9 * float(wanted.mean())
    for _ in range(2 * d):
        short, long = np.flatnonzero(goals - diagonal > tolerance), np.flatnonzero(diagonal - goals > tolerance)
        if not len(short) or not (long < short[0]).any():
            break
        j, i = int(short[0]), int(long[long < short[0]][-1])  # chosen such that both goals are between the two values
        moved = min(diagonal[i] - goals[i], goals[j] - diagonal[j])
        cos, sin = _rotation(diagonal[i], diagonal[j], float((turn[i] * eigenvalues) @ turn[j]), diagonal[i] - moved)
        turn[[i, j]] = cos * turn[i] + sin * turn[j], cos * turn[j] - sin * turn[i]
        diagonal[i] -= moved
        diagonal[j] += moved
    return np.asarray(turn[np.argsort(order, kind="stable")])


def _rotation(a: float, b: float, c: float, goal: float) -> tuple[float, float]:
    """(cos, sin) for which cos²·a + 2·cos·sin·c + sin²·b is the goal, between a and b."""
    # In t = tan: (b − goal)t² + 2ct + (a − goal) = 0, whose ends have opposite signs.
    root = math.sqrt(max(c * c - (b - goal) * (a - goal), 0.0))
    q = -(c + math.copysign(root, c))
    t = (a - goal) / q if q else 0.0
    cos = 1 / math.hypot(1.0, t)
    return cos, cos * t


def _majorised(wanted: Floats, eigenvalues: Floats) -> Floats:
    """A diagonal close to the wanted one that the eigenvalues (decreasing, with the same sum) majorise.

    The partial sums of its largest entries are the smaller of the wanted ones and those of the eigenvalues. The minimum
    of two concave sequences is concave, so its differences decrease too.
    """
    order = np.argsort(-wanted, kind="stable")
    sums = np.minimum(np.cumsum(wanted[order]), np.cumsum(eigenvalues))
    found = np.empty_like(wanted)
    found[order] = np.diff(sums, prepend=0.0)
    return found


def _share(wanted: Floats, values: Floats) -> float:
    """The largest t ≤ 1 such that the values majorise mean + t·(wanted − mean); both have the same sum."""
    mean = float(wanted.mean())
    excess = np.cumsum(np.sort(wanted)[::-1] - mean)[:-1]
    allowed = np.cumsum(np.sort(values)[::-1] - mean)[:-1]
    beyond = excess > 1e-12 * mean
    return float(np.clip(np.min(allowed[beyond] / excess[beyond]), 0.0, 1.0)) if beyond.any() else 1.0
