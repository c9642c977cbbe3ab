"""What is left of a ledger's budget, and whether a release fits: functions of its state."""

from __future__ import annotations

from dataclasses import replace

from dpeigen.privacy.budget import Budget
from dpeigen.privacy.ledger import rules
from dpeigen.privacy.ledger.chain import State
from dpeigen.privacy.ledger.errors import BudgetExceededError

__all__ = ["as_asked", "check_relation", "check_room", "gaussian_room", "left_in"]


def as_asked(state: State) -> State:
    """The state that questions refer to: before the first release the whole budget is available to it."""
    return replace(state, filters=rules.filters_of("sum", state.cap)) if state.accounting == "auto" else state


def left_in(state: State) -> Budget | None:
    """The largest bare (ε, δ) that would be granted; None if ε is used up."""
    epsilon, delta = rules.left(state.filters, state.total)
    return Budget(epsilon, max(delta, 0.0)) if epsilon > 1e-12 * state.epsilon else None


def gaussian_room(state: State, delta: float) -> float:
    """The largest ε, at this δ, of one more release with Gaussian noise alone; 0 if nothing fits."""
    sums = [f.left(state.total) for f in state.filters if f.kind == "sum"]
    best = max((epsilon for epsilon, left in sums if delta <= left * (1 + 1e-12)), default=0.0)
    rho = max(f.rho_left(state.total) for f in state.filters)
    if rho > 0 and delta > 0:
        from dpeigen.privacy.calibration import gaussian_epsilon

        best = max(best, gaussian_epsilon(delta, (2 * rho) ** 0.5) * (1 - 1e-7))
    return max(best, 0.0)


def check_room(state: State, cost: Budget, charge: rules.Charge, name: str) -> None:
    """Refuse a release for which there is no room; ``name``: of the ledger."""
    if rules.admits(state.filters, state.total.plus(charge)):
        return
    epsilon, delta = rules.left(state.filters, state.total)
    raise BudgetExceededError(
        f"The ledger {name} has (ε, δ) = ({max(epsilon, 0.0):g}, {max(delta, 0.0):g}) left; this "
        f"release needs ({cost.epsilon:g}, {cost.delta:g}). Nothing was spent."
    )


def check_relation(state: State, neighbours: str, name: str) -> None:
    """Refuse a release with another neighbouring relation than earlier ones: their costs cannot be added."""
    other = next((known for known, count in state.relations.items() if count and known != neighbours), None)
    if other is not None:
        raise ValueError(f"The ledger {name} {_difference(other, neighbours)} Nothing was spent.")


def _difference(known: str, new: str) -> str:
    """What the releases of a ledger are about, what a new one is about, and the remedy (`chain.neighbours_of`)."""
    (relation, _, whom), (other, _, whose) = known.partition(" of "), new.partition(" of ")
    parts = [(f"about {whom or 'single rows'}", f"about {whose or 'single rows'}")] if whom != whose else []
    parts += [(f"with relation='{relation}'", f"with relation='{other}'")] if relation != other else []
    counted, this = (" ".join(side) for side in zip(*parts, strict=True))
    unit = whom.removeprefix("all rows of one ")
    units = [f"unit={unit!r}" if unit else "no unit"] if whom != whose else []
    same = " and ".join(units + ([f"relation='{relation}'"] if relation != other else []))
    return (
        f"counts releases {counted}; this one is {this}, and the two do not add up. Give {same} as those did, or use "
        "another ledger."
    )
