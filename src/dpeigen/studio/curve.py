"""The predicted error against ε as a small picture: SVG made of numbers alone, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpeigen.studio.foresee import HIGHEST, LOWEST

__all__ = ["curve_svg"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 320, 160, 44, 26
_NAMES = {
    "angle": "angle to the components without privacy, in degrees",
    "correlation": "error of a correlation",
    "fitted": "error of a fitted value, in standard deviations of the outcome",
    "cell": "error of a count, in people",
}
_DEGREES = (90.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # where lines are drawn for angles


def curve_svg(points: Sequence[tuple[float, float | None]], epsilon: float, error: float | None, measure: str) -> str:
    """A picture with alternative text. For angles, points and the error are sines.

    >>> "<polyline" in curve_svg([(0.1, 0.9), (1.0, 0.1)], 1.0, 0.1, "angle")
    True
    """
    known = [(e, min(y, 1e9)) for e, y in points if y is not None and y > 0 and math.isfinite(y)]
    if len(known) < 2:
        return ""
    if measure == "angle":
        known, error = [(e, _degrees(y)) for e, y in known], _degrees(error) if error else None
    low, high = math.log10(LOWEST), math.log10(HIGHEST)
    values = [y for _, y in known] + ([error] if error else [])
    steps = _steps(measure, min(values), max(values))
    top, floor = steps[0], steps[-1]
    tall = math.log10(top) - math.log10(floor)

    def at(e: float, y: float) -> tuple[float, float]:
        across = (math.log10(e) - low) / (high - low)
        up = (math.log10(min(max(y, floor), top)) - math.log10(floor)) / tall
        x = _LEFT + min(max(across, 0.0), 1.0) * (_WIDTH - _LEFT - 8)
        return round(x, 1), round(8 + (1 - up) * (_HEIGHT - _BOTTOM - 8), 1)

    line = " ".join(f"{x},{y}" for x, y in (at(e, y) for e, y in known))
    parts = []
    for value in steps:
        y = at(1, value)[1]
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}{"°" * (measure == "angle")}</text>'
        )
    for tick in (0.1, 1, 10):
        x = at(tick, top)[0]
        parts.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<polyline class="line" points="{line}"/>')
    label = f"Predicted {_NAMES[measure]}, against epsilon: falling from {known[0][1]:.2g} at {known[0][0]:g} to "
    label += f"{known[-1][1]:.2g} at {known[-1][0]:g}."
    if error:
        x, y = at(epsilon, error)
        parts.append(f'<circle class="here" cx="{x}" cy="{y}" r="5"/>')
        label += f" At {epsilon:g} it is {error:.2g}."
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
        f'<p class="hint">Vertical: {_NAMES[measure]}. Horizontal: ε. Both scales are logarithmic.</p>'
    )


def _degrees(sine: float) -> float:
    return math.degrees(math.asin(min(1.0, sine)))


def _steps(measure: str, least: float, most: float) -> list[float]:
    """Where lines are drawn, from the top down: at least two of them, around all values."""
    if measure == "angle":
        return [value for at, value in enumerate(_DEGREES) if at < 3 or _DEGREES[at - 1] > least]
    top = 10 ** math.ceil(math.log10(most) - 1e-9)
    top = min(max(1.0, top), 1.0 if measure == "correlation" else math.inf)
    floor = min(10 ** math.floor(math.log10(least)), top / 10)
    return [top / 10**step for step in range(round(math.log10(top / floor)) + 1)]
