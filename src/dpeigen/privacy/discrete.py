"""Exact discrete Gaussians with an integer scale, from random 64-bit words, with NumPy alone.

Reasons for our own sampler: a device that randomises its own row has NumPy and nothing else, and OpenDP draws one
number at a time, which is 40 times slower (at 300 columns, longer than the rest of a fit). Exact means that the mass of
n is exactly proportional to exp(−n²/2s²), given that the words are uniform and independent.

Algorithm: n = ±(k·s + j) with 0 ≤ j < s. Propose a sign, k with probability 2^−(k+1) (the zeros at the end of a word)
and j uniform (a word modulo s, drawn again above the last multiple of s), and accept with probability

    exp(−((k + j/s)² − 1)/2) · 2^(k−1),

which is at most 1 (reached at k = 1, j = 0), and √e/4·√(π/2) = 0.52 on average. Minus zero is rejected, so that zero is
not counted twice. A proposal is accepted if a uniform number is below that probability. The first 63 bits of the
uniform number are compared with the probability in floating point, whose relative error is below 2^−38. Only if the two
are relatively closer than 2^−36, more bits are drawn and compared in decimal arithmetic with as many digits as needed.

>>> from dpeigen.privacy.randomness import DeviceRandomness
>>> abs(float(DeviceRandomness().discrete_gaussian(2.0**40, 1000).std()) / 2**40 - 1) < 0.2
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Integers

__all__ = ["LARGEST_SCALE", "MARGIN", "Source", "Words", "sample"]

Words = NDArray[np.uint64]
Source = Callable[[int], Words]  # takes a number n and returns n uniform, independent words

MARGIN = 2.0**-36
LARGEST_SCALE = 2**56
_ACCEPTED = 0.5
_MOST_AT_ONCE = 2**16  # proposals that fit into the cache, which is five times as fast
_LOW = np.uint64(2**63 - 1)


def sample(scale: int, size: int, words: Source, *, margin: float = MARGIN) -> Integers:
    """``size`` independent integers with mass ∝ exp(−n²/2·scale²)."""
    if not 1 <= scale <= LARGEST_SCALE:
        raise ValueError(f"The scale of discrete Gaussian noise must be between 1 and 2^56 grid steps. Got {scale}.")
    kept: list[Integers] = []
    missing = size
    while missing > 0:
        batch = min(int(missing / _ACCEPTED) + 16, _MOST_AT_ONCE)
        found = _proposals(scale, batch, words, margin)[:missing]
        kept.append(found)
        missing -= len(found)
    return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)


def _proposals(scale: int, batch: int, words: Source, margin: float) -> Integers:
    """The accepted values of a batch of proposals."""
    shape, place, uniform = words(3 * batch).reshape(3, batch)
    negative = shape >> np.uint64(63) == 1
    k = _trailing_zeros(shape & _LOW, words)
    j = place % np.uint64(scale)
    fair = place <= np.uint64(2**64 // scale * scale - 1)
    u = uniform >> np.uint64(1)
    below, above = _thresholds(k, j.astype(np.float64) / scale, margin)
    accept = u < below
    for i in np.flatnonzero((u >= below) & (u < above)):
        accept[i] = _decide(int(k[i]), int(j[i]), scale, int(u[i]), words)
    accept &= fair & ~(negative & (k == 0) & (j == 0))
    size = k * np.int64(scale) + j.astype(np.int64)
    return np.where(negative, -size, size)[accept]


def _trailing_zeros(low: Words, words: Source) -> Integers:
    """The number of zeros at the end of each word of 63 bits; after a word of zeros, counting continues in another."""
    lowest = low & (~low + np.uint64(1))
    k = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    for i in np.flatnonzero(low == 0):
        k[i] = 63 + int(_trailing_zeros(words(1) & _LOW, words)[0])
    return k


def _thresholds(k: Integers, x: NDArray[np.float64], margin: float) -> tuple[Words, Words]:
    """2^63 times the acceptance probability, from below and from above."""
    logarithm = (1.0 - (k + x) ** 2) / 2 + (k - 1) * math.log(2)
    middle = np.exp(np.minimum(logarithm, 0.0)) * 2.0**63
    below = np.floor(middle * (1 - margin)).astype(np.uint64)
    return below, np.ceil(middle * (1 + margin) + 1e-300).astype(np.uint64)


def _decide(k: int, j: int, scale: int, bits: int, words: Source) -> bool:
    """Whether a uniform number that begins with these 63 bits is below the acceptance probability, exactly."""
    length, digits, n = 63, 60, k * scale + j
    while True:
        context = Context(prec=digits, Emin=-(10**9), Emax=10**9)
        exponent = context.divide(Decimal(scale * scale - n * n), Decimal(2 * scale * scale))
        probability = context.multiply(context.exp(exponent), context.power(Decimal(2), Decimal(k - 1)))
        target = context.multiply(probability, Decimal(2**length))
        # Four operations, each correct to half a unit of the last digit; exp amplifies the error of the first.
        error = context.multiply(target, context.scaleb(abs(exponent) + 10, 1 - digits))
        if Decimal(bits + 1) <= context.subtract(target, error):
            return True
        if Decimal(bits) >= context.add(target, error):
            return False
        bits = bits << 64 | int(words(1)[0])
        length, digits = length + 64, digits + 40
