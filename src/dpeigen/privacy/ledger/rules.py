"""When a ledger grants: filters whose totals are safe for analysts who choose the next release after seeing the last.

Guarantee: everything granted by one ledger together is (ε, δ)-DP for the cap (ε, δ), however the releases, their
costs and their number were chosen from earlier results.

**One filter.** It keeps three running totals at or below caps fixed in advance: Σεᵢ ≤ e over pure steps, Σρᵢ ≤ r over
concentrated steps (a μ-Gaussian step counts as ρ = μ²/2; discrete Gaussian noise is exactly that: Canonne, Kamath,
Steinke 2020), and Σδᵢ ≤ d over bare (εᵢ, δᵢ) steps, whose εᵢ counts among the pure ones. Let P, Q be the laws of the
whole interaction on two neighbouring data sets and L = L₁ + L₂ the privacy loss, pure steps and concentrated steps.
First let all δᵢ = 0. Every pure step adds at most its εᵢ, so L₁ ≤ e on every path. Given the past, a concentrated step
has E_P[exp((α−1)Lᵢ) | past] ≤ exp((α−1)αρᵢ), where ρᵢ is fixed by the past; hence exp((α−1)(L₂ − αΣρᵢ)) is a
supermartingale that starts at 1, and, the filter keeping Σρᵢ ≤ r on every path, E_P[exp((α−1)L₂)] ≤ exp((α−1)αr).
For every event, P(E) − e^ε Q(E) ≤ E_P[(1 − e^{ε−L})₊] ≤ E_P[(1 − e^{(ε−e)−L₂})₊], and the last is bounded from that
moment alone by `log_concentrated_delta` at (ε − e, r) (their Proposition 12). A step that is (εᵢ, δᵢ)-DP is with
probability 1 − δᵢ an εᵢ-DP step (Kairouz, Oh, Viswanath 2015), so bare steps add at most d. So the filter gives
(ε, d + δ₀), δ₀ the bound just named. With r = 0 it is the sum rule. No inequality needed the costs to be known before:
these are privacy filters in the sense of Rogers et al. 2016 (see Feldman and Zrnic 2021, Whitehouse et al. 2023).

**Several filters.** Let filter j give (ε, δⱼ), and grant whenever at least one of them admits all there is so far. Then
the whole is (ε, Σδⱼ)-DP: cut an event E into Eⱼ, the paths that filter j admits to their end and no earlier filter
does. On Eⱼ the interaction is the one filter j alone would have allowed, so P(Eⱼ) ≤ e^ε Q(Eⱼ) + δⱼ; add up. Taking the
better of two filters that may each use all of δ would not be covered: an analyst can go on by one filter where the
losses so far happen to be high, and by the other where they are low.

**Accountings**, fixed before anything is released and recorded:

* ``sum``: one filter, Σε and Σδ of the stated costs. The only one for δ = 0.
* ``concentrated``: the sum rule with 3/4 of δ, and four filters with δ/16 each (half for bare steps, half for the
  concentrated ones): all in ρ (an ε-DP step is min(ε²/2, ε)-concentrated: Bun, Steinke 2016), or pure steps summed up
  to ε/8, ε/4 or ε/2 and the others in ρ. Many Gaussian releases cost about their root of squares instead of their sum.
* ``auto``: the first reservation decides, which nobody can have chosen after seeing a release. It becomes
  ``concentrated`` if the cap has a δ, that release has a Gaussian or concentrated share and fits into 3/4 of δ, and
  ``sum`` otherwise.

Privacy-loss distributions are tighter for a list of costs that was fixed beforehand. For costs chosen on the way there
is no such proof, so no grant rests on them. Totals are exact (integers in units of 2⁻¹⁰⁷⁴), so that the order of
entries, cancellations and the machine do not matter; a cap may be passed by one part in 10¹², for ten tenths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from dpeigen._validate import complain
from dpeigen.privacy.budget import Budget, ConcentratedCost, GaussianCost, PureCost, Spend

ACCOUNTINGS = ("auto", "sum", "concentrated")
_UNIT = 1074  # every double is an integer multiple of 2^−1074
_TOLERANCE = 10**12
_SUM_SHARE = 0.75
_PURE_SHARES = (0.0, 0.125, 0.25, 0.5)


def _exact(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (2**_UNIT // denominator)


def _number(total: int) -> float:
    return total / 2**_UNIT  # true division of integers rounds correctly


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


@dataclass(frozen=True)
class Charge:
    """What entries cost, in every currency, in units of 2^−1074."""

    epsilon: int = 0  # as stated
    delta: int = 0
    pure: int = 0  # Σε of pure and bare shares
    bare: int = 0  # Σδ of bare shares
    rho: int = 0  # of Gaussian and concentrated shares
    pure_rho: int = 0  # of pure and bare shares

    def plus(self, other: Charge, sign: int = 1) -> Charge:
        return Charge(*(getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)))

    def to_dict(self) -> dict[str, str]:
        return {name: format(value, "x") for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Charge:
        return cls(**{name: int(value, 16) for name, value in data.items()})


def charge_of(cost: Budget, split: Iterable[Spend] | None) -> Charge:
    """The charge of one release; without a split it is a bare (ε, δ)."""
    pure, bare, rho = [cost.epsilon], [cost.delta], []
    if split is not None:
        pure, bare = [], []
        for spend in split:
            share = spend.cost
            if isinstance(share, GaussianCost):
                rho.append(_up(_up(share.mu * share.mu) / 2))
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
        rho=sum(map(_exact, rho)),
        pure_rho=sum(_exact(min(_up(_up(e * e) / 2), e)) for e in pure),
    )


@dataclass(frozen=True)
class Filter:
    """Caps on running totals. ``kind``: sum (stated ε, δ), rho (all in ρ), or split (pure summed, others in ρ)."""

    kind: str
    epsilon: float
    delta: float
    rho: float = 0.0

    def _pairs(self, total: Charge) -> list[tuple[int, float]]:
        if self.kind == "sum":
            return [(total.epsilon, self.epsilon), (total.delta, self.delta)]
        if self.kind == "rho":
            return [(total.rho + total.pure_rho, self.rho), (total.bare, self.delta)]
        return [(total.pure, self.epsilon), (total.bare, self.delta), (total.rho, self.rho)]

    def admits(self, total: Charge) -> bool:
        """Whether everything so far stays within the caps."""
        return all(spent * _TOLERANCE <= _exact(cap) * (_TOLERANCE + 1) for spent, cap in self._pairs(total))

    def left(self, total: Charge) -> tuple[float, float]:
        """The largest bare (ε, δ) that still fits; not positive where none does."""
        if not self.admits(total):
            return 0.0, 0.0
        rest = [_number(_exact(cap) - spent) for spent, cap in self._pairs(total)]
        if self.kind == "rho":
            rho = max(rest[0], 0.0)
            return rho if rho > 2 else math.sqrt(2 * rho) * (1 - 1e-14), rest[1]
        return rest[0], rest[1]

    def rho_left(self, total: Charge) -> float:
        """The ρ of a further Gaussian release that still fits."""
        if self.kind == "sum" or not self.admits(total):
            return 0.0
        return max(0.0, _number(_exact(self.rho) - self._pairs(total)[0 if self.kind == "rho" else 2][0]))


@lru_cache(maxsize=64)
def filters_of(accounting: str, cap: Budget) -> tuple[Filter, ...]:
    """The filters of an accounting; the concentrated one needs a δ."""
    if accounting == "sum":
        return (Filter("sum", cap.epsilon, cap.delta),)
    if cap.is_pure:
        raise ValueError(complain("accounting", "Ledger", "'sum' for a budget with delta=0", accounting))
    from dpeigen.privacy.accounting import log_concentrated_delta  # SciPy waits until it is needed
    from dpeigen.privacy.calibration import largest_mu

    part = cap.delta * (1 - _SUM_SHARE) / len(_PURE_SHARES) / 2
    found = [Filter("sum", cap.epsilon, cap.delta * _SUM_SHARE)]
    for share in _PURE_SHARES:
        rest = cap.epsilon * (1 - share)
        mu = largest_mu(lambda m, e=rest: log_concentrated_delta(e, m * m / 2), math.log(part))  # type: ignore[misc]
        found.append(Filter("split" if share else "rho", cap.epsilon * share, part, mu * mu / 2))
    return tuple(found)


def decide(cap: Budget, split: Iterable[Spend] | None, charge: Charge) -> str:
    """What ``auto`` becomes with this first reservation."""
    gaussian = any(isinstance(s.cost, (GaussianCost, ConcentratedCost)) for s in split or ())
    if cap.is_pure or not gaussian or not filters_of("concentrated", cap)[0].admits(charge):
        return "sum"
    return "concentrated"


def admits(filters: Iterable[Filter], total: Charge) -> bool:
    """Whether at least one filter admits everything so far."""
    return any(f.admits(total) for f in filters)


def left(filters: Iterable[Filter], total: Charge) -> tuple[float, float]:
    """(ε, δ) of the largest release, as a bare cost, that would be granted."""
    return max(f.left(total) for f in filters)


def stated(total: Charge) -> tuple[float, float]:
    """The plain sums."""
    return _number(total.epsilon), _number(total.delta)


def to_list(filters: Iterable[Filter]) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [asdict(f) for f in filters]
