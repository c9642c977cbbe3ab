"""The meaning of a guarantee: the probability with which the best attacker guesses right about one row.

>>> round(best_guess(1.0, 0.0), 3), round(best_guess(1.0, 0.0, prior=0.1), 3)
(0.731, 0.9)
"""

from __future__ import annotations

import math

from dpeigen._validate import complain

__all__ = ["best_guess"]


def best_guess(epsilon: float, delta: float, prior: float = 0.5) -> float:
    """Compute the highest probability of guessing right which of two neighbouring data sets was used, under (ε, δ)-DP.

    A test with error rates (α, β) has β ≥ 1 − δ − e^ε·α and α ≥ 1 − δ − e^ε·β (Kairouz, Oh, Viswanath 2015). So the
    best test is at a corner of that region: it (nearly) always gives the answer with the larger prior, or both error
    rates are (1 − δ)/(1 + e^ε).

    Parameters
    ----------
    epsilon : float
        ε ≥ 0.
    delta : float
        δ in [0, 1].
    prior : float, default=0.5
        The attacker's prior probability of the first data set.

    Returns
    -------
    float
        A probability.
    """
    if not 0 < prior < 1:
        raise ValueError(complain("prior", "best_guess", "in (0, 1)", prior))
    shrink = math.exp(-epsilon)
    wrong = shrink * (1 - delta) / (1 + shrink)  # (1 − δ)/(1 + e^ε), without overflow
    always = max(prior, 1 - prior)
    return max(1 - wrong, always + delta * (1 - always))
