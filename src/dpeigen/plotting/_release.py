"""Pictures of a release: a scree plot and a biplot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpeigen._types import Floats
from dpeigen.plotting._base import BLUE, GREY, LIGHT, ORANGE, VERMILLION, Display, must_be, short
from dpeigen.privacy import Guarantee
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

R = TypeVar("R", bound="_ReleaseDisplay")
_MOST_BARS = 30
_MOST_LABELS = 10
_MOST_LOADINGS = 15
_CLOUD = 400  # synthetic rows behind a biplot


class _ReleaseDisplay(Display):
    """A picture of a release."""

    def __init__(self, release: Release) -> None:
        must_be(release, Release, "release", type(self).__name__)
        self.release = release

    @classmethod
    def from_estimator(cls: type[R], estimator: Any, ax: Axes | None = None) -> R:
        """Draw the release of a fitted estimator."""
        check_is_fitted(estimator, "release_")
        return cls(estimator.release_).plot(ax)

    @classmethod
    def from_release(cls: type[R], release: Release, ax: Axes | None = None) -> R:
        """Draw a release."""
        return cls(release).plot(ax)

    def _guarantee(self) -> Guarantee:
        return self.release.guarantee


class ScreeDisplay(_ReleaseDisplay):
    """Private variances along the principal axes of the released covariance, with their cumulative share.

    The released components are drawn dark. The others come from the same released covariance and cost nothing more.
    Where the release states its noise, a dashed line shows how large the noise alone would make a variance (2√d times
    its deviation: the edge of the spectrum of pure noise); what does not stand above it is not to be read as structure.
    """

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        values = np.maximum(np.linalg.eigvalsh(self.release.covariance)[::-1], 0.0)
        k = len(self.release.eigenvalues)
        values[:k] = self.release.eigenvalues
        total = float(values.sum())
        shares = np.cumsum(values) / total if total > 0 else np.zeros_like(values)
        shown = min(len(values), max(k, _MOST_BARS))
        number = np.arange(1, shown + 1)
        bars = ax.bar(number, values[:shown], color=LIGHT, edgecolor=BLUE, linewidth=0.6, width=0.72)
        for bar in bars[:k]:
            bar.set_facecolor(BLUE)
        ax.set(xlabel="component", ylabel="private variance", xlim=(0.3, shown + 0.7))
        deviation = self.release.facts.get("noise_deviation")
        if deviation is not None:
            floor = 2 * math.sqrt(len(values)) * float(deviation)
            ax.axhline(floor, color=GREY, linestyle="--", linewidth=1.2, zorder=3)
            mark = ax.text(shown + 0.6, floor, "noise alone", color=GREY, fontsize=9, ha="right", va="bottom", zorder=4)
            mark.set_bbox({"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.0})
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_title("Scree plot" + (" (dark: released components)" if k < len(values) else ""), loc="left")
        right = ax.twinx()
        right.plot(number, 100 * shares[:shown], color=VERMILLION, marker="o", markersize=4, linewidth=1.4)
        right.set(ylim=(0, 104), ylabel="cumulative share of the private variance (%)")
        right.yaxis.label.set_color(VERMILLION)
        right.tick_params(axis="y", colors=VERMILLION)
        right.spines["top"].set_visible(False)


class BiplotDisplay(_ReleaseDisplay):
    """Loadings of the first two released components, over synthetic rows drawn from the release.

    Arrows are components times the square root of their variance, stretched together to fill the cloud; the longest
    are labelled. With a single component the picture is a bar chart of its loadings. Where the release has a scale,
    loadings and scores are those of the divided columns.
    """

    def _draw(self, ax: Axes) -> None:
        if len(self.release.components) == 1:
            self._draw_bars(ax)
        else:
            self._draw_arrows(ax)

    def _draw_bars(self, ax: Axes) -> None:
        loadings, names = self.release.components[0], self.release.labels
        largest = np.argsort(-np.abs(loadings))[:_MOST_LOADINGS][::-1]
        colours = [BLUE if loadings[i] >= 0 else ORANGE for i in largest]
        ax.barh(np.arange(len(largest)), loadings[largest], color=colours)
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set_yticks(np.arange(len(largest)), [short(names[i]) for i in largest])
        left_out = len(loadings) - len(largest)
        ax.set(xlabel=f"loading on component 1 ({self._share(0)} of the private variance)")
        some = f" ({left_out} smaller ones left out)" if left_out else ""
        ax.set_title("Loadings" + self._of_columns() + some, loc="left")

    def _draw_arrows(self, ax: Axes) -> None:
        release = self.release
        components, values = release.components[:2], release.eigenvalues[:2]
        rows = release.sample(_CLOUD, random_state=made_up_randomness())  # the same picture every time
        rows = rows if release.mean is None else rows - release.mean
        scores = (rows if release.scale is None else rows / release.scale) @ components.T
        loadings = (components * np.sqrt(values)[:, None]).T  # one arrow for each column
        lengths = np.linalg.norm(loadings, axis=1)
        reach = float(np.quantile(np.linalg.norm(scores, axis=1), 0.98)) or 1.0
        tips = loadings * (0.9 * reach / lengths.max() if lengths.max() > 0 else 0.0)
        cloud = "synthetic rows drawn from the release"
        ax.scatter(scores[:, 0], scores[:, 1], s=9, color=BLUE, alpha=0.28, linewidths=0, label=cloud)
        order = np.argsort(-lengths, kind="stable")[:_MOST_LABELS]
        longest = order[lengths[order] > 0.05 * lengths.max()]
        for i, tip in enumerate(tips):
            opacity, width = (1.0, 1.5) if i in longest else (0.3, 0.8)
            arrow = {"arrowstyle": "-|>", "color": VERMILLION, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", tip, (0, 0), arrowprops=arrow | {"alpha": opacity, "linewidth": width})
        half = 1.05 * np.abs(np.vstack([scores, tips])).max(axis=0) + 1e-9 * reach
        _frame(ax, half)
        _label_sides(ax, tips[longest], [short(release.labels[i]) for i in longest], half)
        ax.set(xlabel=f"component 1 ({self._share(0)})", ylabel=f"component 2 ({self._share(1)})")
        some = f" ({len(longest)} longest of {len(tips)} labelled)" if len(longest) < len(tips) else ""
        ax.set_title("Biplot" + self._of_columns() + some, loc="left")
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2)

    def _of_columns(self) -> str:
        return "" if self.release.scale is None else " of scaled columns"

    def _share(self, component: int) -> str:
        total = float(np.trace(self.release.covariance))
        return f"{100 * self.release.eigenvalues[component] / total:.0f}%" if total > 0 else "0%"


def _frame(ax: Axes, half: Floats) -> None:
    """Axes through the origin that end with the cloud; what is beside it belongs to the labels."""
    width, height = map(float, half)
    ax.set(xlim=(-width, width), ylim=(-height, height))
    ax.set_xticks([tick for tick in ax.get_xticks() if abs(tick) <= width])
    ax.spines["bottom"].set_bounds(-width, width)
    ax.plot([-width, width], [0, 0], color=GREY, linewidth=0.5, zorder=0)
    ax.plot([0, 0], [-height, height], color=GREY, linewidth=0.5, zorder=0)


def _label_sides(ax: Axes, tips: Floats, names: list[str], half: Floats) -> None:
    """Labels in a column on the side their arrow points to, apart from each other, with thin lines to the tips."""
    from scipy.optimize import linear_sum_assignment

    limits = [-1.0, 1.0]
    for side in (-1, 1):
        here = np.flatnonzero((tips[:, 0] >= 0) == (side > 0))
        if len(here) == 0:
            continue
        limits[side > 0] = 1.85 * side
        points = tips[here] / half
        heights = _spread(np.sort(points[:, 1]), gap=0.15, edge=0.95)
        places = np.column_stack([np.full(len(here), 1.12 * side), heights])
        # Lines of least total length do not cross.
        distances = np.linalg.norm(points[:, None] - places[None], axis=2)
        for point, place in zip(*linear_sum_assignment(distances), strict=True):
            (x, y), (to_x, to_y) = tips[here[point]], places[place] * half
            ax.plot([x, to_x], [y, to_y], color=GREY, linewidth=0.5, alpha=0.8)
            align = "left" if side > 0 else "right"
            ax.text(to_x + 0.02 * side * half[0], to_y, names[here[point]], ha=align, va="center", fontsize=9)
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
