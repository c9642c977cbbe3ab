"""The lengths of the target and the constant in the joint rows of a regression inside column bounds, by public facts.

In the noisy sum of (w, x, y)(w, x, y)ᵀ every feature has a half-width of 1, the target one of h, and the constant,
which gives the mean, a length of w. An entry of the mean moment has noise of deviation τ = κ·(p + h² + w²), where κ is
that of rows in the unit ball. Relative to the target's half-width, its mean is off by τ/(w·h), and b̂ − Âβ by
τ·√(1/h² + ‖β‖²) in every direction; a good penalty shrinks this where it exceeds the target's part in that direction.
So if noise is small, h and w should be small compared with √p, the length of the features, whose covariances matter. If
noise is so large that hardly more than the mean of the target can be known, h and w above √p would be best.

A model of a few kinds of target (``_WORLDS``) gives the h² and w² with the least average loss of R². Each kind states
which part of its half-width a target varies by, and how much of that the features explain. Methods that do not weight
columns use `quiet_length` for h instead.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods.base import Task
from dpeigen.privacy import gaussian_mu

__all__ = ["joint_lengths", "lengths", "quiet_length"]

_SPREAD = 0.2  # the variance of a feature along a direction that matters, in squares of its half-width
_USUAL = 10  # the number of features up to which this holds; wide tables have many indicators, which vary less
_OFFSET = 0.15  # the squared mean of a column, in the same unit
_DIRECTIONS = 0.3  # a power of the number of features: the number of directions in which they explain the target
_MOST_LOST = 1.5  # of R²: larger losses are not distinguished
_LEAST_NOISE = 1e-9  # without noise all lengths would be equally good
# The variance of the target in squares of its half-width, and the part of it that the features explain.
_WORLDS = [(spread, explained) for spread in (0.01, 0.05, 0.25) for explained in (0.1, 0.4, 0.8)]
# h² and w² over p. With both at 1.4 an entry of b̂ has noise of 3.2·κ√p, less than a third of the budget spent on b̂
# alone would give it (2√3·κ√p). Larger ones would improve the mean and hide targets that features explain well.
_LENGTHS = np.logspace(-1.5, 0.15, 34)


def joint_lengths(task: Task) -> tuple[float, float]:
    """h and w in units of a feature's half-width; w is 0 if no mean is asked for.

    If the number of rows is private, noise is assumed to be small.
    """
    budget, noise = task.budget, _LEAST_NOISE
    if task.n_terms is not None:
        entry = math.sqrt(2 * (task.n_features + 1)) / budget.epsilon
        if not budget.is_pure:
            entry = min(entry, 1 / gaussian_mu(budget.epsilon, budget.delta))
        noise = max(noise, entry / max(1, task.n_terms))
    return lengths(task.n_features - 1, noise, center=task.private_center)


@lru_cache(maxsize=64)
def lengths(p: int, noise: float, *, center: bool) -> tuple[float, float]:
    """The same for p features and κ, the deviation of an entry for rows in the unit ball: those with the least loss."""
    target, constant = p * _LENGTHS[:, None], p * _LENGTHS[None, :] if center else np.zeros((1, 1))
    lost = _lost(p, noise, target, constant)
    row, column = np.unravel_index(np.argmin(lost), lost.shape)
    return math.sqrt(target[row, 0]), math.sqrt(constant[0, column])


def quiet_length(p: int) -> float:
    """h² if noise is small: it minimises (1 + t²)·√(1/t² + c²), t = h/√p, at c² = p/8.

    Noise grows as p + h², and moves coefficients in proportion to √(1/h² + c²/p), where c = ‖β‖·√p/h. If p features
    explain a target completely, each as spread in its bounds as the target, c is about √p. Most targets are explained
    in part, and coefficients are penalised.
    """
    reach = p / 8
    return p * (math.sqrt(1 + 8 * reach) - 1) / (4 * reach)


def _lost(p: int, noise: float, target: Floats, constant: Floats) -> Floats:
    """The mean loss of R², for squared lengths of target and constant."""
    entry = (noise * (p + target + constant)) ** 2
    weighed = constant > 0
    about = np.divide(1.0, constant, out=np.zeros_like(constant), where=weighed)
    directions, width = p**_DIRECTIONS, _SPREAD * min(1.0, math.sqrt(_USUAL / p))
    lost = np.zeros(np.broadcast_shapes(target.shape, constant.shape))
    for spread, explained in _WORLDS:
        length = explained * spread / width  # ‖β‖²
        moved = entry * (1 / target + length) * (1 + _OFFSET * about) / width
        each = explained * spread / directions
        lost += np.minimum((entry * about / target + directions * each * moved / (each + moved)) / spread, _MOST_LOST)
    return lost / len(_WORLDS)
