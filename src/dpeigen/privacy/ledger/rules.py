"""The rules by which a ledger grants: privacy filters, which are safe if analysts choose releases adaptively.

Guarantee: all releases granted by one ledger together are (ε, δ)-DP for the cap (ε, δ), however the releases, their
costs and their number were chosen from earlier results. This needs each release to have the cost that was recorded.
Releases drawn with a seed, or by methods that are not worst-case, do not; `verify` and ``ledger show`` count them.
These are privacy filters (Rogers et al. 2016; Feldman and Zrnic 2021; Smith and Thakurta 2022; Whitehouse et al. 2023).
The proofs are short.

**One filter** keeps running totals at or below caps fixed in advance. Let P, Q be the laws of the whole interaction on
two neighbouring data sets and L = L₁ + L₂ its privacy loss: L₁ of steps counted by their ε, L₂ of the others. For every
event P(E) − e^ε Q(E) ≤ E_P[(1 − e^{ε−L})₊]. If Σεᵢ ≤ e then L₁ ≤ e on every path, so this is at most
E_P[(1 − e^{x−L₂})₊] with x = ε − e. The bound on it depends on the kind of filter:

* ``sum``: all steps are counted by their ε, e = ε, L₂ = 0, and the bound is 0.
* ``rho`` and ``split``: Σρᵢ ≤ r. Given the past, a ρᵢ-concentrated step has E_P[e^{(α−1)Lᵢ} | past] ≤ e^{(α−1)αρᵢ}, and
  ρᵢ is fixed by the past. So e^{(α−1)(L₂ − αΣρᵢ)} is a supermartingale that starts at 1, and E_P[e^{(α−1)L₂}] ≤
  e^{(α−1)αr}. From that moment alone the bound `log_concentrated_delta` (x, r) follows (Canonne, Kamath, Steinke 2020,
  Proposition 12). μ-Gaussian steps are μ²/2-concentrated, also with discrete noise; ε-DP steps are
  min(ε²/2, ε)-concentrated (Bun, Steinke 2016).
* ``mu``: Σμᵢ² ≤ m. Let V(x, m) be the δ of a √m-Gaussian step at x. A step dominated by a μᵢ-Gaussian one, followed by
  a Gaussian one with the rest of m, is dominated by a √m-Gaussian one, that is E_P[V(x − Lᵢ, m − μᵢ²)] ≤ V(x, m). By
  induction from the end no strategy exceeds V(x, m), because V grows in m. An ε-DP step is dominated by the Gaussian
  one of equal total variation, μ = 2Φ⁻¹(e^ε/(1+e^ε)): the trade-off curve of the first consists of two chords of that
  of the second (Dong, Roth, Su 2022). Discrete instead of continuous noise changes the probability of a path by
  e^{±Σηᵢ}, ηᵢ ≤ 6·10⁻¹⁷·μᵢ² times the count of numbers released (`discrete_allowance`, sensitivities of 2³² steps or
  more). With m ≤ 2ε, 2·10⁻⁶ of ε and of δ cover it for up to 8·10⁹/max(1, ε) numbers. This filter does not admit
  concentrated steps.

A bare (εᵢ, δᵢ) step is with probability 1 − δᵢ an εᵢ-DP step (Kairouz, Oh, Viswanath 2015); with Σδᵢ ≤ d this adds at
most d. These proofs do not need the costs to be known in advance.

**Several filters.** Let filter j give (ε, δⱼ), and grant a release whenever at least one filter admits everything so
far. Then the whole is (ε, Σδⱼ)-DP. Proof: divide an event E into Eⱼ, the paths that filter j admits to their end and no
earlier filter does. On Eⱼ the interaction is one that filter j alone would have allowed, so P(Eⱼ) ≤ e^ε Q(Eⱼ) + δⱼ; add
these up. Taking the better of two filters that each use all of δ is not safe: an analyst can continue with one of them
if the losses so far are high and with the other if they are low (tests/ledger/test_rules.py computes such a strategy).

**Accountings**, which are fixed and recorded before anything is released:

* ``sum``: one filter, Σε and Σδ of the stated costs. The only one for δ = 0.
* ``mixed``: the sum rule with 3/4 of δ; ``mu`` with 1/8; ``rho`` with 1/16; two ``split`` with 1/32 each, in which pure
  steps are summed up to ε/4 and ε/2. Of each δⱼ a quarter is for bare steps.
* ``gaussian``: ``mu`` with all of δ (1/16 of it for bare steps). Gaussian releases alone compose to the cap exactly.
* ``auto``: the first reservation decides, which nobody can have chosen after seeing a release. It becomes ``mixed`` if
  that release has a Gaussian or concentrated share and fits into 3/4 of δ, and ``sum`` otherwise.

Privacy-loss distributions are tighter for a list of costs that is fixed in advance. There is no such proof for costs
that are chosen adaptively, so no grant depends on them. Totals are exact (integers in units of 2⁻¹⁰⁷⁴), so the order of
entries, cancellations and the machine do not matter. A cap may be exceeded by one part in 10¹², so that ten tenths fit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from dpeigen._validate import complain
from dpeigen.privacy.budget import Budget, ConcentratedCost, GaussianCost, PureCost, Spend

__all__ = [
    "ACCOUNTINGS",
    "Charge",
    "Filter",
    "admits",
    "charge_of",
    "check_split",
    "decide",
    "filters_of",
    "gaussian_of_pure",
    "left",
    "stated",
    "to_list",
]

ACCOUNTINGS = ("auto", "sum", "mixed", "gaussian")
_UNIT = 1074  # every double is an integer multiple of 2^−1074
_TOLERANCE = 10**12
_DISCRETE = 2e-6  # the part of ε and δ that is kept for discrete noise
_NORMAL = NormalDist()


def _exact(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (2**_UNIT // denominator)


def _number(total: int) -> float:
    return total / 2**_UNIT  # true division of integers rounds correctly


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def gaussian_of_pure(epsilon: float) -> float:
    """The smallest μ, rounded up, such that every ε-DP step is μ-Gaussian."""
    if epsilon < 1e-3:  # 2Φ⁻¹(½ + u) = √(8π)·u·(1 + πu²/3 + …) with u ≤ ε/4
        return math.sqrt(math.pi / 2) * epsilon * (1 + 1e-6)
    if epsilon > 30:  # the normal tail beyond t is at most e^{−t²/2}/2
        return math.sqrt(8 * epsilon)
    return -2 * _NORMAL.inv_cdf(1 / (1 + math.exp(epsilon))) * (1 + 1e-9)


def _pure_of_gaussian(mu: float) -> float:
    """The largest ε, rounded down, such that every ε-DP step is μ-Gaussian."""
    if mu < 1e-3:
        return mu / math.sqrt(math.pi / 2) * (1 - 2e-6)
    if mu > 15:
        return mu * mu / 8 * (1 - 1e-9)
    tail = _NORMAL.cdf(-mu / 2)
    return min(math.log1p(-tail) - math.log(tail), 30.0) * (1 - 4e-6)


@dataclass(frozen=True)
class Charge:
    """The cost of entries under every kind of accounting, in units of 2^−1074."""

    epsilon: int = 0  # as stated
    delta: int = 0
    pure: int = 0  # Σε of pure and bare shares
    bare: int = 0  # Σδ of bare shares
    gaussian: int = 0  # Σμ²/2 of Gaussian shares
    concentrated: int = 0  # Σρ of concentrated shares
    pure_rho: int = 0  # pure and bare shares as ρ
    pure_mu: int = 0  # pure and bare shares as μ²/2

    def plus(self, other: Charge, sign: int = 1) -> Charge:
        return Charge(*(getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)))

    def to_dict(self) -> dict[str, str]:
        return {name: format(value, "x") for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Charge:
        return cls(**{name: int(value, 16) for name, value in data.items()})


def charge_of(cost: Budget, split: Iterable[Spend] | None) -> Charge:
    """The charge of one release; without a split it is a bare (ε, δ)."""
    pure, bare, half_squares, rho = [cost.epsilon], [cost.delta], [], []
    if split is not None:
        pure, bare = [], []
        for spend in split:
            share = spend.cost
            if isinstance(share, GaussianCost):
                half_squares.append(_half_square(share.mu))
            elif isinstance(share, ConcentratedCost):
                rho.append(share.rho)
            else:
                pure.append(share.epsilon)
                bare.append(0.0 if isinstance(share, PureCost) else share.delta)
    return Charge(
        epsilon=_exact(cost.epsilon),
        delta=_exact(cost.delta),
        pure=sum(map(_exact, pure)),
        bare=sum(map(_exact, bare)),
        gaussian=sum(map(_exact, half_squares)),
        concentrated=sum(map(_exact, rho)),
        pure_rho=sum(_exact(min(_half_square(e), e)) for e in pure),
        pure_mu=sum(_exact(_half_square(gaussian_of_pure(e))) for e in pure),
    )


def check_split(cost: Budget, split: tuple[Spend, ...] | None, slack: float = 1e-12) -> None:
    """Refuse shares that compose to more than the stated cost: the sum counts the latter, other filters the shares."""
    if not split:
        if split is not None:
            raise ValueError(complain("split", "Ledger", "one share or more, or None", split))
        return
    worth = _worth(split, cost.epsilon)
    if worth > cost.delta * (1 + slack):
        must = f"worth at most δ={cost.delta:g} at ε={cost.epsilon:g}, as stated"
        raise ValueError(complain("split", "Ledger", must, f"δ={worth:.3g}"))


@lru_cache(maxsize=256)
def _worth(split: tuple[Spend, ...], epsilon: float) -> float:
    from dpeigen.privacy.accounting import compose_delta

    return compose_delta(split, epsilon)


def _half_square(value: float) -> float:
    return min(_up(_up(value * value) / 2), sys.float_info.max)


@dataclass(frozen=True)
class Filter:
    """Caps on running totals, which depend on ``kind``. ``rho`` caps Σρ, or Σμ²/2."""

    kind: str  # sum, mu, rho or split
    epsilon: float
    delta: float
    rho: float = 0.0

    def is_close(self, other: Filter, slack: float) -> bool:
        """Whether both caps are the same, up to rounding."""
        pairs = zip(astuple(self)[1:], astuple(other)[1:], strict=True)
        return self.kind == other.kind and all(math.isclose(a, b, rel_tol=slack) for a, b in pairs)

    def _pairs(self, total: Charge) -> list[tuple[int, float]]:
        if self.kind == "sum":
            return [(total.epsilon, self.epsilon), (total.delta, self.delta)]
        if self.kind == "mu":
            return [(total.gaussian + total.pure_mu, self.rho), (total.bare, self.delta), (total.concentrated, 0.0)]
        noisy = total.gaussian + total.concentrated
        if self.kind == "rho":
            return [(noisy + total.pure_rho, self.rho), (total.bare, self.delta)]
        return [(total.pure, self.epsilon), (total.bare, self.delta), (noisy, self.rho)]

    def admits(self, total: Charge) -> bool:
        """Whether everything so far stays within the caps."""
        return all(spent * _TOLERANCE <= _exact(cap) * (_TOLERANCE + 1) for spent, cap in self._pairs(total))

    def left(self, total: Charge) -> tuple[float, float]:
        """The largest bare (ε, δ) that still fits; not positive if none does."""
        if not self.admits(total):
            return 0.0, 0.0
        first, delta = (_number(_exact(cap) - spent) for spent, cap in self._pairs(total)[:2])
        if self.kind in ("sum", "split"):
            return first, delta
        rho = max(first, 0.0)
        if self.kind == "mu":
            return _pure_of_gaussian(math.sqrt(2 * rho)), delta
        return rho if rho > 2 else math.sqrt(2 * rho) * (1 - 1e-14), delta

    def rho_left(self, total: Charge) -> float:
        """The ρ = μ²/2 of a further Gaussian release that still fits."""
        if self.kind == "sum" or not self.admits(total):
            return 0.0
        spent, cap = self._pairs(total)[2 if self.kind == "split" else 0]
        return max(0.0, _number(_exact(cap) - spent))


@lru_cache(maxsize=64)
def filters_of(accounting: str, cap: Budget) -> tuple[Filter, ...]:
    """The filters of an accounting; all except the sum need a δ."""
    if accounting == "sum":
        return (Filter("sum", cap.epsilon, cap.delta),)
    if cap.is_pure:
        raise ValueError(complain("accounting", "Ledger", "'sum' for a budget with delta=0", accounting))
    if accounting == "gaussian":
        return (_filter("mu", cap, 1.0, 1 / 16),)
    return (
        Filter("sum", cap.epsilon, cap.delta * 0.75),
        _filter("mu", cap, 1 / 8, 1 / 4),
        _filter("rho", cap, 1 / 16, 1 / 4),
        _filter("split", cap, 1 / 32, 1 / 4, 0.25),
        _filter("split", cap, 1 / 32, 1 / 4, 0.5),
    )


def _filter(kind: str, cap: Budget, part: float, bare: float, pure: float = 0.0) -> Filter:
    """A filter with ``part`` of δ, of which ``bare`` is for bare steps; ``pure``: the part of ε for pure steps."""
    from dpeigen.privacy.accounting import log_concentrated_delta  # imports SciPy, so only if needed
    from dpeigen.privacy.calibration import gaussian_mu, largest_mu

    delta, epsilon = cap.delta * part, cap.epsilon * (1 - pure)
    noisy = delta * (1 - bare)
    if kind == "mu":
        mu = min(gaussian_mu(epsilon * (1 - _DISCRETE), noisy * (1 - _DISCRETE)), math.sqrt(2 * epsilon))
    else:
        mu = largest_mu(lambda m: log_concentrated_delta(epsilon, m * m / 2), math.log(noisy))
    return Filter(kind, cap.epsilon * pure, delta * bare, mu * mu / 2)


def decide(cap: Budget, split: Iterable[Spend] | None, charge: Charge) -> str:
    """The accounting that ``auto`` becomes with this first reservation."""
    noisy = any(isinstance(s.cost, (GaussianCost, ConcentratedCost)) for s in split or ())
    return "mixed" if noisy and not cap.is_pure and filters_of("mixed", cap)[0].admits(charge) else "sum"


def admits(filters: Iterable[Filter], total: Charge) -> bool:
    """Whether at least one filter admits everything so far."""
    return any(f.admits(total) for f in filters)


def left(filters: Iterable[Filter], total: Charge) -> tuple[float, float]:
    """The largest bare (ε, δ) that would be granted."""
    return max(f.left(total) for f in filters)


def stated(total: Charge) -> tuple[float, float]:
    """The sums of the stated ε and δ."""
    return _number(total.epsilon), _number(total.delta)


def to_list(filters: Iterable[Filter]) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [asdict(f) for f in filters]
