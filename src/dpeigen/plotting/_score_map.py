"""The picture of a score map: the private density, the centres of the classes, and the loadings of both axes."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpeigen._types import Floats
from dpeigen.notebook import NOISE
from dpeigen.plotting._base import (
    Display,
    colours,
    must_be,
    neighbours,
    never_formulas,
    short_apart,
)
from dpeigen.plotting._release import whiskers
from dpeigen.privacy import Guarantee
from dpeigen.score_map import Centroids, ScoreMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ScoreMapDisplay"]

_MOST_LOADINGS = 12
_FONT = 9.0  # points
_FINER = 4  # how many times finer than the cells contour lines are drawn
_INSIDE = 0.5  # the share of a class inside its contour


class ScoreMapDisplay(Display):
    """A score map: the density of all rows, and the named centres of classes that can be distinguished from noise.

    A cross at a centre is one standard deviation of its noise. With a density for each class, the line around a name
    contains half of that class. On a new figure the loadings of both components are drawn beside the map.

    Parameters
    ----------
    score_map : ScoreMap
        What is drawn.
    """

    _size = (10.5, 5.6)

    def __init__(self, score_map: ScoreMap) -> None:
        must_be(score_map, ScoreMap, "score_map", type(self).__name__)
        self.score_map = score_map

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Axes | None = None) -> ScoreMapDisplay:
        """Draw the map of a fitted `PrivateScoreMap`.

        Parameters
        ----------
        estimator : PrivateScoreMap
            Fitted.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        ScoreMapDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        check_is_fitted(estimator, "map_")
        return cls(estimator.map_).plot(ax)

    @classmethod
    def from_map(cls, score_map: ScoreMap, ax: Axes | None = None) -> ScoreMapDisplay:
        """Draw a map.

        Parameters
        ----------
        score_map : ScoreMap
            What is drawn.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        ScoreMapDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        return cls(score_map).plot(ax)

    def _guarantee(self) -> Guarantee:
        return self.score_map.guarantee

    def _caption(self) -> str:
        g = self._guarantee()
        return f"map: ε = {g.epsilon:g}, {neighbours(g)}; with the release of the axes: {self.score_map.total_words}"

    def axes_on(self, figure: Figure) -> Axes:
        """Divide a figure in two panels, and draw the loadings on the right one.

        Parameters
        ----------
        figure : matplotlib Figure
            An empty one.

        Returns
        -------
        matplotlib Axes
            The left panel, for `plot`.
        """
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (2.4, 1)})
        self._draw_loadings(right)
        never_formulas(right)
        axes: Axes = left
        return axes

    def _new_axes(self) -> Axes:
        import matplotlib.pyplot as plt

        return self.axes_on(plt.figure(figsize=self._size, layout="constrained"))

    def _draw(self, ax: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        found, palette = self.score_map, colours(ax)
        density = found.density
        (x0, x1), (y0, y1) = found.window.tolist()
        image = ax.imshow(
            density.sum(axis=0).T,
            origin="lower",
            extent=(x0, x1, y0, y1),
            aspect="auto",
            cmap=LinearSegmentedColormap.from_list("density", [ax.get_facecolor(), palette.blue]),
            vmin=0,
            vmax=max(1.5 * float(density.sum(axis=0).max()), 1e-9),
            interpolation="bicubic",
        )
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.04, pad=0.01)
        bar.set_label("rows in a cell, private and smoothed", fontsize=_FONT)
        bar.outline.set_visible(False)
        centroids = found.centroids()
        lines = cycle(palette.series)
        if found.by_class:
            self._draw_contours(ax, density, centroids, lines)
        shown = np.flatnonzero(centroids.shown)
        for at in shown:
            (x, y), (width, height) = centroids.points[at], centroids.errors[at]
            ax.errorbar(
                x,
                y,
                height,
                width,
                fmt="o",
                color=palette.vermillion,
                markersize=4.5,
                elinewidth=0.8,
                alpha=0.9,
                zorder=4,
            )
        ax.set(xlim=(x0, x1), ylim=(y0, y1))
        _name(ax, centroids.points[shown], short_apart([centroids.labels[at] for at in shown]))
        first, second = (int(axis) + 1 for axis in found.facts["axes"])
        ax.set(xlabel=f"component {first} ({self._share(0)})", ylabel=f"component {second} ({self._share(1)})")
        hidden = len(found.labels) - len(shown)
        some = f" ({hidden} of {len(found.labels)} labels lost in the noise)" if hidden else ""
        ax.set_title("Private score map" + some, loc="left")

    def _draw_contours(self, ax: Axes, density: Floats, centroids: Centroids, lines: Any) -> None:
        from scipy.ndimage import zoom

        fine = [_FINER * len(edges[1:]) for edges in self.score_map.edges]
        x, y = (np.linspace(e[0], e[-1], 2 * n + 1)[1::2] for e, n in zip(self.score_map.edges, fine, strict=True))
        for coarse, shown, colour in zip(density, centroids.shown, lines, strict=False):
            group = np.maximum(zoom(coarse, _FINER, order=3, mode="nearest", grid_mode=True), 0.0)
            ordered = np.sort(group, axis=None)[::-1]
            if shown and ordered[0] > 0:
                level = ordered[np.searchsorted(np.cumsum(ordered), _INSIDE * ordered.sum())]
                if level < ordered[0]:
                    ax.contour(x, y, group.T, levels=[level], colors=[colour], linewidths=1.4)

    def _draw_loadings(self, ax: Axes) -> None:
        found, palette = self.score_map, colours(ax)
        components, names, told, ends = (
            found.components,
            found.column_labels,
            found.told_from_noise,
            found.loading_intervals,
        )
        largest = np.argsort(-np.linalg.norm(components, axis=0), kind="stable")[:_MOST_LOADINGS][::-1]
        place, numbers = np.arange(len(largest)), [int(axis) + 1 for axis in found.facts["axes"]]
        for axis, (number, colour, move) in enumerate(
            zip(numbers, (palette.blue, palette.orange), (0.2, -0.2), strict=True)
        ):
            if not told[axis]:
                ax.barh(place, 0.0, color="none", label=f"component {number}: {NOISE}")
                continue
            shown = components[axis, largest]
            if ends is not None:
                low, high = ends[:, axis, largest]
                shown = np.where((low > 0) | (high < 0), shown, 0.0)
                whiskers(ax, place + move, low, high)
            ax.barh(place + move, shown, height=0.38, color=colour, label=f"component {number}")
        ax.axvline(0, color=palette.grey, linewidth=0.8)
        ax.set_yticks(place, short_apart([names[i] for i in largest], 18), fontsize=_FONT)
        ax.set_ylim(-0.7, len(largest) - 0.3)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        left_out = len(names) - len(largest)
        some = f"; {left_out} smaller left out" if left_out else ""
        of = " of scaled columns" if found.facts.get("scale") else ""
        ax.set_title(f"Loadings{of}", loc="left", fontsize=10)
        known = "whiskers: 95% intervals" if ends is not None else "no intervals"
        ax.set_xlabel(f"loading (no unit){some}\n{known}", fontsize=_FONT)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=1, frameon=False, fontsize=_FONT)

    def _share(self, axis: int) -> str:
        total = float(self.score_map.facts["total_variance"])
        return f"{100 * self.score_map.facts['variances'][axis] / total:.0f}% of the private variance" if total else ""


def _name(ax: Axes, points: Floats, names: list[str]) -> None:
    """Names beside points, each at the first of several positions where it covers no other name."""
    from matplotlib.patheffects import withStroke

    figure = ax.get_figure()
    if figure is None or not len(points):
        return
    scale = 72.0 / figure.dpi
    here = ax.transData.transform(points) * scale  # in points of the page
    taken: list[tuple[float, float, float, float]] = [(x - 3, y - 3, x + 3, y + 3) for x, y in here]
    for (x, y), point, name in zip(here, points, names, strict=True):
        width, height = 0.56 * _FONT * len(name), 1.15 * _FONT
        best, least = (6.0, -height / 2), np.inf
        for step in (1.0, 1.9, 2.8):
            for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
                left = 6.0 * dx * step if dx > 0 else -6.0 * step - width if dx < 0 else -width / 2
                low = (height * step if dy > 0 else -height * (1 + step) if dy < 0 else -height / 2) * 0.8
                box = (x + left, y + low, x + left + width, y + low + height)
                covered = sum(_overlap(box, other) for other in taken) + 0.1 * step
                if covered < least:
                    best, least = (left, low), covered
        left, low = best
        taken.append((x + left, y + low, x + left + width, y + low + height))
        far = max(abs(left + width / 2) - width / 2, abs(low + height / 2) - height / 2) > 10
        ax.annotate(
            name,
            point,
            (left, low),
            textcoords="offset points",
            fontsize=_FONT,
            zorder=6,
            path_effects=[withStroke(linewidth=2.2, foreground=ax.get_facecolor(), alpha=0.8)],
            arrowprops={"arrowstyle": "-", "color": colours(ax).grey, "linewidth": 0.5} if far else None,
        )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """The common area of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0
