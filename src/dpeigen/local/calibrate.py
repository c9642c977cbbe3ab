"""The noise that a report needs, computed with the standard library: a device can check the server's parameters.

`gaussian_share` solves the analytic Gaussian condition of `privacy.calibration` (Balle and Wang 2018) with `math.erfc`
instead of SciPy; tests compare the two. `CapParameters.of` does the same for the pure randomiser of `privunit`.

>>> round(math.sqrt(2) / gaussian_share(1.0, 1e-5, 3), 4)  # √2 times the σ for sensitivity 1
5.2759
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen._validate import complain

__all__ = [
    "LEAST_DELTA",
    "LEAST_EPSILON",
    "MOST_EPSILON",
    "CapParameters",
    "check_range",
    "gaussian_epsilon",
    "gaussian_share",
    "least_cap",
    "upper_tail",
]

LEAST_EPSILON, MOST_EPSILON, LEAST_DELTA = 1e-4, 50.0, 1e-30
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_TAIL = 64.0
_FLOAT_ERROR = 1e-6  # relative, on δ: far above what the formulas below lose (tests), far below what anyone notices


def _mills(t: float) -> float:
    """(1 − Φ(t))/φ(t) = √(π/2)·erfcx(t/√2), relative error below 1e-12 for t ≥ −6."""
    x = t / math.sqrt(2)
    if x < 20.0:
        return _SQRT_HALF_PI * math.exp(x * x) * math.erfc(x)
    term, total = 1.0, 1.0  # the asymptotic series, at its smallest term far beyond double precision
    for i in range(1, 10):
        term *= -(2 * i - 1) / (2 * x * x)
        total += term
    return _SQRT_HALF_PI * total / (x * math.sqrt(math.pi))


def _log_delta(epsilon: float, mu: float) -> float:
    t = epsilon / mu - mu / 2
    if t < -5.0:
        return math.log(max(upper_tail(t) - math.exp(epsilon) * upper_tail(t + mu), 5e-324))
    if mu < 1e-4:
        middle = t + mu / 2
        gap = mu * (1.0 - middle * _mills(middle))
    else:
        gap = _mills(t) - _mills(t + mu)
    return -t * t / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(max(gap, 5e-324))


def upper_tail(t: float) -> float:
    """1 − Φ(t)."""
    return math.erfc(t / math.sqrt(2)) / 2


def check_range(epsilon: float, delta: float, owner: str) -> None:
    """Refuse budgets that are too extreme for double precision or for any use."""
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise ValueError(complain("epsilon", owner, f"between {LEAST_EPSILON:g} and {MOST_EPSILON:g}", epsilon))
    if delta and not LEAST_DELTA <= delta <= 0.5:
        must = f"0 (pure privacy) or between {LEAST_DELTA:g} and 0.5"
        raise ValueError(complain("delta", owner, must, delta))


def gaussian_share(epsilon: float, delta: float, coordinates: int, steps: float = 2.0**40) -> float:
    """The μ for which discrete Gaussian noise of scale ≥ steps/μ on this many integers is (ε, δ)-private.

    The additional cost of discrete over continuous noise, 2η in ε and a factor e^η in δ, is bounded as in
    `privacy.calibration.discrete_allowance` and subtracted first.
    """
    eta = 0.0
    for _ in range(
        2
    ):  # the second μ is smaller, so its noise is wider and its allowance smaller than what was subtracted
        target, room = math.log(delta) - eta - _FLOAT_ERROR, epsilon - 2 * eta
        low, high = 1e-12, 4.0 * math.sqrt(MOST_EPSILON)
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if _log_delta(room, middle) <= target else (low, middle)
        sigma = steps / low
        eta = coordinates * ((_TAIL**2 + 1) / (8 * sigma**2) + 4 * math.exp(-500.0))
    return low * (1 - 2e-8)


def gaussian_epsilon(mu: float, delta: float, coordinates: int, sigma: float) -> float:
    """The ε, rounded up, that discrete Gaussian noise of scale σ on this many integers gives at δ; μ = sensitivity/σ.

    The inverse of `gaussian_share`, with the same allowance for discrete noise.
    """
    eta = coordinates * ((_TAIL**2 + 1) / (8 * sigma**2) + 4 * math.exp(-500.0))
    target, low, high = math.log(delta) - eta - _FLOAT_ERROR, 0.0, 1.0
    while _log_delta(high, mu) > target:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if _log_delta(middle, mu) <= target else (middle, high)
    return (high + 2 * eta) * (1 + 1e-9)


@dataclass(frozen=True)
class CapParameters:
    """The pure randomiser: directions in a cap of height γ get a higher probability (see `privunit`).

    Attributes
    ----------
    height : γ, in standard deviations of one coordinate.
    coin : the probability of the cap times 2^64, rounded down.
    gain : κ; the mean of a report is κ·S times the unit vector that was reported.
    """

    height: float
    coin: int
    gain: float

    @classmethod
    def of(cls, epsilon: float, coordinates: int, scale: int) -> CapParameters:
        """The γ of the largest gain κ(γ) = φ(γ)·(e^ε − 1)/(1 − q + q·e^ε), q = 1 − Φ(γ), and the coin that is safe."""
        low, high, ratio = 0.0, _highest_cap(coordinates), (math.sqrt(5) - 1) / 2
        while high - low > 1e-9:
            a, b = high - ratio * (high - low), low + ratio * (high - low)
            low, high = (low, b) if _gain(a, epsilon) > _gain(b, epsilon) else (a, high)
        height = float(f"{(low + high) / 2:.6f}")  # a short public number; the optimum is flat
        q = least_cap(height, coordinates, scale)
        odds = math.exp(epsilon) * q / (1 - q) * (1 - 1e-12)
        coin = math.floor(odds / (1 + odds) * (1 - 1e-12) * 2.0**64)
        p, middle = coin / 2.0**64, upper_tail(height)
        density = math.exp(-height * height / 2) / math.sqrt(2 * math.pi)
        return cls(height, coin, density * (p / middle - (1 - p) / (1 - middle)))


def _highest_cap(coordinates: int) -> float:
    """The height of the smallest cap: at most 2^8 trials, or 2^22 numbers, are expected until a draw is inside it."""
    least, low, high = min(max(2.0**-8, coordinates / 2.0**22), 0.25), 0.0, 3.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle) >= least else (low, middle)
    return low


def _gain(height: float, epsilon: float) -> float:
    q = upper_tail(height)
    return math.exp(-height * height / 2) / (math.exp(-epsilon) * (1 - q) + q)  # ∝ κ, without overflow


def least_cap(height: float, coordinates: int, scale: int) -> float:
    """A lower bound on the probability of any cap of this height (proof in `privunit`)."""
    shift = math.sqrt(coordinates) / (2 * scale) + 2.0**-19 / scale + 1e-12
    eta = coordinates * (_TAIL**2 + 1) / (8 * float(scale) ** 2)
    return upper_tail(height + shift) * math.exp(-eta) * (1 - 1e-12) - 1e-300
