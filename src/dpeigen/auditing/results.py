"""The plan of an audit, and its results."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpeigen._validate import check_count, check_epsilon, check_fraction
from dpeigen.auditing.targets import TARGETS

__all__ = ["FEWEST", "PIECES", "PILOT", "READINGS", "AuditPlan", "Result"]

PIECES = 8  # of the fresh runs on one data set; readings after a fourth, a half and all of them
PILOT, FEWEST = 2000, 400  # runs that are enough to choose an event; that a slow mechanism gets, unless quick
READINGS = (PIECES // 4, PIECES // 2, PIECES)


@dataclass(frozen=True)
class AuditPlan:
    """The settings of an audit, which are fixed before the first draw.

    Attributes
    ----------
    targets : tuple of str
        Names of the mechanisms to attack.
    epsilons : tuple of float
        The stated ε at which each is attacked.
    runs : int
        Fresh runs of each on both data sets.
    rounds : int
        Rounds of the search for a bad pair and event, before the fresh runs.
    quick : bool
        Fewer runs, for a preliminary audit.
    confidence : float
        The probability with which all lower bounds hold together.
    seed : int or None
        For tests; None: the operating system's randomness.
    """

    targets: tuple[str, ...]
    epsilons: tuple[float, ...] = (4.0,)
    runs: int = 4000  # fresh ones on each of the two data sets; slow mechanisms get fewer
    rounds: int = 20  # of the search
    quick: bool = False
    confidence: float = 0.999
    seed: int | None = None

    def __post_init__(self) -> None:
        check_count("runs", self.runs, "audit", low=64)
        check_count("rounds", self.rounds, "audit", low=0)
        check_fraction("confidence", self.confidence, "audit")
        for epsilon in self.epsilons:
            check_epsilon(epsilon, "audit")

    def runs_of(self, name: str) -> int:
        """Return the number of fresh runs of one mechanism.

        Parameters
        ----------
        name : str
            The mechanism.

        Returns
        -------
        int
            A multiple of the pieces in which runs are made.
        """
        cost = TARGETS[name].cost if name in TARGETS else 1
        least = 64 if self.quick else min(self.runs, FEWEST)
        return max(64, least, self.runs // cost) // PIECES * PIECES

    def pilot_of(self, name: str) -> int:
        """Return the number of pieces of the pilot, in which pair and event are chosen.

        Parameters
        ----------
        name : str
            The mechanism.

        Returns
        -------
        int
            All pieces, or as many as are enough.
        """
        runs = self.runs_of(name)
        return math.ceil(min(runs, PILOT) / (runs // PIECES))

    @property
    def level(self) -> float:
        """The confidence of one reading."""
        return 1 - (1 - self.confidence) / len(READINGS)


@dataclass(frozen=True)
class Result:
    """The stated and the audited guarantee of one mechanism; counts are of fresh runs.

    Attributes
    ----------
    name : str
        The mechanism.
    epsilon, delta : float
        What was stated.
    basis : str
        "worst-case", or a guarantee under a model.
    pair, event : str
        The neighbouring data sets and the event that separated them best.
    hits : (int, int)
        How often the event happened on each.
    trials, planned : int
        Runs made, and runs planned.
    plain, fitted : float
        Lower bounds on ε, as in `Finding`.
    refuted : bool
        Whether the claim is refuted.
    confidence : float
        The probability with which the bounds hold.
    """

    name: str
    epsilon: float
    delta: float
    basis: str
    pair: str
    event: str
    hits: tuple[int, int]
    trials: int
    planned: int
    plain: float
    fitted: float
    refuted: bool
    confidence: float

    @property
    def lower(self) -> float:
        """The lower bound on ε."""
        return max(self.plain, self.fitted)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            All fields.
        """
        return asdict(self) | {"lower": self.lower}
