"""The pictures of a card, as SVG and PNG, and as SVG that lives in a page and follows its light or dark colours.

Text stays text. Names of columns are never read as formulas. Colours are those that colour-blind readers tell apart.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dpeigen.plotting import BiplotDisplay, ScreeDisplay
from dpeigen.release import Release
from dpeigen.report import results
from dpeigen.report.blocks import Picture, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _BLUE, _ORANGE, _VERMILLION, _WHITE = "#1f2328", "#0072b2", "#e69f00", "#d55e00", "#fefefe"
# What a colour is called in the page, where it changes in the dark.
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
    "font.size": 11.5,
    "axes.titlesize": 12.5,
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
_MOST_BARS = 20


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
        shown = {**release.facts, "feature_names": results.names_of(release)}
        _DRAWERS[picture.name](figure, replace(release, facts=shown))  # type: ignore[arg-type]
        if (engine := figure.get_layout_engine()) is not None:  # once, not for every file
            engine.execute(figure)
        figure.set_layout_engine("none")
        vector, pixels = io.BytesIO(), io.BytesIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        words = {"Title": picture.title, "Description": picture.alt}
        trim: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.06}
        figure.savefig(vector, format="svg", metadata=nothing, **trim)
        figure.savefig(pixels, format="png", dpi=160, metadata=words, **trim)
    root = vector.getvalue().decode()
    root = root[root.index("<svg") :]
    named = f"<title>{escape(picture.title)}</title>\n <desc>{escape(picture.alt)}</desc>"
    head, rest = root.split(">", 1)
    return Drawn(
        f'<?xml version="1.0" encoding="utf-8"?>\n{head} role="img">\n {named}{rest}',
        pixels.getvalue(),
        _inline(root, picture),
    )


def _inline(svg: str, picture: Picture) -> str:
    """For a page: names of its own, colours of the page, words for those who do not see it."""
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
    ax = _axes(figure, 6.4, 4.6)
    ScreeDisplay.from_release(release, ax)
    ax.set_title("", loc="left")  # the page has one, and says below the picture what the line is
    for mark in [*ax.lines, *(text for text in ax.texts if text.get_text() == "noise alone")]:
        mark.remove()
    top = 1.05 * max(float(bar.get_height()) for bar in ax.patches) or 1.0  # type: ignore[attr-defined]
    ax.set_ylim(0, top)
    floor = results.noise_floor(release)
    if floor is None:
        return
    inside = floor[0] <= 1.5 * top
    words = f"noise floor {floor[0]:.3g}" + ("" if inside else ", above the picture")
    ax.axhline(floor[0], color=_INK, linestyle=(0, (5, 3)), linewidth=1.3, zorder=3, label=words)
    ax.set_ylim(0, max(top, 1.1 * floor[0]) if inside else top)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=10, borderaxespad=0.2)


def _biplot(figure: Figure, release: Release) -> None:
    BiplotDisplay.from_release(release, _axes(figure, 6.8, 5.0))


def _loadings(figure: Figure, release: Release) -> None:
    shown = results.largest_columns(release, results.MOST_CELLS)
    cells = release.components[: results.MOST_COMPONENTS, shown].T
    names = [results.names_of(release)[j] for j in shown]
    _heat(figure, cells, names, [f"{i + 1}" for i in range(cells.shape[1])], "component", "loading")


def _correlations(figure: Figure, release: Release) -> None:
    shown = results.widest_columns(release, results.MOST_CELLS)
    cells = results.correlations(release)[np.ix_(shown, shown)]
    names = [results.names_of(release)[j] for j in shown]
    _heat(figure, cells, names, names, "", "correlation")


def _heat(figure: Figure, cells: Any, rows: list[str], columns: list[str], label: str, what: str) -> None:
    """A matrix by colour, with numbers where they fit."""
    height, width = cells.shape
    square = what == "correlation"
    side = min(7.2, 3.4 + 0.45 * width)
    ax = _axes(figure, *((side, 0.92 * side) if square else (min(7.2, 3.4 + 0.55 * width), 1.7 + 0.3 * height)))
    most = 1.0 if square else max(float(np.abs(cells).max()), 1e-12)
    import matplotlib as mpl

    colours = mpl.colormaps["RdBu"].resampled(21)
    mesh = ax.pcolormesh(cells, cmap=colours, vmin=-most, vmax=most, edgecolors=_WHITE, linewidth=0.4)
    ax.set_yticks(np.arange(height) + 0.5, [short(name) for name in rows])
    ax.set_xticks(
        np.arange(width) + 0.5,
        [short(name, 16) for name in columns],
        rotation=0 if label else 60,
        ha="center" if label else "right",
        rotation_mode="anchor",
    )
    ax.invert_yaxis()
    ax.set_xlabel(label)
    ax.tick_params(length=0, labelsize=9 if square and height > 16 else None)
    if square:
        ax.set_aspect("equal")
    for spine in ax.spines.values():
        spine.set_visible(False)
    if width <= results.MOST_COMPONENTS:
        for (i, j), value in np.ndenumerate(cells):
            ink = _WHITE if abs(value) > 0.6 * most else "#101010"
            cell = ax.text(j + 0.5, i + 0.5, f"{value:+.2f}", ha="center", va="center", fontsize=9.5, color=ink)
            cell.set_in_layout(False)  # it is inside its cell
    figure.colorbar(
        mesh, ax=ax, label=what, shrink=0.8 if square else min(1.0, 6 / (0.3 * height + 1)), aspect=22, pad=0.02
    )


def _coefficients(figure: Figure, release: Release) -> None:
    fit = results.asked_regression(release)
    largest = np.argsort(-np.abs(fit.coef), kind="stable")[:_MOST_BARS][::-1]
    ax = _axes(figure, 6.4, 1.2 + 0.3 * len(largest))
    ax.barh(np.arange(len(largest)), fit.coef[largest], color=[_BLUE if fit.coef[j] >= 0 else _ORANGE for j in largest])
    ax.axvline(0, color=_INK, linewidth=0.8)
    ax.set_yticks(np.arange(len(largest)), [short(fit.feature_names[j]) for j in largest])
    ax.set_xlabel("coefficient")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


_DRAWERS = {
    "scree": _scree,
    "biplot": _biplot,
    "loadings": _loadings,
    "correlations": _correlations,
    "coefficients": _coefficients,
}
