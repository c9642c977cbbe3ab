"""A purely private report of a direction: PrivUnit on integers.

Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018; the Gaussian form of Asi, Feldman, Talwar 2022, whose constants are
those of the best unbiased randomiser up to a factor that tends to 1 with the dimension.

Let w be an integer vector that represents the direction to be reported, and D the law of m independent exact discrete
Gaussians of scale S = 2^27. The cap of w is C(w) = {g : ⟨g, w⟩ ≥ γ·S·‖w‖}, q(w) = D(C(w)). With probability p the
report is g ~ D given C(w), otherwise g ~ D given the complement.

Guarantee: ε-local differential privacy, exactly, for the integers that are sent. The mass of g is D(g) times p/q(w)
inside the cap and (1 − p)/(1 − q(w)) outside. If q̲ ≤ q(w) ≤ q̄ for every w, two inputs differ at g by at most the
largest of

    p/(1−p) · (1−q̲)/q̲,    q̄/q̲,    (1−q̲)/(1−q̄),    (1−p)/p · q̄/(1−q̄),

and p is chosen, rounded down, so that the first is ≤ e^ε; q̄/q̲ is within 1e-4 of 1, so the others are smaller.

q̲: g is D; let G be continuous, N(0, S²) in each coordinate. D and the law of the rounded G agree within e^{±η}, η =
m·(64² + 1)/8S² (`privacy.calibration.discrete_allowance`) outside an event of probability below e^−2000. |⟨round G,
w⟩ − ⟨G, w⟩| ≤ ‖w‖₁/2 ≤ √m‖w‖/2, and ⟨G, w⟩ is N(0, S²‖w‖²), so 1 − Φ(γ + h) ≤ e^η·q(w) with h = √m/2S + 1/(S‖w‖), the
last for rounding the threshold up to an integer. The norm of w drops out: the threshold is relative to it.

Everything is computed in integers: scores are exact sums in 64 bits (a draw whose norm could overflow is drawn again,
whatever w is; probability below e^−1000), and the coin is a comparison of 64-bit words. Draws continue until there is
one inside the cap and one outside, and only then is one of the two chosen. So the time does not reveal which was
chosen, and the distribution of the time depends on q(w) only, which is the same for all w within 1e-4.

A row of norm below the bound has ‖xxᵀ‖ = r < 1 in units of the bound: its direction is sent with sign + with
probability (1 + r)/2 and − otherwise, which has the right mean. Rounding of signs and of w only changes the input of
the randomiser, so it costs no privacy.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats, Integers
from dpeigen.local.calibrate import CapParameters, upper_tail
from dpeigen.privacy.randomness import Randomness

__all__ = ["LARGEST", "LENGTH", "SCALE", "direction", "randomise"]

SCALE = 2**27
LENGTH = 2**20  # of w, about
LARGEST = 2.0**62 / (2 * LENGTH)  # norm of a draw: scores stay in 64 bits, and √m·SCALE is far below for 8192 columns
_BATCH = 2**16  # numbers drawn at once, at most, unless a single trial needs more


def direction(vector: Floats, size: float, rng: Randomness) -> Integers:
    """An integer vector that points to ±``vector``, + with probability (1 + size)/2 for a size in [0, 1]."""
    norm = math.sqrt(math.fsum((vector * vector).tolist())) if size > 0 else 0.0
    if norm == 0.0:
        vector, norm, size = np.eye(1, len(vector))[0], 1.0, 0.0
    sign = 1.0 if float(rng.uniform(1)[0]) < (1 + size) / 2 else -1.0
    whole: Integers = np.rint(vector * (sign * LENGTH / norm)).astype(np.int64)
    return whole


def randomise(w: Integers, cap: CapParameters, rng: Randomness) -> Integers:
    """The report: m integers of scale `SCALE`."""
    m = len(w)
    squared = int(np.dot(w, w))
    threshold = math.ceil(cap.height * SCALE * math.sqrt(squared))
    trials = max(1, min(math.ceil(1.5 / upper_tail(cap.height)) + 1, _BATCH // m))
    inside: Integers | None = None
    outside: Integers | None = None
    while inside is None or outside is None:
        draws = rng.discrete_gaussian(SCALE, m * trials).reshape(-1, m)
        norms = np.sqrt(np.einsum("ij,ij->i", draws.astype(np.float64), draws.astype(np.float64)))
        draws = draws[norms < LARGEST]
        high = draws @ w >= threshold
        if inside is None and high.any():
            inside = draws[int(np.argmax(high))]
        if outside is None and not high.all():
            outside = draws[int(np.argmin(high))]
    return inside if rng.word() < cap.coin else outside
