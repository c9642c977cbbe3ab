"""The guarantees of local reports: of one report for the owner of its row, and of shuffled reports together."""

from __future__ import annotations

from dpeigen.local.parameters import REFERENCES, LocalParameters
from dpeigen.privacy.budget import ApproximateCost, Cost, GaussianCost, PureCost, Relation, Spend
from dpeigen.privacy.guarantee import Guarantee
from dpeigen.privacy.shuffling import shuffled_epsilon

__all__ = ["local_cost", "local_guarantee", "shuffled_guarantee"]


def local_cost(parameters: LocalParameters) -> Cost:
    """The real cost of one report."""
    if parameters.mechanism == "gaussian":
        return GaussianCost(parameters.share)
    return PureCost(parameters.epsilon)


def local_guarantee(parameters: LocalParameters, *, seeded: bool = False, sites: bool = False) -> Guarantee:
    """(ε, δ)-local privacy of each report; with ``sites``, some reports are sums over the rows of a site."""
    notes = ["Each report of a row costs this much: a row that is reported twice costs twice as much."]
    if sites:
        notes.append("Sites summed their own rows: each site sees its own rows, and nobody else has to be trusted.")
    if parameters.published:
        notes.append(
            f"The printed noise is for a stated ε of {parameters.epsilon:g}. It assumes a sensitivity of 1, but the "
            "sensitivity is √2: the ε above is the true one."
        )
    return Guarantee(
        epsilon=parameters.real_epsilon,
        delta=parameters.delta if parameters.mechanism == "gaussian" else 0.0,
        relation=Relation.REPLACE,
        mechanism=f"local-{parameters.mechanism}",
        split=(Spend("report", parameters.mechanism, local_cost(parameters)),),
        trust="local",
        numerics="seeded" if seeded else "exact",
        reference=REFERENCES["published" if parameters.published else parameters.mechanism],
        notes=tuple(notes),
    )


def shuffled_guarantee(parameters: LocalParameters, n_reports: int, delta: float, *, seeded: bool = False) -> Guarantee:
    """The guarantee against everyone but the shuffler, if n reports of single rows were shuffled: (ε, δ) for each.

    The theorem is for n people who all use the same randomiser. The sum of a site is made by another one (and shows
    its number of rows), so an aggregate that contains one has no such guarantee.
    """
    epsilon = shuffled_epsilon(local_cost(parameters), n_reports, delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        relation=Relation.REPLACE,
        mechanism=f"shuffled local-{parameters.mechanism}",
        split=(Spend("shuffled reports", parameters.mechanism, ApproximateCost(epsilon, delta)),),
        trust="shuffled",
        numerics="seeded" if seeded else "exact",
        reference="Feldman, McMillan, Talwar 2021",
        notes=(
            f"{n_reports} reports in an order that only a trusted shuffler knows.",
            "Every person sent one report, and the number counts only honest reports: made-up ones hide nobody.",
        ),
    )
