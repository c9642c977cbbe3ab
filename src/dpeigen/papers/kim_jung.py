"""The theorems of Kim and Jung 2025 as functions, as printed; for planning, and to compare with measured errors.

Guarantee: nothing is read or spent here. Everything is a function of public numbers: assumed variances, sizes, budgets.
"≲" hides a constant; it is 1 here unless ``constant`` is given, so the results are rates and not errors. Bounds with
explicit constants, computed from a release, are `Release.subspace_error` and `Release.breakdown_bound`.

>>> import numpy as np
>>> from dpeigen.stats.elliptical import sign_eigenvalues
>>> phi = sign_eigenvalues(np.array([10.0, 5.0, 1.0, 1.0, 1.0]))
>>> rate = theorem_3_4(phi, 2, bound=1.0, n=2000, epsilon=0.5, delta=1e-5, contamination=0.05)
>>> [round(part, 3) for part in (rate.privacy, rate.sampling, rate.contamination)]
[0.031, 0.089, 0.32]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_delta, check_epsilon, check_positive, complain
from dpeigen.stats.elliptical import pair_lengths, sign_eigenvalues, tau_eigenvalues
from dpeigen.stats.transform import Transform

__all__ = [
    "SubspaceRate",
    "Winsorized",
    "condition_3_5",
    "proposition_3_5",
    "proposition_3_6",
    "remark_3_1",
    "theorem_3_2",
    "theorem_3_3",
    "theorem_3_4",
]

_OWNER = "kim_jung"


@dataclass(frozen=True)
class SubspaceRate:
    """A bound on sinΘ up to a constant: ``ratio`` times the sum of its parts, and whether n is large enough for it."""

    ratio: float  # φ₁/(φ_m − φ_{m+1})
    privacy: float  # I₁
    sampling: float  # I₂
    contamination: float  # I₃
    rows_needed: float
    holds: bool  # n is at least that

    @property
    def total(self) -> float:
        """ratio·(I₁ + I₂ + I₃)."""
        return self.ratio * (self.privacy + self.sampling + self.contamination)


def theorem_3_2(
    eigenvalues: ArrayLike, m: int, *, bound: float, n: int, epsilon: float, delta: float, failure: float = 0.05
) -> SubspaceRate:
    """u of Theorem 3.2, from the eigenvalues φ of K_g and ‖g‖∞ (``bound``), with this probability of failure."""
    phi, ratio = _ratio(eigenvalues, m)
    over = check_positive("bound", bound, _OWNER) ** 2 / float(phi[0])
    needed = 16 / 3 * (over + 1) * math.log(2 * len(phi) / failure)
    sampling = math.sqrt(over * math.log(len(phi) / failure) / n)
    return SubspaceRate(ratio, _privacy(len(phi), over, n, epsilon, delta, failure), sampling, 0.0, needed, n >= needed)


def theorem_3_3(eigenvalues: ArrayLike, m: int, *, bound: float) -> float:
    """The printed lower bound (φ̂_m − φ̂_{m+1})/(8‖g‖∞²) of the breakdown point; half of what can be proven."""
    phi, _ = _ratio(eigenvalues, m)
    return float((phi[m - 1] - phi[m]) / (8 * check_positive("bound", bound, _OWNER) ** 2))


def theorem_3_4(
    eigenvalues: ArrayLike,
    m: int,
    *,
    bound: float,
    n: int,
    epsilon: float,
    delta: float,
    contamination: float,
    failure: float = 0.05,
) -> SubspaceRate:
    """The bound of Theorem 3.4 with a share of the rows replaced by arbitrary ones; φ are those of clean rows."""
    if not 0 <= contamination < 1:
        raise ValueError(complain("contamination", _OWNER, "in [0, 1)", contamination))
    phi, ratio = _ratio(eigenvalues, m)
    over, clean = check_positive("bound", bound, _OWNER) ** 2 / float(phi[0]), 1 - contamination
    needed = 16 / (3 * clean) * (over + 1) * math.log(2 * len(phi) / failure)
    sampling = math.sqrt((over + 1) * math.log(len(phi) / failure) / (clean * n))
    added = contamination * (2 - contamination) * (1 + over)
    return SubspaceRate(
        ratio, _privacy(len(phi), over, n, epsilon, delta, failure), sampling, added, needed, n >= needed
    )


def proposition_3_5(variances: ArrayLike, m: int, *, n: int, epsilon: float, constant: float = 1.0) -> float:
    """The rate (3.1) of the spherical transform: λ₁/(λ_m − λ_{m+1})·(er·√d/(nε) + √(er·log d/n)), er = tr Σ/λ₁."""
    values, ratio = _ratio(variances, m)
    d, effective = len(values), float(values.sum() / values[0])
    check_epsilon(epsilon, _OWNER)
    noise = effective * math.sqrt(d) / (check_count("n", n, _OWNER) * epsilon)
    return constant * ratio * (noise + math.sqrt(effective * math.log(d) / n))


def condition_3_5(variances: ArrayLike) -> float:
    """‖Σ‖_F·log d/tr Σ, which Proposition 3.5 needs to go to 0 as d grows."""
    values = np.asarray(variances, dtype=np.float64)
    return float(np.linalg.norm(values) * math.log(len(values)) / values.sum())


def remark_3_1(variances: ArrayLike, m: int, *, n: int, epsilon: float) -> dict[str, float]:
    """The rates that Remark 3.1 compares, constants 1: of Analyze Gauss, and (3.1) of the spherical transform."""
    values, ratio = _ratio(variances, m)
    d = len(values)
    gauss = ratio * (d**1.5 / (epsilon * n) + math.sqrt(d / n))
    return {"analyze-gauss": gauss, "kendall": proposition_3_5(variances, m, n=n, epsilon=epsilon)}


@dataclass(frozen=True)
class Winsorized:
    """The statement of Proposition 3.6 about a winsorising radius, and its numbers."""

    least: float  # P(R² ≥ r²/λ_d): what the ratios are at least
    ratios: Floats  # φ_w/(r²·φ_sph), at most 1
    winsorized: Floats  # φ_w, by (3.2)
    spherical: Floats  # φ_sph


def proposition_3_6(variances: ArrayLike, radius: float, *, tails: float | None = None) -> Winsorized:
    """Eigenvalues (3.2) of the winsorised tau of Gaussian rows, or of t_ν (``tails``), beside the spherical ones."""
    values = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    check_positive("radius", radius, _OWNER)
    spherical = sign_eigenvalues(values)
    winsorized = tau_eigenvalues(values, Transform("winsorized", radius), tails=tails)
    lengths, weights = pair_lengths(len(values), tails)
    least = float(weights[lengths**2 >= radius**2 / values[-1]].sum())
    return Winsorized(least, winsorized / (radius**2 * spherical), winsorized, spherical)


def _ratio(values: ArrayLike, m: int) -> tuple[Floats, float]:
    """The values, decreasing, and first/(m-th − next)."""
    found = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    check_count("m", m, _OWNER, high=len(found) - 1)
    gap = float(found[m - 1] - found[m])
    return found, math.inf if gap <= 0 else float(found[0]) / gap


def _privacy(d: int, over: float, n: int, epsilon: float, delta: float, failure: float) -> float:
    """I₁."""
    check_epsilon(epsilon, _OWNER)
    if not check_delta(delta, _OWNER) > 0:
        raise ValueError(complain("delta", _OWNER, "above 0: the noise is Gaussian", delta))
    reach = (math.sqrt(d) + math.sqrt(math.log(1 / failure))) * math.sqrt(math.log(1 / delta))
    return over * reach / (check_count("n", n, _OWNER) * epsilon)
