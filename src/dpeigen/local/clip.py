"""A sum of reports that is robust to false ones: each report is shortened to the norm that honest ones stay below.

Post-processing, so it costs no privacy. Let R be the matrix of a report and ‖R‖ its largest absolute eigenvalue. An
honest R is the sum of at most r rows xxᵀ, which adds up to r·bound² at most, and noise G that is σ times a symmetric
Gaussian matrix with variance 1 on and ½ off the diagonal. For unit vectors u, v, E(uᵀGu − vᵀGv)² = σ²‖uuᵀ − vvᵀ‖² ≤
2σ²‖u − v‖², so by Sudakov and Fernique E max uᵀGu ≤ σ√(2p); the maximum is a σ-Lipschitz function of the Gaussians,
so that

    P(‖R‖ > r·bound² + σ(√(2p) + t)) ≤ 2·exp(−t²/2).

t is chosen so that this is `CHANCE`. The report of the pure randomiser has at most e^ε times the probability of plain
noise, which is included in t, and its mean is part of it. A longer report is multiplied by a factor, so that its norm
is at most the limit. A false report along one direction may have the order σ·p in the plain sum; clipped, it has the
order σ√(2p).

The clipped reports are integers again, each a function of one report, so order and splitting do not matter (on machines
whose eigenvalues agree to six digits).
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Integers
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.privunit import SCALE
from dpeigen.stats.lattice import LEVELS

__all__ = ["CHANCE", "Clip", "longest_honest"]

CHANCE = 1e-3  # the largest probability that an honest report is shortened
_STEPS = 2.0**20  # of the factor, which is rounded down


def longest_honest(parameters: LocalParameters, rows: int) -> float:
    """The limit that ‖R‖ of an honest report exceeds with probability at most `CHANCE`, in steps."""
    pure = parameters.mechanism == "privunit"
    t = math.sqrt(2 * (math.log(2 / CHANCE) + (parameters.epsilon if pure else 0.0)))
    whole, scale = (0.0, float(SCALE)) if pure else (float(rows * LEVELS**2), parameters.widest + 2.0)
    return 1.001 * (whole + scale * (math.sqrt(2 * parameters.n_features) + t))  # the rest is rounding to the grid


class Clip:
    """Shortens reports of one study."""

    def __init__(self, parameters: LocalParameters) -> None:
        self._parameters = parameters
        self._upper = np.triu_indices(parameters.n_features)
        on = self._upper[0] == self._upper[1]
        root = math.sqrt(0.5) if parameters.mechanism == "privunit" else 1.0
        self._weights = np.where(on, 1.0, root)  # from what is sent to entries of the matrix

    def __call__(self, steps: Integers, rows: int) -> tuple[Integers, bool]:
        """The steps to add up, and whether they were shortened."""
        most = longest_honest(self._parameters, rows)
        matrix = np.zeros((self._parameters.n_features,) * 2)
        matrix[self._upper] = steps * self._weights
        values = np.linalg.eigvalsh(matrix, UPLO="U")
        length = float(max(abs(values[0]), abs(values[-1])))
        if length <= most:
            return steps, False
        factor = math.floor(most / length * _STEPS) / _STEPS
        short: Integers = np.rint(steps * factor).astype(np.int64)
        return short, True
