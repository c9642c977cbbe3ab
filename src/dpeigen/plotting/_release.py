"""Pictures of a release: a scree plot and the loadings of a component, both with intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpeigen._types import Floats
from dpeigen._validate import check_count
from dpeigen.notebook import NOISE, variance_intervals
from dpeigen.plotting._base import Display, characters, colours, ink, must_be, short
from dpeigen.privacy import Guarantee
from dpeigen.release import Release
from dpeigen.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "NO_INTERVALS",
    "LoadingsDisplay",
    "R",
    "ReleaseDisplay",
    "ScreeBars",
    "ScreeDisplay",
    "draw_loadings",
    "say",
    "spectrum",
    "unit_of_variances",
    "whiskers",
]

R = TypeVar("R", bound="ReleaseDisplay")
_MOST_BARS = 30
_MOST_AXES = 12  # beyond the components: their intervals take time
_MOST_LOADINGS = 15
_NAMES = 0.5  # of the width, at most, for names of columns
_CAP = 0.13  # half the width of a whisker's end
NO_INTERVALS = "no intervals: the release does not hold what they need"


class ReleaseDisplay(Display):
    """A picture of a release."""

    def __init__(self, release: Release) -> None:
        must_be(release, Release, "release", type(self).__name__)
        self.release = release

    @classmethod
    def from_estimator(cls: type[R], estimator: Any, ax: Axes | None = None, **options: Any) -> R:
        """Draw the release of a fitted estimator."""
        check_is_fitted(estimator, "release_")
        return cls(estimator.release_, **options).plot(ax)

    @classmethod
    def from_release(cls: type[R], release: Release, ax: Axes | None = None, **options: Any) -> R:
        """Draw a release."""
        return cls(release, **options).plot(ax)

    def _guarantee(self) -> Guarantee:
        return self.release.guarantee

    def _caption(self) -> str:
        many = "no intervals: with this many columns they take minutes" if self.release.resolved is not None else ""
        whiskers = "whiskers: 95% intervals" if self.release.usual_intervals is not None else many or NO_INTERVALS
        return f"{super()._caption()}\n{whiskers}"

    def _of_columns(self) -> str:
        return "" if self.release.scale is None else " of scaled columns"


def unit_of_variances(release: Release) -> str:
    """What one unit of a variance along a component is."""
    if (release.facts.get("details") or {}).get("variances") == "relative":
        return "share of the variance"
    if release.facts.get("rescaled"):
        return "variance (columns on [0, 1])"
    if release.scale is None:
        return "variance (columns' units, squared)"
    return "variance (scaled columns, no unit)"


@dataclass(frozen=True)
class ScreeBars:
    """Variances along principal axes that were measured, with their intervals."""

    values: Floats
    interval: Interval | None
    told: NDArray[np.bool_]  # from noise; all where nothing is known of that


def spectrum(release: Release) -> ScreeBars:
    """The released components and, where a whole moment was measured, the axes after them: they cost nothing more.

    A component is told from noise as `Release.resolved` says. The variance along a further axis is, where its interval
    lies above the noise floor.
    """
    k = len(release.eigenvalues)
    if release.usual_intervals is None:  # nothing tells whether the axes after them were measured
        values = release.eigenvalues[:_MOST_BARS]
        return ScreeBars(values, None, np.array([release.is_resolved(i) for i in range(len(values))]))
    wanted = min(_MOST_BARS, max(k, min(release.n_features, _MOST_AXES)))
    whole = _with_axes(release, wanted) if k < wanted else release
    found = variance_intervals(whole)
    if found is None:
        whole, found = release, variance_intervals(release)
    values = whole.eigenvalues[:wanted]
    told = np.array([release.is_resolved(i) for i in range(len(values))])
    interval = None if found is None else (found[0][0][:wanted], found[0][1][:wanted])
    if interval is not None and release.noise_floor is not None:
        told[k:] = interval[0][k:] > release.noise_floor.value
    return ScreeBars(values, interval, told)


def _with_axes(release: Release, wanted: int) -> Release:
    """The same with further principal axes of its covariance as components."""
    values, vectors = np.linalg.eigh(release.covariance)
    after = np.arange(release.n_features)[::-1][len(release.eigenvalues) : wanted]
    return replace(
        release,
        components=np.vstack([release.components, vectors[:, after].T]),
        eigenvalues=np.append(release.eigenvalues, np.maximum(values[after], 0.0)),
    )


class ScreeDisplay(ReleaseDisplay):
    """Variances along the principal axes with their 95% intervals, and the noise floor.

    Dark bars are the released components. Light ones follow from the same measurement and cost nothing more; they are
    drawn only where it holds them. Dashed, empty bars cannot be distinguished from noise. The dashed line is the
    largest variance that privacy noise alone would show (`dpeigen.noise_floor`). The axis on the right is the share of
    the whole variance.

    Parameters
    ----------
    release : Release
        What is drawn.
    """

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        found, k, palette = spectrum(self.release), len(self.release.eigenvalues), colours(ax)
        place = np.arange(1, len(found.values) + 1)
        for x, value, told in zip(place, found.values, found.told, strict=True):
            style: dict[str, Any] = {"facecolor": palette.blue if x <= k else palette.light, "edgecolor": palette.blue}
            if not told:
                style = {"facecolor": "none", "edgecolor": palette.grey, "linestyle": (0, (2, 2))}
            ax.bar(x, value, width=0.72, linewidth=0.8, **style)
        top = float(found.values.max(initial=0.0))
        if found.interval is not None:
            finite = found.interval[1][np.isfinite(found.interval[1])]
            top = max(top, min(float(finite.max(initial=0.0)), 4 * top)) if top > 0 else float(finite.max(initial=1.0))
            whiskers(ax, place, *found.interval, upright=True, most=1.06 * top)
        floor = self.release.noise_floor
        if floor is not None:
            inside = floor.value <= 1.5 * top
            words = f"noise floor {floor.value:.3g}" + ("" if inside else " (above the picture)")
            ax.axhline(floor.value, color=ink(ax), linestyle=(0, (5, 3)), linewidth=1.2, zorder=3, label=words)
            top = max(top, 1.04 * floor.value) if inside else top
        if not found.told.all():
            ax.bar(0, 0, facecolor="none", edgecolor=palette.grey, linestyle=(0, (2, 2)), label=NOISE)
        ax.set(xlabel="component", xlim=(0.3, len(place) + 0.7), ylim=(0, 1.06 * top or 1.0))
        ax.set_ylabel(unit_of_variances(self.release))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper right", frameon=False, fontsize=9)
        rest = k < len(place)
        ax.set_title("Scree plot" + self._of_columns() + (" (strong colour: released)" if rest else ""), loc="left")
        self._share_axis(ax)

    def _share_axis(self, ax: Axes) -> None:
        total = float(np.trace(self.release.covariance))
        if not total > 0:
            return
        from matplotlib.ticker import MaxNLocator

        there, back = partial(np.multiply, 100 / total), partial(np.multiply, total / 100)
        right = ax.secondary_yaxis("right", functions=(there, back))
        right.set_ylabel("share of the variance (%)")
        highest = min(100.0, 100 * ax.get_ylim()[1] / total)  # no share is larger, though an interval may reach further
        right.set_yticks([tick for tick in MaxNLocator(6).tick_values(0.0, highest) if 0 <= tick <= highest])


class LoadingsDisplay(ReleaseDisplay):
    """The loadings of one component with their 95% intervals: bars, the largest first.

    A loading whose interval holds 0 has no bar, only its whisker. A component that cannot be distinguished from noise
    is not drawn: the picture says so.

    Parameters
    ----------
    release : Release
        What is drawn.
    component : int, default=0
        Counted from 0.
    """

    _caption_share = 0.6

    def __init__(self, release: Release, component: int = 0) -> None:
        super().__init__(release)
        high = len(release.components) - 1
        self.component = check_count("component", component, type(self).__name__, low=0, high=high)

    def _draw(self, ax: Axes) -> None:
        draw_loadings(ax, self.release, self.component)
        ax.set_title(f"Component {self.component + 1}" + self._of_columns(), loc="left")


def draw_loadings(ax: Axes, release: Release, component: int, most: int = _MOST_LOADINGS) -> None:
    """Bars and whiskers of the largest loadings, or the words that there is nothing to draw."""
    if not release.is_resolved(component):
        say(ax, f"Component {component + 1} is {NOISE}.")
        return
    loadings, names, palette = release.components[component], release.labels, colours(ax)
    order = np.argsort(-np.abs(loadings), kind="stable")[:most][::-1]
    place, found = np.arange(len(order)), release.usual_intervals
    clear = np.ones(len(order), dtype=bool)
    if found is not None:
        low, high = (side[component][order] for side in found.components)
        clear = (low > 0) | (high < 0)
        whiskers(ax, place, low, high)
    shown = np.where(clear, loadings[order], 0.0)
    ax.barh(place, shown, color=[palette.blue if v >= 0 else palette.orange for v in shown], height=0.66)
    ax.axvline(0, color=ink(ax), linewidth=0.8)
    ax.set_yticks(place, [short(names[j], characters(ax, 10.0, _NAMES)) for j in order])
    left = len(loadings) - len(order)
    ax.set_xlabel("loading (no unit)" + (f"; {left} smaller {'one' if left == 1 else 'ones'} left out" if left else ""))
    ax.set(xlim=(-1.04, 1.04), ylim=(-0.7, len(order) - 0.3))


def whiskers(
    ax: Axes, place: NDArray[Any], low: Floats, high: Floats, *, upright: bool = False, most: float = np.inf
) -> None:
    """Intervals as lines with ends; an end beyond ``most`` is drawn there without its cap."""
    line, cap = (ax.vlines, ax.hlines) if upright else (ax.hlines, ax.vlines)
    style: dict[str, Any] = {"color": ink(ax), "linewidth": 1.1, "zorder": 4}
    line(place, np.clip(low, -most, most), np.clip(high, -most, most), **style)
    for end in (low, high):
        inside = np.abs(end) < most
        cap(end[inside], place[inside] - _CAP, place[inside] + _CAP, **style)


def say(ax: Axes, words: str) -> None:
    """Words in place of a picture."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", wrap=True)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
