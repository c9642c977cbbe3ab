"""The biplot of a release: the loadings of columns on the first two components, over synthetic rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.notebook import NOISE, loadings_unknown
from dpeigen.plotting._base import characters, colours, ink, short_apart
from dpeigen.plotting._release import ReleaseDisplay, draw_loadings, say
from dpeigen.privacy.randomness import made_up_randomness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BiplotDisplay"]

_MOST_LABELS = 10
_LABEL = 9.0  # points
_SIDE, _PLACE = 1.85, 1.12  # where the margin for labels ends, and where labels begin, in half-widths of the cloud
_TICKS = 4  # most steps of the horizontal axis, which is about half as wide as the picture
_CLOUD = 400  # synthetic rows behind a biplot


class BiplotDisplay(ReleaseDisplay):
    """Loadings of the first two released components, over synthetic rows drawn from the release.

    Arrows are components times the square root of their variance, stretched together to fill the cloud; the longest are
    labelled, and crosses at their tips are the 95% intervals of their loadings. With a single component that can be
    distinguished from noise, the picture is a bar chart of its loadings; with none it says so. Where the release has a
    scale, loadings and scores are those of the divided columns.

    Parameters
    ----------
    release : Release
        What is drawn.
    """

    def _draw(self, ax: Axes) -> None:
        told = sum(self.release.is_resolved(i) for i in range(min(2, len(self.release.components))))
        found = self.release.usual_intervals
        if told and found is not None and loadings_unknown(found):
            say(ax, "The loadings are not known: each may be\nanything between −1 and 1.")
        elif told == 2:
            self._draw_arrows(ax)
        elif told == 1:
            draw_loadings(ax, self.release, 0)
            ax.set_title("Loadings of component 1" + self._of_columns(), loc="left")
        else:
            say(ax, f"No component can be told from noise:\nall are {NOISE}.")

    def _caption(self) -> str:
        found = self.release.usual_intervals
        drawn = all(self.release.is_resolved(i) for i in (0, 1)) and len(self.release.components) > 1
        drawn = drawn and not (found is not None and loadings_unknown(found))
        return super()._caption() + ("; points: synthetic rows drawn from the release" if drawn else "")

    def _draw_arrows(self, ax: Axes) -> None:
        release, palette, shown = self.release, colours(ax), self._known()
        components, roots = release.components[:2], np.sqrt(np.maximum(release.eigenvalues[:2], 0.0))[:, None]
        rows = release.sample(_CLOUD, random_state=made_up_randomness())  # the same picture every time
        rows = rows if release.mean is None else rows - release.mean
        scores = (rows if release.scale is None else rows / release.scale) @ components.T
        loadings = (components * roots).T  # one arrow for each column
        lengths = np.where(shown, np.linalg.norm(loadings, axis=1), 0.0)
        reach = float(np.quantile(np.linalg.norm(scores, axis=1), 0.98)) or 1.0
        stretch = 0.9 * reach / lengths.max() if lengths.max() > 0 else 0.0
        tips = loadings * stretch
        ax.scatter(scores[:, 0], scores[:, 1], s=9, color=palette.blue, alpha=0.28, linewidths=0)
        order = np.argsort(-lengths, kind="stable")[:_MOST_LABELS]
        longest = order[lengths[order] > 0.05 * lengths.max()]
        for i, tip in enumerate(tips):
            if not shown[i]:
                continue
            opacity, width = (1.0, 1.5) if i in longest else (0.3, 0.8)
            arrow = {"arrowstyle": "-|>", "color": palette.vermillion, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", tip, (0, 0), arrowprops=arrow | {"alpha": opacity, "linewidth": width})
        self._draw_crosses(ax, tips, longest, stretch * roots)
        half = 1.05 * np.abs(np.vstack([scores, tips[shown]])).max(axis=0) + 1e-9 * reach
        _frame(ax, half)
        _label_sides(ax, tips[longest], [release.labels[i] for i in longest], half)
        ax.set(xlabel=f"component 1 ({self._share(0)})", ylabel=f"component 2 ({self._share(1)})")
        some = f" ({len(longest)} longest of {shown.sum()} labelled)" if len(longest) < shown.sum() else ""
        some += f"; not known: {(~shown).sum()}" if not shown.all() else ""
        ax.set_title("Biplot" + self._of_columns() + some, loc="left")

    def _known(self) -> NDArray[np.bool_]:
        """Columns with known loadings: nothing is drawn for the others, whose intervals cross the whole picture."""
        found = self.release.usual_intervals
        everything = np.ones(self.release.n_features, dtype=bool)
        return everything if found is None or not found.known.any() else np.asarray(found.known)

    def _draw_crosses(self, ax: Axes, tips: Floats, longest: NDArray[np.intp], factors: Floats) -> None:
        """Intervals of the loadings of labelled columns, in the units of the arrows."""
        found = self.release.usual_intervals
        if found is None:
            return
        low, high = ((side[:2] * factors).T[longest] for side in found.components)
        style: dict[str, Any] = {"color": ink(ax), "linewidth": 0.7, "alpha": 0.75, "zorder": 4}
        ax.hlines(tips[longest, 1], low[:, 0], high[:, 0], **style)
        ax.vlines(tips[longest, 0], low[:, 1], high[:, 1], **style)

    def _share(self, component: int) -> str:
        total = float(np.trace(self.release.covariance))
        return f"{100 * self.release.eigenvalues[component] / total:.0f}% of the variance" if total > 0 else "0%"


def _frame(ax: Axes, half: Floats) -> None:
    """Axes through the origin that end with the cloud; the margin beside it is for the labels."""
    from matplotlib.ticker import MaxNLocator

    width, height = map(float, half)
    ax.set(xlim=(-width, width), ylim=(-height, height))
    ticks = MaxNLocator(_TICKS, steps=[1, 2, 5, 10]).tick_values(-width, width)
    ax.set_xticks([tick for tick in ticks if abs(tick) <= width])
    ax.spines["bottom"].set_bounds(-width, width)
    ax.plot([-width, width], [0, 0], color=colours(ax).grey, linewidth=0.5, zorder=0)
    ax.plot([0, 0], [-height, height], color=colours(ax).grey, linewidth=0.5, zorder=0)


def _label_sides(ax: Axes, tips: Floats, names: list[str], half: Floats) -> None:
    """Labels in a column on the side their arrow points to, apart from each other, with thin lines to the tips."""
    from scipy.optimize import linear_sum_assignment

    limits = [-1.0, 1.0]
    for side in (-1, 1):
        if ((tips[:, 0] >= 0) == (side > 0)).any():
            limits[side > 0] = _SIDE * side
    room = characters(ax, _LABEL, (_SIDE - _PLACE) / (limits[1] - limits[0]))
    names = short_apart(names, room)
    for side in (-1, 1):
        here = np.flatnonzero((tips[:, 0] >= 0) == (side > 0))
        if len(here) == 0:
            continue
        points = tips[here] / half
        heights = _spread(np.sort(points[:, 1]), gap=0.15, edge=0.95)
        places = np.column_stack([np.full(len(here), _PLACE * side), heights])
        # Lines of least total length do not cross.
        distances = np.linalg.norm(points[:, None] - places[None], axis=2)
        for point, place in zip(*linear_sum_assignment(distances), strict=True):
            (x, y), (to_x, to_y) = tips[here[point]], places[place] * half
            ax.plot([x, to_x], [y, to_y], color=colours(ax).grey, linewidth=0.5, alpha=0.8)
            align = "left" if side > 0 else "right"
            name = ax.text(to_x + 0.02 * side * half[0], to_y, names[here[point]], fontsize=_LABEL)
            name.set(ha=align, va="center", in_layout=False)
    ax.set_xlim(limits[0] * half[0], limits[1] * half[0])


def _spread(heights: Floats, gap: float, edge: float) -> Floats:
    """Increasing heights at least ``gap`` apart within ±edge, near the given increasing ones.

    >>> _spread(np.array([0.0, 0.1, 0.9]), gap=0.5, edge=1.0).round(2).tolist()
    [-0.2, 0.3, 0.9]
    """
    from sklearn.isotonic import isotonic_regression

    gap = min(gap, 2 * edge / max(1, len(heights) - 1))
    steps = gap * np.arange(len(heights))
    # In height − step, neighbours that are too close are out of order: pool them, then keep within the edges.
    return np.clip(isotonic_regression(heights - steps), -edge, edge - steps[-1]) + steps
