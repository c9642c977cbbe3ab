"""Black-box audits and exact privacy losses, with which tests check the guarantees.

`audit` runs a mechanism many times on two neighbouring data sets, searches for an event in the first half of the
runs and estimates its two probabilities p, q from the second half. Whichever event is found, the bounds

    ε ≥ ln((p_low − δ)/q_high)   and, for μ-Gaussian DP,   μ ≥ Φ⁻¹(p_low) − Φ⁻¹(q_high)

each hold with the stated confidence: the Clopper-Pearson bounds (α/2 each) are exact and use fresh runs only
(Jagielski, Ullman, Oprea 2020; Nasr et al. 2023). An audit can prove a mechanism wrong, never right. It draws
no random numbers of its own; the outputs must be independent between runs.

`hockey_stick`, `exact_epsilon_discrete` and `hockey_stick_density` take the probabilities themselves instead
of runs, and give the privacy loss exactly.

>>> import numpy as np
>>> def too_little_noise(count, runs):  # sensitivity 1, Laplace noise for ε = 2
...     return count + np.random.default_rng(count).laplace(scale=0.5, size=(runs, 1))
>>> result = audit(too_little_noise, 3, 4, runs=20_000)
>>> result.violates(1.0), result.violates(2.0)
(True, False)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.special import betainccinv, betaincinv, ive, ndtri

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_delta, check_fraction, complain

__all__ = [
    "AuditResult",
    "Event",
    "LogDensity",
    "Mechanism",
    "audit",
    "bingham_circle_log_density",
    "exact_epsilon_discrete",
    "find_events",
    "gaussian_log_density",
    "hockey_stick",
    "hockey_stick_density",
    "laplace_log_density",
    "repeat",
    "scores",
]

Mechanism = Callable[[Any, int], ArrayLike]  # (data, runs) → runs outputs, one per row
LogDensity = Callable[[float], float]
_Score = Callable[[Floats], Floats]
_Bound = Callable[[Floats, Floats], Floats]


def repeat(single: Callable[[Any], ArrayLike]) -> Mechanism:
    """A mechanism for `audit`, from one that answers once per call."""

    def many(data: Any, runs: int) -> Floats:
        return np.stack([np.asarray(single(data), dtype=np.float64).ravel() for _ in range(runs)])

    return many


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit. In ``trials`` fresh runs on each data set, ``event`` occurred ``hits`` times."""

    epsilon_lower: float
    event: str
    hits: tuple[int, int]
    mu_lower: float
    mu_event: str
    mu_hits: tuple[int, int]
    trials: int
    runs: int
    delta: float
    confidence: float

    def violates(self, epsilon: float) -> bool:
        """Whether the mechanism is proven not to be (ε, δ)-DP."""
        return self.epsilon_lower > epsilon

    def violates_gaussian(self, mu: float) -> bool:
        """Whether the mechanism is proven not to be μ-Gaussian DP."""
        return self.mu_lower > mu

    def __str__(self) -> str:
        return (
            f"ε ≥ {self.epsilon_lower:.4g} at δ = {self.delta:g}, confidence {self.confidence:.10g}: "
            f"{self.event} in {self.hits[0]} of {self.trials} runs on the first data set, "
            f"{self.hits[1]} on the second"
        )


def audit(
    mechanism: Mechanism, first: Any, second: Any, *, runs: int, delta: float = 0.0, confidence: float = 0.999
) -> AuditResult:
    """Lower bounds on the privacy loss of ``mechanism`` between two neighbouring data sets.

    ``mechanism(data, runs)`` returns ``runs`` independent outputs (wrap a one-answer mechanism in `repeat`).
    It may map them to a statistic that separates the data sets best: processing never adds to the privacy loss. The
    events are half-lines of each coordinate, of the sum of squares, of the difference of means, and of
    Fisher's discriminant in the coordinates, without and with their squares.
    """
    runs = check_count("runs", runs, "audit", low=100)
    delta = check_delta(delta, "audit")
    check_fraction("confidence", confidence, "audit")
    samples = [_outputs(mechanism, data, runs) for data in (first, second)]
    if samples[0].shape != samples[1].shape:
        must = "a function whose outputs have one length"
        raise ValueError(complain("mechanism", "audit", must, [s.shape[1] for s in samples]))
    half = runs // 2
    search, fresh = [s[:half] for s in samples], [s[half:] for s in samples]

    bounds = _bounds(delta)
    proven = []
    for bound, event in zip(bounds, find_events(*search, delta=delta, confidence=confidence), strict=True):
        hits = (event.hits(fresh[0]), event.hits(fresh[1]))
        p, q = event.probabilities(hits, runs - half, confidence)
        value = float(bound(np.array(p), np.array(q)))
        proven.append((max(0.0, value), str(event), hits))
    return AuditResult(*proven[0], *proven[1], runs - half, runs, delta, confidence)


def find_events(first: Floats, second: Floats, *, delta: float = 0.0, confidence: float = 0.999) -> tuple[Event, Event]:
    """The events with the largest expected bounds on ε and on μ in these runs, to be tested on fresh runs."""
    alpha, bounds, samples = (1 - confidence) / 2, _bounds(delta), [first, second]
    candidates = [_best(name, score, samples, bounds, alpha) for name, score in scores(first, second)]
    by_epsilon, by_mu = (max(events, key=lambda e: e.value) for events in zip(*candidates, strict=True))
    return by_epsilon, by_mu


def _bounds(delta: float) -> tuple[_Bound, _Bound]:
    def epsilon_bound(p: Floats, q: Floats) -> Floats:
        return np.log(np.maximum(p - delta, 1e-300) / q)

    def mu_bound(p: Floats, q: Floats) -> Floats:
        difference: Floats = ndtri(p) - ndtri(q)
        return difference

    return epsilon_bound, mu_bound


def _outputs(mechanism: Mechanism, data: Any, runs: int) -> Floats:
    outputs = np.asarray(mechanism(data, runs), dtype=np.float64)
    if outputs.ndim == 0 or len(outputs) != runs or not np.isfinite(outputs).all():
        must = f"a function returning {runs} rows of finite numbers"
        raise ValueError(complain("mechanism", "audit", must, f"shape {outputs.shape}"))
    return outputs.reshape(runs, -1)


def _clopper_pearson(hits: NDArray[np.int64], trials: int, alpha: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds on a probability, each wrong with probability at most α."""
    k = np.clip(hits, 1, trials - 1)  # the ends have closed forms; k only keeps the inverse in its domain
    lower = np.where(hits == trials, alpha ** (1 / trials), betaincinv(k, trials - k + 1, alpha))
    upper = np.where(hits == 0, -math.expm1(math.log(alpha) / trials), betainccinv(k + 1, trials - k, alpha))
    return np.where(hits == 0, 0.0, lower), np.where(hits == trials, 1.0, upper)


@dataclass(frozen=True)
class Event:
    """A half-line of a score, and on which of the two data sets it is more probable."""

    name: str
    score: _Score
    threshold: float
    above: bool
    likelier: int
    value: float

    def hits(self, sample: Floats) -> int:
        reached = int(np.count_nonzero(self.score(sample) >= self.threshold))
        return reached if self.above else len(sample) - reached

    def probabilities(self, hits: tuple[int, int], trials: int, confidence: float) -> tuple[float, float]:
        """A lower bound on the larger probability and an upper bound on the other, jointly with this confidence."""
        lower, upper = _clopper_pearson(np.array(hits), trials, (1 - confidence) / 2)
        return float(lower[self.likelier]), float(upper[1 - self.likelier])

    def __str__(self) -> str:
        return f"{self.name} {'≥' if self.above else '<'} {self.threshold:.6g}"


def scores(first: Floats, second: Floats) -> list[tuple[str, _Score]]:
    """Scores of an output whose half-lines are tried as events."""
    pooled = np.concatenate([first, second])
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def standard(x: Floats) -> Floats:
        z: Floats = (x - centre) / scale
        return z

    def squared(x: Floats) -> Floats:
        z = standard(x)
        return np.hstack([z, z**2])

    def coordinate(j: int) -> tuple[str, _Score]:
        return f"output[{j}]", lambda x: x[:, j]

    def linear(name: str, features: _Score, weights: Floats) -> tuple[str, _Score]:
        return name, lambda x: features(x) @ weights

    m = first.shape[1]
    shift = standard(first).mean(axis=0) - standard(second).mean(axis=0)
    found = [coordinate(j) for j in range(m)]
    found.append(linear("sum of squares", squared, np.repeat([0.0, 1.0], m)))
    found.append(linear("difference of means", standard, shift))
    for name, features, size in (("discriminant", standard, m), ("quadratic discriminant", squared, 2 * m)):
        if 1 < size <= len(first) // 4:
            found.append(linear(name, features, _fisher(features(first), features(second))))
    return found


def _fisher(first: Floats, second: Floats) -> Floats:
    """Fisher's direction; the ridge keeps repeated coordinates (a mirrored matrix) harmless."""
    within = np.cov(first.T) + np.cov(second.T)
    within[np.diag_indices_from(within)] += 1e-6 * max(float(np.trace(within)), 1e-300) / len(within)
    return np.linalg.solve(within, first.mean(axis=0) - second.mean(axis=0))


def _best(name: str, score: _Score, samples: list[Floats], bounds: Sequence[_Bound], alpha: float) -> list[Event]:
    """For each bound the best half-line of one score: both sides, both orders, finer in the tails."""
    n = len(samples[0])
    a, b = (np.sort(score(sample)) for sample in samples)
    ranks = np.unique(np.geomspace(1, n, 60).astype(int))
    thresholds = np.unique(np.sort(np.concatenate([a, b]))[np.concatenate([ranks - 1, 2 * n - ranks])])
    below = np.stack([np.searchsorted(a, thresholds), np.searchsorted(b, thresholds)])
    found: list[list[Event]] = [[] for _ in bounds]
    for above in (True, False):
        lower, upper = _clopper_pearson(n - below if above else below, n, alpha)
        for likelier in (0, 1):
            for events, bound in zip(found, bounds, strict=True):
                values = bound(lower[likelier], upper[1 - likelier])
                top = int(np.argmax(values))
                threshold, value = float(thresholds[top]), float(values[top])
                events.append(Event(name, score, threshold, above, likelier, value))
    return [max(events, key=lambda e: e.value) for events in found]


# --- exact privacy losses ------------------------------------------------------------------------


def hockey_stick(first: ArrayLike, second: ArrayLike, epsilon: float) -> float:
    """Σ max(p − e^ε q, 0) of two probability vectors: the smallest δ for this order of the data sets."""
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0).ravel())


def exact_epsilon_discrete(first: ArrayLike, second: ArrayLike, delta: float = 0.0) -> float:
    """The smallest ε ≥ 0 with hockey-stick divergence ≤ δ in both orders; infinite if there is none.

    δ(ε) is the largest P(S) − e^ε Q(S), reached on a set S of largest likelihood ratios; so ε is the largest
    ln((P(S) − δ)/Q(S)) over these sets, and needs no root search.
    """
    p, q = np.ravel(np.asarray(first, dtype=np.float64)), np.ravel(np.asarray(second, dtype=np.float64))
    return max(0.0, _one_sided_epsilon(p, q, delta), _one_sided_epsilon(q, p, delta))


def _one_sided_epsilon(p: Floats, q: Floats, delta: float) -> float:
    p, q = p[p > 0], q[p > 0]
    with np.errstate(divide="ignore"):  # q = 0 is an infinite loss
        order = np.argsort(np.log(q) - np.log(p))
        top, bottom = np.cumsum(p[order]) - delta, np.cumsum(q[order])
        losses = np.log(top[top > 0]) - np.log(bottom[top > 0])
    return float(np.max(losses, initial=0.0))


def hockey_stick_density(
    log_p: LogDensity,
    log_q: LogDensity,
    epsilon: float,
    low: float,
    high: float,
    points: Sequence[float] = (),
) -> float:
    """∫ max(p − e^ε q, 0) over [low, high]; ``points`` are where the integrand has kinks."""

    def excess(x: float) -> float:
        return max(math.exp(log_p(x)) - math.exp(epsilon + log_q(x)), 0.0)

    cuts = [low, *sorted(x for x in points if low < x < high), high]
    parts = [quad(excess, a, b, limit=500, epsabs=1e-13, epsrel=1e-10)[0] for a, b in itertools.pairwise(cuts)]
    return math.fsum(parts)


def laplace_log_density(scale: float, center: float = 0.0) -> LogDensity:
    """ln density of Laplace noise around a value."""
    return lambda x: -abs(x - center) / scale - math.log(2 * scale)


def gaussian_log_density(sigma: float, center: float = 0.0) -> LogDensity:
    """ln density of Gaussian noise around a value."""
    return lambda x: -(((x - center) / sigma) ** 2) / 2 - math.log(sigma * math.sqrt(2 * math.pi))


def bingham_circle_log_density(A: ArrayLike) -> LogDensity:
    """ln density of ±(cos θ, sin θ) ∝ exp(uᵀAu) over angles θ in [0, π), for a symmetric 2×2 matrix.

    uᵀAu = tr A/2 + r·cos(2θ − 2θ₀), r half the gap of the eigenvalues; the normaliser is π·e^{tr A/2}·I₀(r).
    """
    (a, b), (_, c) = np.asarray(A, dtype=np.float64)
    radius = math.hypot((a - c) / 2, b)
    log_total = math.log(math.pi * float(ive(0, radius))) + radius
    return lambda angle: (a - c) / 2 * math.cos(2 * angle) + b * math.sin(2 * angle) - log_total
