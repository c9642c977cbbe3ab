"""The pictures of a card: SVG and PNG files, and inline SVG that follows the light or dark colours of the page.

Text is stored as text. Names of columns are never parsed as formulas. Colour-blind readers can distinguish the colours.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpeigen._text import short_apart
from dpeigen._types import Floats
from dpeigen.plotting import BiplotDisplay, LoadingsDisplay, ScreeDisplay
from dpeigen.plotting._base import CAPTION
from dpeigen.plotting._release import whiskers
from dpeigen.release import Release
from dpeigen.report import matrices, regressions
from dpeigen.report.blocks import Picture, short
from dpeigen.report.columns import MOST_CELLS, MOST_COMPONENTS, correlations, names_of, widest_columns, without_units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Drawn", "draw"]

_INK, _BLUE, _ORANGE, _VERMILLION = "#1f2328", "#0072b2", "#e69f00", "#d55e00"
# Colours of the files, and the CSS colours that replace them in a page, where dark mode has others.
_IN_PAGE = {
    _INK: "currentColor",
    "#000000": "currentColor",
    "#595959": "var(--muted)",
    _BLUE: "var(--blue)",
    _ORANGE: "var(--orange)",
    _VERMILLION: "var(--red)",
    "#b8d4e8": "var(--lightblue)",
    "#ffffff": "none",
}
_STYLE = {
    "font.size": 11,
    "axes.titlesize": 12,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "dpeigen",
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
}
_MOST_BARS = 15
_ROOMY = 5  # columns of a heat map with room for text of the usual size
_WIDTH = 4.7  # inches: readable on a phone, two beside each other on a desk, three on paper


@dataclass(frozen=True)
class Drawn:
    """One picture in its three forms."""

    svg: str
    png: bytes
    inline: str


def draw(release: Release, picture: Picture) -> Drawn:
    """Draw a picture of a card."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of glyphs that a font lacks; browsers have others
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(layout="constrained")
        shown = {**release.facts, "feature_names": names_of(release)}
        _drawer(picture.name)(figure, replace(release, facts=shown))  # type: ignore[arg-type]
        if (engine := figure.get_layout_engine()) is not None:  # once, not for every file
            engine.execute(figure)
        figure.set_layout_engine("none")
        vector, pixels = io.BytesIO(), io.BytesIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        words = {"Title": picture.title, "Description": picture.alt}
        trim: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.06}
        figure.savefig(vector, format="svg", metadata=nothing, **trim)
        figure.savefig(pixels, format="png", dpi=160, metadata=words, **trim)
        inside = vector
        if captions := figure.findobj(lambda part: part.get_gid() == CAPTION):  # the page says it already
            inside = io.BytesIO()
            for caption in captions:
                caption.set_visible(False)
            figure.savefig(inside, format="svg", metadata=nothing, **trim)
    root = _svg(vector)
    named = f"<title>{escape(picture.title)}</title>\n <desc>{escape(picture.alt)}</desc>"
    head, rest = root.split(">", 1)
    return Drawn(
        f'<?xml version="1.0" encoding="utf-8"?>\n{head} role="img">\n {named}{rest}',
        pixels.getvalue(),
        _inline(_svg(inside), picture),
    )


def _svg(drawn: io.BytesIO) -> str:
    text = drawn.getvalue().decode()
    return text[text.index("<svg") :]


def _inline(svg: str, picture: Picture) -> str:
    """SVG for a page: unique ids, the colours of the page, and alternative text."""
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{picture.name}-", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda match: _IN_PAGE.get(match[0], match[0]), svg)
    svg = re.sub(r'xmlns:xlink="[^"]*"|xmlns="[^"]*"|<metadata>.*?</metadata>', "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    head, rest = svg.split(">", 1)
    points = re.search(r'\swidth="([\d.]+)pt"', head)
    wide = f' style="max-width:{float(points[1]) / 10:.1f}rem"' if points else ""  # text as large as the page's
    head = re.sub(r'\s(width|height|version)="[^"]*"', "", head)
    return f'{" ".join(head.split())}{wide} role="img" aria-label="{escape(picture.alt)}">{rest}'


# --- pictures -------------------------------------------------------------------------------------------------------


def _axes(figure: Figure, width: float, height: float) -> Axes:
    figure.set_size_inches(width, height)
    return figure.subplots()


def _scree(figure: Figure, release: Release) -> None:
    ax = _axes(figure, _WIDTH, 3.6)
    ScreeDisplay.from_release(release, ax)
    ax.set_title("", loc="left")  # the page has one


def _biplot(figure: Figure, release: Release) -> None:
    ax = _axes(figure, _WIDTH, 3.9)
    BiplotDisplay.from_release(release, ax)
    ax.set_title("", loc="left")


def _loadings(figure: Figure, release: Release, component: int) -> None:
    ax = _axes(figure, _WIDTH, 1.3 + 0.24 * min(release.n_features, 15))
    LoadingsDisplay.from_release(release, ax, component=component)
    ax.set_title("", loc="left")


def _correlations(figure: Figure, release: Release) -> None:
    """Coloured cells. The strength of a correlation is the opacity, so that they fit a light and a dark page."""
    from matplotlib.patches import Rectangle

    shown = widest_columns(release, MOST_CELLS)
    cells, found = correlations(release)[np.ix_(shown, shown)], matrices.correlation_intervals(release)
    told = np.ones(cells.shape, dtype=bool) if found is None else matrices.clear(found)[np.ix_(shown, shown)]
    names, d = [names_of(release)[j] for j in shown], len(shown)
    side = min(_WIDTH + 1.6, 3.2 + 0.25 * d)
    ax = _axes(figure, side, 0.92 * side)
    for (i, j), value in np.ndenumerate(cells):
        if not told[i, j]:
            continue
        colour = _colour(value)
        ax.add_patch(Rectangle((j, i), 0.96, 0.96, facecolor=colour, alpha=_opacity(value), linewidth=0))
        if d <= MOST_COMPONENTS and i != j:  # 1 on the diagonal, by definition
            cell = ax.text(j + 0.48, i + 0.48, f"{value:+.2f}", ha="center", va="center")
            cell.set_fontsize(9.5 if d <= _ROOMY else 7.5)
            cell.set_in_layout(False)  # it is inside its cell
    size = 9 if d > 16 else None
    ax.set_yticks(np.arange(d) + 0.5, short_apart(names), fontsize=size)
    ax.set_xticks(np.arange(d) + 0.5, short_apart(names, 16), rotation=60, ha="right", fontsize=size)
    ax.tick_params(length=0)
    ax.set(xlim=(0, d), ylim=(d, 0), aspect="equal")
    for spine in ax.spines.values():
        spine.set_visible(False)
    _scale(ax)


def _colour(value: float) -> str:
    return _BLUE if value >= 0 else _ORANGE


def _opacity(value: float) -> float:
    """Text must stay readable on the strongest colour."""
    return 0.05 + 0.5 * abs(value)


def _scale(ax: Axes) -> None:
    """A colour bar above the cells."""
    from matplotlib.patches import Rectangle

    steps = np.linspace(-1, 1, 41)
    strip = ax.inset_axes((0.0, 1.02, 1.0, 0.035))
    for low, high in pairwise(steps):
        middle = (low + high) / 2
        strip.add_patch(
            Rectangle((low, 0), high - low, 1, facecolor=_colour(middle), alpha=_opacity(middle), linewidth=0)
        )
    strip.set(xlim=(-1, 1), ylim=(0, 1), yticks=[], xticks=[-1, -0.5, 0, 0.5, 1], xlabel="correlation")
    strip.xaxis.set_ticks_position("top")
    strip.xaxis.set_label_position("top")
    strip.tick_params(length=2, labelsize=9)
    for spine in strip.spines.values():
        spine.set_visible(False)


def _strongest(figure: Figure, release: Release) -> None:
    """The strongest correlations as points with whiskers."""
    pairs, found = matrices.strongest(release), matrices.correlation_intervals(release)
    matrix = correlations(release)
    values = np.array([matrix[i, j] for i, j in pairs])
    ends = None if found is None else tuple(np.array([side[i, j] for i, j in pairs]) for side in found)
    bare, used = without_units(names_of(release)), sorted({j for pair in pairs for j in pair})
    names = dict(zip(used, short_apart([bare[j] for j in used], 14), strict=True))
    labels = [f"{names[j]}, {names[i]}" for i, j in pairs]
    ax = _points(figure, values, ends, labels)
    ax.set(xlabel="correlation (no unit)", xlim=(-1.04, 1.04))


def _coefficients(figure: Figure, release: Release) -> None:
    """Coefficients in deviations of the target for one deviation of a column, so that units do not matter."""
    fit = regressions.asked_regression(release)
    errors = regressions.regression_errors(release, fit)
    units, names = regressions.standardised(release, fit), names_of(release)
    order = np.argsort(-np.abs(fit.coef * units), kind="stable")
    if errors is not None:  # unknown ones are named below the table
        order = order[np.isfinite(errors.standard_errors[order])]
    order = order[:_MOST_BARS]
    ends = None if errors is None else tuple((side * units)[order] for side in errors.intervals)
    ax = _points(figure, (fit.coef * units)[order], ends, short_apart([names[j] for j in order]))
    ax.set_xlabel(f"change of {short(names[-1], 20)} per deviation, in its deviations")


def _points(figure: Figure, values: Floats, ends: tuple[Floats, ...] | None, labels: list[str]) -> Axes:
    """Points with whiskers, the first at the top; no point if the interval contains 0."""
    ax = _axes(figure, _WIDTH, 1.1 + 0.25 * len(values))
    place = np.arange(len(values))[::-1]
    clear = np.ones(len(values), dtype=bool)
    if ends is not None:
        finite = np.isfinite(ends[0]) & np.isfinite(ends[1])
        clear = matrices.clear((ends[0], ends[1]))
        whiskers(ax, place[finite], ends[0][finite], ends[1][finite])
    colours = [_colour(value) for value in values[clear]]
    ax.scatter(values[clear], place[clear], color=colours, s=34, zorder=5)
    ax.axvline(0, color=_INK, linewidth=0.8)
    ax.set_yticks(place, labels)
    ax.set_ylim(-0.7, len(values) - 0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


_DRAWERS = {
    "scree": _scree,
    "biplot": _biplot,
    "correlations": _correlations,
    "strongest": _strongest,
    "coefficients": _coefficients,
}


def _drawer(name: str) -> Callable[[Figure, Release], None]:
    kind, _, number = name.rpartition("-")
    return partial(_loadings, component=int(number) - 1) if kind == "loadings" else _DRAWERS[name]
