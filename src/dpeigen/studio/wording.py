"""A prediction in words: the error, the range, and the assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen.studio.foresee import MOST, Facts, Foreseen
from dpeigen.studio.made_up import HOLES, VISITS

__all__ = ["Told", "assumed", "in_words"]


@dataclass(frozen=True)
class Told:
    """A prediction in words; ``level`` is good, fair or poor."""

    words: str
    level: str
    range: str = ""


def in_words(found: Foreseen, measure: str) -> Told:
    """What is to be expected."""
    if found.error is None:
        return Told("No prediction.", "poor")
    told = _WORDS[measure](found)
    if measure == "angle" and found.unclear * 2 > found.runs:  # what most of their cards would say
        tables = f"{found.unclear} of {found.runs} made-up tables"
        words = f"No result in {tables}: no component can be distinguished from noise."
        return Told(words, "poor", told.range)
    return told


def _angle(found: Foreseen) -> Told:
    error, low, high = (_degrees(value or 0.0) for value in (found.error, found.low, found.high))
    level = "good" if error < 12 else "fair" if error < 30 else "poor"
    judged = {"good": "a small error", "fair": "roughly right", "poor": "mostly noise"}[level]
    words = f"The components will differ by about {error:.0f}° from those without privacy: {judged}."
    return Told(words, level, f"{low:.0f}° to {high:.0f}°")


def _degrees(sine: float) -> float:
    return math.degrees(math.asin(min(1.0, sine)))


def _correlation(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 0.05 else "fair" if error < 0.2 else "poor"
    judged = {"good": "small", "fair": "weak correlations are hidden", "poor": "only strong ones are visible"}[level]
    return Told(f"The error of a correlation will be about ±{error:.2g}: {judged}.", level, _between(found))


def _fitted(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 0.1 else "fair" if error < 0.3 else "poor"
    judged = {"good": "close to the regression without privacy", "fair": "roughly right", "poor": "mostly noise"}
    words = f"The error of fitted values will be about {error:.2g} standard deviations of the outcome: {judged[level]}."
    return Told(words, level, f"{_between(found)} standard deviations")


def _cell(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 5 else "fair" if error < 25 else "poor"
    return Told(f"Counts in the cells of the map will have an error of about {error:.2g} people.", level)


def _between(found: Foreseen) -> str:
    high = found.high or 0.0
    return f"{found.low:.2g} to {'more than ' if high >= MOST['fitted'] else ''}{high:.2g}"


_WORDS = {"angle": _angle, "correlation": _correlation, "fitted": _fitted, "cell": _cell}


def assumed(facts: Facts) -> list[str]:
    """The assumptions about the made-up tables, one sentence each."""
    if facts.measure == "cell":
        return ["Only the noise in a cell is predicted, from its formula."]
    who = "people" if facts.visits else "people with one row each"
    found = [f"{facts.people:,} {who}, {facts.features} numeric columns (one for each value of a category)."]
    kinds = [column.kind for column in facts.columns]
    if "number" in kinds and not facts.bounded:
        found.append("Some columns without a transform are skewed.")
    if "transformed" in kinds:
        found.append("Columns with a transform are normally distributed after it.")
    if facts.bounded:
        found.append("The range between your limits is about eight standard deviations.")
    if "category" in kinds or "ordinal" in kinds:
        found.append("No category is very rare.")
    if facts.missing != "refuse":
        found.append(f"{HOLES:.0%} of the cells are missing, at random. More missing cells make the error larger.")
    if facts.visits:
        found.append(f"A person has {VISITS:g} rows on average.")
    if facts.measure == "angle":
        found.append("The columns depend on a few common factors, as in many tables about people. If some of your "
                     "components have nearly equal variances, their error can be much larger.")  # fmt: skip
    if facts.robust:
        found.append("There are no extreme outliers.")
    return found
