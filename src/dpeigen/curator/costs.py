"""Arithmetic of shares: whether a share covers a cost, what is left of it, and the sum of two costs."""

from __future__ import annotations

import math

from dpeigen.privacy import ApproximateCost, Budget, ConcentratedCost, Cost, GaussianCost, PureCost
from dpeigen.privacy.budget import pure_epsilon

__all__ = ["NotPaidForError", "covers", "part_of", "rest_of", "sum_of", "worth"]

_SLACK = 1 + 1e-12  # for the rounding of sums in floating point


class NotPaidForError(RuntimeError):
    """A method asked for an undeclared purpose, or for more than its share. Nothing was measured."""


def covers(left: Cost, cost: Cost) -> bool:
    """Whether a share is enough for a cost of the same kind."""
    if isinstance(left, GaussianCost) and isinstance(cost, GaussianCost):
        return cost.mu <= left.mu * _SLACK
    if isinstance(left, PureCost) and isinstance(cost, PureCost):
        return cost.epsilon <= left.epsilon * _SLACK
    if isinstance(left, ConcentratedCost) and isinstance(cost, ConcentratedCost):
        return cost.rho <= left.rho * _SLACK
    return left == cost


def rest_of(left: Cost, cost: Cost) -> Cost | None:
    """The rest of a share, or None if nothing is left. Squares of Gaussian shares add up."""
    if isinstance(left, GaussianCost) and isinstance(cost, GaussianCost):
        rest = left.mu**2 - cost.mu**2
        return GaussianCost(math.sqrt(rest)) if rest > left.mu**2 * 1e-15 else None
    if isinstance(left, PureCost) and isinstance(cost, PureCost):
        rest = left.epsilon - cost.epsilon
        return PureCost(rest) if rest > left.epsilon * 1e-15 else None
    if isinstance(left, ConcentratedCost) and isinstance(cost, ConcentratedCost):
        rest = left.rho - cost.rho
        return ConcentratedCost(rest) if rest > left.rho * 1e-15 else None
    return None


def sum_of(first: Cost, second: Cost) -> Cost:
    """The cost of two measurements for one purpose together."""
    if isinstance(first, GaussianCost) and isinstance(second, GaussianCost):
        return GaussianCost(math.hypot(first.mu, second.mu))
    if isinstance(first, PureCost) and isinstance(second, PureCost):
        return PureCost(first.epsilon + second.epsilon)
    if isinstance(first, ConcentratedCost) and isinstance(second, ConcentratedCost):
        return ConcentratedCost(first.rho + second.rho)
    raise AssertionError("one purpose is paid for in one kind of cost")


def worth(cost: Cost) -> Budget:
    """The (ε, δ) of a stream's cost. Other kinds of cost are refused: one (ε, δ) per batch does not prove them.

    >>> worth(ApproximateCost(1.0, 1e-6)), worth(PureCost(2.0))
    (Budget(epsilon=1.0, delta=1e-06), Budget(epsilon=2.0, delta=0.0))
    """
    if isinstance(cost, ApproximateCost):
        return Budget(cost.epsilon, cost.delta)
    if isinstance(cost, PureCost):
        return Budget(cost.epsilon)
    raise NotPaidForError(f"A stream is paid for with an epsilon and a delta, not with {cost}.")


def part_of(cost: Cost, parts: int) -> Cost:
    """One of ``parts`` equal parts of a share."""
    down = 1 - 2.0**-40  # rounded down, so that the parts never add up to more than the share
    if isinstance(cost, GaussianCost):
        return GaussianCost(cost.mu / math.sqrt(parts) * down)
    return PureCost(pure_epsilon(cost) / parts * down)
