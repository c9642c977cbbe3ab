"""Stability-based histograms over infinitely many bins: noise is added to occupied bins, and large counts are shown.

Every item has one label in each of m columns; the bins of a column are its labels. Each occupied bin gets exact
discrete noise. Its label and noisy count are released if that count reaches the threshold t. Empty bins, of which
there are infinitely many, are never released.

Guarantee, for every data set. Let D, D′ be neighbours and F the bins occupied in either. Let M̂ add noise to all of F
and show the counts that reach t. M̂ is an ordinary additive mechanism on counts that differ by (replace) −1 and +1 in
each column. So with discrete Laplace noise of scale 2m/ε it is ε-DP, and with discrete Gaussian noise of scale √(2m)/μ
it is μ-Gaussian DP (add/remove: m/ε, √m/μ). The real mechanism M differs from M̂ on D only if a bin of F that is empty
in D reaches t by its noise alone. There is at most one such bin in each column, so this has probability at most
m·P(noise ≥ t) ≤ ``failure``. So if M̂ together with everything else that is done to the same rows is (ε, δ)-DP, then
with M in its place it is (ε, δ + (1 + e^ε)·failure)-DP, because M(D) ≤ M̂(D) + f ≤ e^ε·M̂(D′) + δ + f ≤
e^ε·(M(D′) + f) + δ + f. `tail_delta` and `failure_of` convert between the two. Thresholds: for discrete Laplace noise
and integer t ≥ 1, P(noise ≥ t) = e^{−t/b}/(1 + e^{−1/b}). For discrete Gaussian noise it is at most that of the
continuous one at t − 1 grid step (Canonne, Kamath, Steinke 2020, Proposition 25). Only the 2m bins that differ matter
for the allowance of discrete noise.

The share (0, (1 + e^ε)·failure) of δ also holds if the total is evaluated at another ε, as by a ledger. Consider a bin
that only D occupies. It holds one item there and is never shown on D′. If it is shown, with probability s = P(noise ≥ t
− 1), it reveals D; if it is not shown, it is as if it were absent. A bin that only D′ occupies is never shown on D, and
not shown on D′ with probability 1 − s. So one bin of each kind together reveal no more than a (0, s)-DP step, and so
does one bin alone. Hence M is dominated by the Gaussian or pure step on the bins that both occupy, together with a (0,
m·s)-DP step. For Laplace noise m·s ≤ e^ε·failure, because one item changes a tail by at most e^{1/b}. Gaussian tails
may fall faster, so their thresholds are raised to keep m·s ≤ 2·failure. That raises them by less than one item, and not
at all if the scale of the noise is a dozen items or more.

After Bun, Nissim, Stemmer 2016 and Karwa, Vadhan 2018, Lemma 2.3. The running time depends on the number of occupied
bins.

>>> from dpeigen.privacy.randomness import SystemRandomness
>>> labels = np.repeat([7.0, -3.0], [900, 2])[:, None]
>>> found = stable_histograms(labels, PureCost(1.0), failure_of(1e-6, 1.0), Relation.REPLACE, SystemRandomness())
>>> list(found[0])
[7.0]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import ApproximateCost, Cost, GaussianCost, PureCost, Relation, Spend, pure_epsilon
from dpeigen.privacy.randomness import Randomness

__all__ = ["failure_of", "most_popular", "noise_scale", "stable_histograms", "tail_delta", "tail_spend", "threshold"]

_UNIT = int(LEAST_SENSITIVITY)  # grid steps per item if the noise is Gaussian
_MOST_ITEMS = 2**29  # counts in grid steps, with noise, stay inside 64-bit integers
_AT_ONCE = 4096  # items
_NARROW = 64  # columns with at most this many bins per item are counted in one pass


def tail_delta(failure: float, epsilon: float) -> float:
    """The δ, at ε, of showing an empty bin with probability ``failure``."""
    return failure * (1 + math.exp(epsilon))


def failure_of(delta: float, epsilon: float) -> float:
    """The probability of failure that a share δ of the budget pays for at ε; the inverse of `tail_delta`."""
    return delta * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def tail_spend(purpose: str, failure: float, epsilon: float) -> Spend:
    """The record of that share of δ; its tiny ε represents 0."""
    return Spend(purpose, "chance of an empty bin", ApproximateCost(epsilon * 2.0**-42, tail_delta(failure, epsilon)))


def noise_scale(cost: Cost, columns: int, relation: Relation) -> float:
    """The scale of the noise on a count, in items, for the histograms of this many columns together."""
    moved = (2 if relation is Relation.REPLACE else 1) * columns
    exact = math.sqrt(moved) / cost.mu if isinstance(cost, GaussianCost) else moved / pure_epsilon(cost)
    return math.nextafter(exact, math.inf)


def threshold(cost: Cost, columns: int, failure: float, relation: Relation) -> float:
    """The smallest noisy count, in items, that is shown."""
    if not 0 < failure < 0.5:
        raise ValueError(f"The failure probability must lie strictly between 0 and 1/2. Got {failure!r} instead.")
    scale, each = noise_scale(cost, columns, relation), failure / columns
    if isinstance(cost, GaussianCost):
        wide = scale + 2 / _UNIT  # the scale of the noise is a whole number of grid steps, rounded up
        empty, single = (wide * max(0.0, -float(ndtri(p))) * (1 + 1e-12) for p in (each, min(2 * each, 0.5)))
        return max(empty, 1 + single) + 2 / _UNIT
    return float(math.ceil(max(1.0, scale * -math.log(each * (1 + math.exp(-1 / scale))) * (1 + 1e-12))))


def stable_histograms(
    labels: Floats, cost: Cost, failure: float, relation: Relation, rng: Randomness
) -> list[dict[float, float]]:
    """The bins that reach the threshold, with noisy counts, for each column of ``labels`` (items × columns, integers).

    Costs ``cost`` for all columns together, and `tail_delta` of ``failure``.
    """
    if not isinstance(cost, (GaussianCost, PureCost)):
        raise TypeError(f"A histogram is paid for in pure ε or in μ, not by {cost}")
    items, columns = labels.shape
    if items > _MOST_ITEMS:
        raise ValueError(f"A histogram holds at most {_MOST_ITEMS} items. Got {items}.")
    scale, least = noise_scale(cost, columns, relation), threshold(cost, columns, failure, relation)
    bins = _occupied(labels)
    sizes = [len(names) for names, _ in bins]
    counts = np.concatenate([counts for _, counts in bins]) if columns else np.zeros(0, dtype=np.int64)
    if isinstance(cost, GaussianCost):
        noise = rng.discrete_gaussian(math.nextafter(scale * _UNIT, math.inf), len(counts))
        unit = _UNIT
    else:
        noise, unit = rng.discrete_laplace(scale, len(counts)), 1
    noisy = counts * unit + noise
    shown = noisy >= math.ceil(least * unit)
    found = []
    for (names, _), end in zip(bins, np.cumsum(sizes), strict=True):
        part = slice(end - len(names), end)
        kept = shown[part]
        found.append({float(n): float(c) / unit for n, c in zip(names[kept], noisy[part][kept], strict=True)})
    return found


def most_popular(histogram: dict[float, float]) -> float | None:
    """The label of the largest noisy count; None if no bin was shown."""
    return max(histogram, key=histogram.__getitem__) if histogram else None


def _occupied(labels: Floats) -> list[tuple[Floats, NDArray[np.int64]]]:
    """Labels and counts of the occupied bins, column by column, labels in increasing order."""
    items, columns = labels.shape
    if not items:
        return [(np.zeros(0), np.zeros(0, dtype=np.int64)) for _ in range(columns)]
    low, high = labels.min(axis=0), labels.max(axis=0)
    with np.errstate(over="ignore"):
        width = high - low
    narrow = (width < _NARROW) & (np.abs(low) < 2**52) & (np.abs(high) < 2**52)
    whole = [(np.zeros(0), np.zeros(0, dtype=np.int64))] * columns
    chosen = np.flatnonzero(narrow)
    if len(chosen):
        # One pass for all narrow columns: sorting each of them would be the slowest step of a batch.
        offsets = np.arange(len(chosen)) * float(_NARROW) - low[chosen]
        table = np.zeros((len(chosen), _NARROW), dtype=np.int64)
        for start in range(0, items, _AT_ONCE):
            part = labels[start : start + _AT_ONCE]
            cells = (part if narrow.all() else part[:, chosen]) + offsets
            table += np.bincount(cells.astype(np.intp).ravel(), minlength=table.size).reshape(table.shape)
        for row, column in enumerate(chosen):
            at = np.flatnonzero(table[row])
            whole[column] = (low[column] + at, table[row, at])
    for column in np.flatnonzero(~narrow):
        names, counts = np.unique(labels[:, column], return_counts=True)
        whole[column] = (names, counts.astype(np.int64))
    return whole
