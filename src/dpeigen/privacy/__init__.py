"""Budgets, guarantees, calibration, accounting and every random draw."""

from dpeigen.privacy.accounting import allocate, compose, compose_delta, compose_pld
from dpeigen.privacy.budget import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    Cost,
    GaussianCost,
    PureCost,
    Relation,
    Spend,
)
from dpeigen.privacy.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
from dpeigen.privacy.guarantee import Guarantee
from dpeigen.privacy.randomness import NotPrivateWarning, Randomness, randomness
from dpeigen.privacy.sphere import sample_bingham

__all__ = [
    "ApproximateCost",
    "Budget",
    "ConcentratedCost",
    "Cost",
    "GaussianCost",
    "Guarantee",
    "NotPrivateWarning",
    "PureCost",
    "Randomness",
    "Relation",
    "Spend",
    "allocate",
    "compose",
    "compose_delta",
    "compose_pld",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_sigma",
    "randomness",
    "sample_bingham",
]
