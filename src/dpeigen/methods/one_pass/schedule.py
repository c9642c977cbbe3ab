"""How rows are divided among the batches of ``dp-pca``, from public facts and released ratios of eigenvalues.

Guarantee: nothing is read or spent here. All arguments are public or were released before.

A step on a mean of m gradients changes the squared tangent P of the angle to P′ = (1 − g)²P + g²·(1 + P)·N(m), if it
goes a fraction g of the way (`gain`), where N(m) is the variance of the noisy mean in squared units of the gap. Noise
for privacy falls with 1/m, so one large batch beats the average of many small ones; small batches are good enough while
the error is still dominated by the start. So batches grow by a constant factor. `plan_batches` tries factors and
numbers of batches and keeps the best prediction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

__all__ = ["CAUTION", "MOST_STEPS", "START", "cautious", "gain", "plan_batches", "predicted_error", "row_shares"]

MOST_STEPS = 40  # of a direction, unless batches are as large as memory allows
_GROWTHS = (1.0, 1.1, 1.2, 1.35, 1.5, 1.8, 2.2, 3.0)
CAUTION = 0.6
START = 10.0  # times d: the ¾ quantile of the squared tangent of a random start
_WIDTH = 2.4  # the radius of gradients over √(their direction's variance × all of it), for Gaussian rows


def gain(error: float, noise: float, most: float) -> tuple[float, float]:
    """The fraction of the way to the gradient's direction that a step goes, and the remaining squared error.

    With squared error P before, a step of fraction g leaves (1 − g)²P + g²·noise, which is least at g = P/(P + noise).
    The largest possible g is ``most`` = (λ₁ − λ₂)/λ₁, a step of the power method. After the effect of the start has
    vanished, g = 1/(ξ + t).
    """
    share = min(error / (error + noise), most)
    return share, (1 - share) ** 2 * error + share**2 * noise


def predicted_error(means: Sequence[float], d: int, mu: float, ratio: float) -> float:
    """The squared tangent after steps on means of these numbers of gradients, from a random start.

    ``ratio``: of the next eigenvalue to this one; all others are assumed to be as large as the next.
    """
    rest, gap = (d - 1) * ratio, 1 - ratio
    error = START * d
    for m in means:
        variance = d * (2 * _WIDTH * math.sqrt(1 + rest) / (mu * m)) ** 2 + rest / m
        _, error = gain(error, (1 + error) * variance / gap**2, gap)
    return error


def plan_batches(
    rows: int, first: int, least: int, most: int, mean_of: Callable[[int, bool], float], d: int, mu: float, ratio: float
) -> list[int]:
    """Sizes of the batches of one direction that use ``rows`` rows and have the best prediction.

    ``first``, ``least``, ``most``: fewest rows of the first batch and of the others, and the most of any.
    ``mean_of(size, is_first)``: how many gradients of a batch are averaged.
    """
    best, error = [min(rows, most)], math.inf
    fewest = math.ceil(rows / most)
    for growth, more in itertools.product(_GROWTHS, range(MOST_STEPS)):
        count = fewest + more
        sizes = _grown(rows, count, growth, first, least, most)
        if sizes is None:
            if first + least * (count - 1) > rows:
                continue
            break
        if count > MOST_STEPS and growth > 1.0 and more:
            break  # memory is the limit: growth affects the first few batches only
        found = predicted_error([mean_of(size, not i) for i, size in enumerate(sizes)], d, mu, ratio)
        if found < error:
            best, error = sizes, found
    return best


def _grown(rows: int, count: int, growth: float, first: int, least: int, most: int) -> list[int] | None:
    """``count`` sizes that grow by a factor, within their limits, and add up to all rows; None if there are none."""
    if first + least * (count - 1) > rows or most * count < rows:
        return None
    shape = [growth ** (i - count + 1) for i in range(count)]
    floor = [first] + [least] * (count - 1)
    low, high = 0.0, float(rows) * 2
    for _ in range(40):
        middle = (low + high) / 2
        total = sum(min(max(middle * s, f), most) for s, f in zip(shape, floor, strict=True))
        low, high = (middle, high) if total <= rows else (low, middle)
    return [int(min(max(low * s, f), most)) for s, f in zip(shape, floor, strict=True)]


def cautious(ratio: float) -> float:
    """A ratio of eigenvalues that is more likely too large than too small, from the middle of its bin.

    The bins of −log₂ of the ratio are a factor of two or four wide (`questions.scale`). Steps that converge faster than
    planned cost little, and slower ones much.
    """
    return float(ratio**CAUTION)


def row_shares(ratios: Sequence[float]) -> list[float]:
    """The fraction of the rows that each direction gets.

    The error of direction j over n_j rows is about c_j/n_j with c_j ∝ 1/(√λ_j·(1 − λ_{j+1}/λ_j)); the sum of squares is
    least for n_j ∝ c_j^(2/3).
    """
    levels = [math.prod(ratios[:j]) for j in range(len(ratios))]
    weights = [
        (max(level, 1e-3) ** -0.5 / max(1 - ratio, 0.1)) ** (2 / 3) for level, ratio in zip(levels, ratios, strict=True)
    ]
    return [weight / math.fsum(weights) for weight in weights]
