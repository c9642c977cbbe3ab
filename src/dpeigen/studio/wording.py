"""A prediction in words: the error, the range, and what was assumed."""

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
    if measure == "angle" and found.unclear * 2 > found.runs:  # what the card would say of most of them
        tables = f"{found.unclear} of {found.runs} made-up tables"
        words = f"No result in {tables}: no component can be distinguished from noise."
        return Told(words, "poor", told.range)
    return told


def _angle(found: Foreseen) -> Told:
    error, low, high = (_degrees(value or 0.0) for value in (found.error, found.low, found.high))
    level = "good" if error < 12 else "fair" if error < 30 else "poor"
    judged = {"good": "close to those without privacy", "fair": "roughly right", "poor": "little but noise"}[level]
    return Told(f"The components will be about {error:.0f}° off: {judged}.", level, f"{low:.0f}° to {high:.0f}°")


def _degrees(sine: float) -> float:
    return math.degrees(math.asin(min(1.0, sine)))


def _correlation(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 0.05 else "fair" if error < 0.2 else "poor"
    judged = {"good": "small", "fair": "weak relations are lost", "poor": "only strong relations show"}[level]
    return Told(f"A correlation will be about ±{error:.2g} off: {judged}.", level, _between(found))


def _fitted(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 0.1 else "fair" if error < 0.3 else "poor"
    judged = {"good": "close to the regression without privacy", "fair": "roughly right", "poor": "little but noise"}
    words = f"Fitted values will be about {error:.2g} standard deviations off: {judged[level]}."
    return Told(words, level, _between(found))


def _cell(found: Foreseen) -> Told:
    error = found.error or 0.0
    level = "good" if error < 5 else "fair" if error < 25 else "poor"
    return Told(f"The number of people in a cell of the map will be about {error:.2g} off.", level)


def _between(found: Foreseen) -> str:
    high = found.high or 0.0
    return f"{found.low:.2g} to {'more than ' if high >= MOST['fitted'] else ''}{high:.2g}"


_WORDS = {"angle": _angle, "correlation": _correlation, "fitted": _fitted, "cell": _cell}


def assumed(facts: Facts) -> list[str]:
    """What the made-up tables are like, one sentence each."""
    if facts.measure == "cell":
        return ["Only the noise of a cell is predicted, by its formula."]
    who = "people" if facts.visits else "people with one row each"
    found = [f"{facts.people:,} {who}, {facts.features} columns of numbers after categories are split up."]
    kinds = [column.kind for column in facts.columns]
    if "number" in kinds and not facts.bounded:
        found.append("Numbers without a transform are partly skewed.")
    if "transformed" in kinds:
        found.append("Numbers with a transform are normal after it.")
    if facts.bounded:
        found.append("Your limits are about eight times as wide as the standard deviation.")
    if "category" in kinds or "ordinal" in kinds:
        found.append("No category is very rare.")
    if facts.missing != "refuse":
        found.append(f"{HOLES:.0%} of the cells are missing, at random. More missing cells make the error larger.")
    if facts.visits:
        found.append(f"A person has {VISITS:g} rows on average.")
    if facts.measure == "angle":
        found.append("A few factors stand behind the columns, as in many tables of people. If yours has components of "
                     "nearly equal variance, their error can be much larger.")  # fmt: skip
    if facts.robust:
        found.append("There are no extreme outliers.")
    return found
