"""The cost of many noisy steps that each use a random part of the rows (needs the ``accounting`` extra).

Guarantee: for parts of a fixed size drawn without replacement, one row replaced, and Gaussian noise of standard
deviation ``noise`` times the ℓ2 sensitivity in each step. Rényi accounting by Theorem 27 of Wang, Balle,
Kasiviswanathan 2019, as implemented in dp-accounting, whose events take the noise relative to the sensitivity under
replacement.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

__all__ = ["subsampled_epsilon", "subsampled_noise"]

_ORDERS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128]  # any order gives a bound
_LEAST_NOISE = 1e-100  # below this the accountant's sums overflow, and it reports no privacy loss


def _dp_accounting() -> Any:
    try:
        import dp_accounting  # takes 1-2 s, so it is imported only here
        from dp_accounting import rdp
    except ImportError as error:
        raise ImportError(
            "Steps on random parts of the rows need dp-accounting: install 'dpeigen[accounting]'"
        ) from error
    return dp_accounting, rdp


@lru_cache(maxsize=256)
def subsampled_epsilon(size: int, rows: int, steps: int, noise: float, delta: float) -> float:
    """The ε at δ of ``steps`` steps, each on ``size`` of ``rows`` rows."""
    dp_accounting, rdp = _dp_accounting()
    if not noise > _LEAST_NOISE:
        return math.inf
    accountant = rdp.RdpAccountant(_ORDERS, dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.SampledWithoutReplacementDpEvent(rows, size, dp_accounting.GaussianDpEvent(noise))
    try:
        accountant.compose(event, steps)
        return float(accountant.get_epsilon(delta))
    except (ValueError, OverflowError):  # its sums overflow: no answer means no guarantee
        return math.inf


def subsampled_noise(size: int, rows: int, steps: int, epsilon: float, delta: float) -> float:
    """The least noise, to 0.1%, with which the steps cost at most (ε, δ); infinite if this accountant finds none."""
    high = 1.0
    while subsampled_epsilon(size, rows, steps, high, delta) > epsilon:
        high *= 2
        if high > 2**20:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        fits = subsampled_epsilon(size, rows, steps, middle, delta) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high
