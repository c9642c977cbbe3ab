"""Budgets, guarantees, calibration, accounting and every random draw."""

from typing import TYPE_CHECKING

from dpeigen._lazy import lazy
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
from dpeigen.privacy.randomness import NotPrivateWarning, Randomness, randomness

if TYPE_CHECKING:
    from dpeigen.privacy.accounting import allocate, compose, compose_delta, compose_pld
    from dpeigen.privacy.attack import best_guess
    from dpeigen.privacy.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
    from dpeigen.privacy.guarantee import Guarantee
    from dpeigen.privacy.shuffling import shuffled_delta, shuffled_epsilon
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
    "best_guess",
    "compose",
    "compose_delta",
    "compose_pld",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_sigma",
    "randomness",
    "sample_bingham",
    "shuffled_delta",
    "shuffled_epsilon",
]

# Modules that need SciPy are imported on first use: the local client works without SciPy.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "Guarantee": "dpeigen.privacy.guarantee",
        "best_guess": "dpeigen.privacy.attack",
        **dict.fromkeys(["allocate", "compose", "compose_delta", "compose_pld"], "dpeigen.privacy.accounting"),
        **dict.fromkeys(
            ["gaussian_delta", "gaussian_epsilon", "gaussian_mu", "gaussian_sigma"], "dpeigen.privacy.calibration"
        ),
        **dict.fromkeys(["shuffled_delta", "shuffled_epsilon"], "dpeigen.privacy.shuffling"),
        "sample_bingham": "dpeigen.privacy.sphere",
    },
)
