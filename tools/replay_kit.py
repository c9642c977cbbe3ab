"""The replay test: a fit, the fit on a neighbouring table with the same answers, and whether the change was paid for.

`replay` makes both fits and gives a `Verdict`. It fails where

- the change of a statistic, in units of the noise that was drawn for it, is more than the measurement was handed;
- the changes of all measurements together are more than the guarantee lists: Gaussian ones by Σμ², pure ones by Σε,
  bounded-range draws by Σε²/8 where they are listed as concentrated and by Σε where as pure, histograms also by their
  chance of failure; for one-pass methods, which list ε and δ only, by exact composition at that ε;
- what the measurements were handed is more than the guarantee lists, however little the statistics changed;
- what is listed is more than what is promised;
- anything else differs: number, kind, noise or order of the measurements, or a bit of the release.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from replay_doors import doors
from replay_people import same_choices
from replay_tape import Change, Loss, Mismatch, Tape, TapeRandomness

from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    Cost,
    GaussianCost,
    PureCost,
    Randomness,
    Spend,
    compose,
    compose_delta,
)
from dpeigen.privacy.histogram import failure_of, tail_delta, tail_spend
from dpeigen.privacy.shuffling import shuffled_delta

ROUNDING = 1e-9  # of the sums here; the statistics and their noise are exact or proven to include their rounding
REFUSALS = (ValueError, TypeError, ArithmeticError)


@dataclass(frozen=True)
class Promise:
    """What a fit states: its budget, and what it lists as paid."""

    budget: Budget
    split: tuple[Spend, ...]
    shuffled: tuple[float, int] | None = None  # μ and rows of single steps whose order hides them


@dataclass(frozen=True)
class Verdict:
    """Changes in units of what was paid, and what was wrong (nothing: "")."""

    single: float  # of one measurement, at most, in units of what it was handed
    together: float  # of all of them, in units of what the guarantee lists
    fault: str = ""  # every comparison that failed
    changes: tuple[Change, ...] = ()


def _differs(fault: str) -> Verdict:
    return Verdict(math.inf, math.inf, fault)


class RefusedError(Exception):
    """The first fit refused its parameters; there is nothing to compare."""


Fit = Callable[[Any, Randomness], Any]


def replay(
    fit: Fit,
    before: Any,
    after: Any,
    *,
    promise: Callable[[Any], Promise],
    places: NDArray[np.intp] | None,
    seed: int,
    people: bool = False,
) -> Verdict:
    """Fit ``before``, then ``after`` with the same answers. ``places``: of each row of the first in the second.

    ``people``: someone is in one table only, with all their rows (`replay_people`).
    """
    tape = Tape(seed)
    rng = TapeRandomness(tape)
    with warnings.catch_warnings(), doors(tape), same_choices(tape) if people else nullcontext():
        warnings.simplefilter("ignore")
        try:
            first = fit(before, rng)
        except Mismatch as error:
            return _differs(str(error))
        except REFUSALS as error:
            raise RefusedError(str(error)) from error
        try:
            tape.rewind(places)
            second = fit(after, rng)
            tape.finish()
        except Mismatch as error:
            return _differs(str(error))
        except REFUSALS as error:
            return _differs(f"Only the second fit is refused: {error}")
    if published(first) != published(second):
        return _differs("The releases differ although all answers were the same.")
    return judge(tape.changes, promise(first))


def judge(changes: list[Change], promise: Promise) -> Verdict:
    """Every comparison there is; all that fail are the fault."""
    one_pass = any(isinstance(s.cost, ApproximateCost) and s.mechanism != _EMPTY_BIN for s in promise.split)
    single = _shared_ratios(changes)
    for change in changes:
        single[change.name] = max(single.get(change.name, 0.0), _stage_ratio(change))
    together = _composed_ratios(changes, promise) if one_pass else _changed_ratios(changes, promise)
    handed = {} if one_pass else _handed_ratios(changes, promise)
    listed = compose_delta(promise.split, promise.budget.epsilon) if promise.split else 0.0
    if listed > promise.budget.delta * (1 + ROUNDING):
        handed["what is listed, against what is promised"] = math.inf
    named = {f"{name}, against what it was handed": ratio for name, ratio in single.items()} | together | handed
    faults = [f"{name}: {ratio:.6g} times" for name, ratio in named.items() if not ratio <= 1 + ROUNDING]
    return Verdict(max(single.values(), default=0.0), max(together.values()), "; ".join(faults), tuple(changes))


# --- one measurement --------------------------------------------------------------------------------------------------


def _stage_ratio(change: Change) -> float:
    """What a statistic changed by, in units of what its measurement was handed; 0 where that is not known."""
    failure = _ratio(_total(change.losses, "failure"), change.failure)
    if isinstance(change.cost, GaussianCost):
        return max(failure, _ratio(_total(change.losses, "gaussian"), change.cost.mu), _only(change, "gaussian"))
    if isinstance(change.cost, PureCost):
        return max(failure, _ratio(_total(change.losses, "pure"), change.cost.epsilon), _only(change, "pure"))
    return failure


def _shared_ratios(changes: list[Change]) -> dict[str, float]:
    """The same for measurements that share a cost, all of one name together."""
    found = {}
    for name, cost in {change.name: change.shared for change in changes if change.shared is not None}.items():
        promise = Promise(Budget(1.0), (Spend(name, "", cost),))
        own = [change for change in changes if change.name == name]
        if not isinstance(cost, ApproximateCost):
            found[name] = max(_changed_ratios(own, promise).values())
    return found


def _only(change: Change, kind: str) -> float:
    """Infinite if a measurement was handed one currency and used another."""
    other = any(loss.kind not in (kind, "failure") and loss.amount > 0 for loss in change.losses)
    return math.inf if other else 0.0


def _total(losses: Iterable[Loss], kind: str) -> float:
    return math.fsum(loss.amount for loss in losses if loss.kind == kind)


def _ratio(change: float, paid: float) -> float:
    return change / paid if paid > 0 else math.inf if change > 0 else 0.0


# --- all of them ------------------------------------------------------------------------------------------------------

_EMPTY_BIN = tail_spend("", 1e-9, 1.0).mechanism


def _changed_ratios(changes: list[Change], promise: Promise) -> dict[str, float]:
    """All changes against what is listed, currency by currency."""
    losses = [loss for change in changes for loss in change.losses]
    squares = math.fsum(loss.amount**2 for loss in losses if loss.kind == "gaussian")
    ranges = [loss.amount for loss in losses if loss.kind == "range"]
    mu, epsilon, rho = (_listed(promise, kind) for kind in (GaussianCost, PureCost, ConcentratedCost))
    pure = _total(losses, "pure") + (0.0 if rho else math.fsum(ranges))
    concentrated = math.fsum(r * r / 8 for r in ranges) if rho else 0.0
    return {
        "all Gaussian changes, against what is listed": math.sqrt(_ratio(squares, mu)),
        "all pure changes, against what is listed": _ratio(pure, epsilon),
        "all draws, against what is listed": math.sqrt(_ratio(concentrated, rho)),
    }


def _handed_ratios(changes: list[Change], promise: Promise) -> dict[str, float]:
    """What all measurements were handed against what is listed; the same whatever the tables are."""
    shared = {change.name: change.shared for change in changes}
    costs = [*(change.cost for change in changes), *shared.values()]
    mu, epsilon = _sum(costs, GaussianCost), _sum(costs, PureCost)
    return {
        "what Gaussian measurements were handed, against what is listed": math.sqrt(
            _ratio(mu, _listed(promise, GaussianCost))
        ),
        "what pure measurements were handed, against what is listed": _ratio(epsilon, _listed(promise, PureCost)),
    }


def _listed(promise: Promise, kind: type) -> float:
    return _sum((spend.cost for spend in promise.split), kind)


def _sum(costs: Iterable[Cost | None], kind: type) -> float:
    """The sum of one currency, in the unit in which it adds up."""
    values = [cost for cost in costs if isinstance(cost, kind)]
    return math.fsum(
        c.mu**2 if isinstance(c, GaussianCost) else c.rho if isinstance(c, ConcentratedCost) else c.epsilon
        for c in values
    )


def _composed_ratios(changes: list[Change], promise: Promise) -> dict[str, float]:
    return {"all changes, composed, against the budget": _composed_ratio(changes, promise)}


def _composed_ratio(changes: list[Change], promise: Promise) -> float:
    """The ε of all changes together at the stated δ, in units of the stated ε."""
    budget, spends, single = promise.budget, list[Spend](), 0
    for change in changes:
        if change.name == "single step" and promise.shuffled is not None:
            single += any(loss.amount > 0 for loss in change.losses)
            continue
        spends += [_spend(loss, budget) for loss in change.losses if loss.amount > 0]
    failure = math.fsum(tail_delta(_total(change.losses, "failure"), budget.epsilon) for change in changes)
    if failure > budget.delta * (1 + ROUNDING):
        return math.inf
    if single > 1 or (single and spends):
        return math.inf  # a row is in one step, or pays for something else
    if single and promise.shuffled is not None:
        return 0.0 if _shuffled(*promise.shuffled, budget) <= budget.delta * (1 + ROUNDING) else math.inf
    if not spends:
        return 0.0
    if compose_delta(spends, budget.epsilon) > budget.delta * (1 + ROUNDING):
        return max(compose(spends, budget.delta) / budget.epsilon, 1.01)
    return min(1.0, compose(spends, budget.delta) / budget.epsilon)


def _spend(loss: Loss, budget: Budget) -> Spend:
    if loss.kind == "failure":
        return tail_spend("", min(loss.amount, failure_of(budget.delta, budget.epsilon)), budget.epsilon)
    return Spend("", "", GaussianCost(loss.amount) if loss.kind == "gaussian" else PureCost(loss.amount))


@lru_cache(maxsize=256)
def _shuffled(mu: float, rows: int, budget: Budget) -> float:
    return shuffled_delta(GaussianCost(mu), rows, budget.epsilon, hint=budget.delta)


# --- what leaves ------------------------------------------------------------------------------------------------------


def published(thing: Any) -> Any:
    """All that a result shows, in a form that is equal only if every bit is."""
    thing = getattr(thing, "release_", getattr(thing, "map_", thing))
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.shape, thing.tobytes()
    if isinstance(thing, Mapping):
        return {key: published(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [published(value) for value in thing]
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: published(getattr(thing, field.name)) for field in fields(thing)}
    return repr(thing)


def stated(fitted: Any) -> Promise:
    """What an estimator's guarantee promises and lists."""
    guarantee = fitted.guarantee_
    release = getattr(fitted, "release_", None)
    details = {} if release is None else release.facts.get("details", {})
    order = details.get("calibration") or {}
    shuffled = (order["mu"], order["rows"]) if order.get("name") == "shuffled" else None
    return Promise(Budget(guarantee.epsilon, guarantee.delta), guarantee.split, shuffled)
