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
from dpeigen.plotting._base import Display, characters, colours, ink, must_be, short_apart
from dpeigen.privacy import Guarantee
from dpeigen.release import Release
from dpeigen.stats.intervals import Interval
from dpeigen.stats.spectrum import precise_eigh

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
_NAMES = 0.5  # the largest fraction of the width for names of columns
_LINE = 0.09  # the fraction of the height for a line of the legend
_FLOOR = 0.44  # half the width of a noise floor, wider than a bar
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
    """The unit of a variance along a component."""
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
    told: NDArray[np.bool_]  # whether each differs from noise; all True if that is not known
    measured: Floats | None = None  # the same before they were shrunk: what is compared with the floors
    floors: Floats | None = None  # `Release.noise_floors`


def spectrum(release: Release) -> ScreeBars:
    """The released components and, if a whole moment was measured, the axes after them, which cost nothing more.

    `Release.resolved` decides whether a component or a further axis can be distinguished from noise.
    """
    k = len(release.eigenvalues)
    if release.usual_intervals is None:  # it is not known whether the axes after them were measured
        return _bars(release, None, min(k, _MOST_BARS))
    wanted = min(_MOST_BARS, max(k, min(release.n_features, _MOST_AXES)))
    whole = _with_axes(release, wanted) if k < wanted else release
    found = variance_intervals(whole)
    if found is None:
        return _bars(release, None, min(k, _MOST_BARS))
    measured = np.isfinite(found[0][1]) if whole.measured_variances is None else np.isfinite(whole.measured_variances)
    return _bars(whole, found[0], max(1, int(measured[:wanted].sum())))  # no bars for what was never measured


def _bars(release: Release, interval: Interval | None, shown: int) -> ScreeBars:
    told = np.array([release.is_resolved(i) for i in range(shown)], dtype=bool)
    interval = None if interval is None else (interval[0][:shown], interval[1][:shown])
    if release.measured_variances is None or release.noise_floors is None:
        return ScreeBars(release.eigenvalues[:shown], interval, told)
    measured, floors = release.measured_variances[:shown], release.noise_floors[:shown]
    return ScreeBars(release.eigenvalues[:shown], interval, told, measured, floors)


def _compared(found: ScreeBars) -> list[Floats]:
    """The heights of noise floors and of what is compared with them, as far as they are known."""
    return [side[np.isfinite(side)] for side in (found.measured, found.floors) if side is not None]


def _right_half(found: ScreeBars) -> float:
    """The height of the drawing in its right half, where the legend is."""
    sides = [found.values, found.measured, found.floors, None if found.interval is None else found.interval[1]]
    halves = [side[len(side) // 2 :] for side in sides if side is not None]
    return max(float(half[np.isfinite(half)].max(initial=0.0)) for half in halves)


def _with_axes(release: Release, wanted: int) -> Release:
    """The same with further principal axes of its covariance as components."""
    values, vectors = precise_eigh(release.covariance)
    after = np.arange(release.n_features)[::-1][len(release.eigenvalues) : wanted]
    return replace(
        release,
        components=np.vstack([release.components, vectors[:, after].T]),
        eigenvalues=np.append(release.eigenvalues, np.maximum(values[after], 0.0)),
    )


class ScreeDisplay(ReleaseDisplay):
    """Variances along the principal axes with their 95% intervals, and the noise floor of each.

    Dark bars are the released components. Light ones follow from the same measurement and cost nothing more; they are
    drawn only if they were measured. Dashed, empty bars cannot be distinguished from noise. A circle is the variance as
    measured, before it was shrunk (one below 0 is drawn at 0), and the short line beside it is its noise floor: a
    component is clear of noise exactly if its circle is above its line (`Release.noise_floors`). If only the size of
    the noise is known, a dashed line is the largest variance that noise alone would show (`Release.noise_floor`). The
    axis on the right is the share of the whole variance.

    Parameters
    ----------
    release : Release
        What is drawn.
    """

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        if self.release.too_few_known:
            say(ax, "Too few columns could be measured: nothing is known about any component.")
            return
        found, k, palette = spectrum(self.release), len(self.release.eigenvalues), colours(ax)
        place = np.arange(1, len(found.values) + 1)
        for x, value, told in zip(place, found.values, found.told, strict=True):
            style: dict[str, Any] = {"facecolor": palette.blue if x <= k else palette.light, "edgecolor": palette.blue}
            if not told:
                style = {"facecolor": "none", "edgecolor": palette.grey, "linestyle": (0, (2, 2))}
            ax.bar(x, value, width=0.72, linewidth=0.8, **style)
        top = max([float(side.max(initial=0.0)) for side in (found.values, *_compared(found))])
        if found.interval is not None:
            finite = found.interval[1][np.isfinite(found.interval[1])]
            top = max(top, min(float(finite.max(initial=0.0)), 4 * top)) if top > 0 else float(finite.max(initial=1.0))
            whiskers(ax, place, *found.interval, upright=True, most=1.06 * top)
        top = self._floors(ax, found, top)
        if not found.told.all():
            ax.bar(0, 0, facecolor="none", edgecolor=palette.grey, linestyle=(0, (2, 2)), label=NOISE)
        words = len(ax.get_legend_handles_labels()[0])
        room = _LINE * words if words and _right_half(found) > (1 - _LINE * words) * top else 0.0
        ax.set(xlabel="component", xlim=(0.3, len(place) + 0.7), ylim=(0, (1.06 + room) * top or 1.0))
        ax.set_ylabel(unit_of_variances(self.release))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if words:
            ax.legend(loc="upper right", frameon=False, fontsize=9)
        rest = k < len(place)
        ax.set_title("Scree plot" + self._of_columns() + (" (strong colour: released)" if rest else ""), loc="left")
        self._share_axis(ax)

    def _caption(self) -> str:
        floors = self.release.noise_floors
        if floors is None or not np.isfinite(floors).any():
            return super()._caption()
        return f"{super()._caption()}\nclear of noise: the circle lies above the line of its noise floor"

    def _floors(self, ax: Axes, found: ScreeBars, top: float) -> float:
        """Draw noise floors and what is compared with them; returns how high the picture is."""
        if found.measured is not None and found.floors is not None:
            place, palette = np.arange(1, len(found.values) + 1), colours(ax)
            there = np.isfinite(found.floors) & np.isfinite(found.measured)
            ends = place[there] - _FLOOR, place[there] + _FLOOR
            if there.any():
                style: dict[str, Any] = {"color": palette.vermillion, "linewidth": 2.0, "zorder": 5}
                ax.hlines(found.floors[there], *ends, **style, label="noise floor of the component")
            seen = np.isfinite(found.measured)
            if seen.any():
                style = {"markerfacecolor": palette.light, "markeredgecolor": ink(ax), "zorder": 6, "clip_on": False}
                height = np.maximum(found.measured[seen], 0.0)
                ax.plot(place[seen], height, "o", markersize=5.5, **style, label="as measured, before shrinking")
            return top
        floor = self.release.noise_floor
        if floor is None:
            return top
        inside = floor.value <= 1.5 * top
        words = f"noise floor {floor.value:.3g}" + ("" if inside else " (above the picture)")
        ax.axhline(floor.value, color=ink(ax), linestyle=(0, (5, 3)), linewidth=1.2, zorder=3, label=words)
        return max(top, 1.04 * floor.value) if inside else top

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

    A loading whose interval contains 0 has no bar, only a whisker. A component that cannot be distinguished from noise
    is not drawn; the picture says so.

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
    """Bars and whiskers of the largest loadings, or a text that there is nothing to draw."""
    if not release.is_resolved(component):
        say(ax, f"Component {component + 1} is {NOISE}.")
        return
    loadings, names, palette = release.components[component], release.labels, colours(ax)
    found = release.usual_intervals
    known = np.ones(len(loadings), dtype=bool) if found is None or not found.known.any() else found.known
    sizes = np.where(known, np.abs(loadings), -1.0)  # nothing was measured of the others
    order = np.argsort(-sizes, kind="stable")[: min(most, int(known.sum()))][::-1]
    place = np.arange(len(order))
    clear = np.ones(len(order), dtype=bool)
    if found is not None:
        low, high = (side[component][order] for side in found.components)
        clear = (low > 0) | (high < 0)
        whiskers(ax, place, low, high)
    shown = np.where(clear, loadings[order], 0.0)
    ax.barh(place, shown, color=[palette.blue if v >= 0 else palette.orange for v in shown], height=0.66)
    ax.axvline(0, color=ink(ax), linewidth=0.8)
    ax.set_yticks(place, short_apart([names[j] for j in order], characters(ax, 10.0, _NAMES)))
    left, hidden = int(known.sum()) - len(order), int((~known).sum())
    more = f"; {left} smaller {'one' if left == 1 else 'ones'} left out" if left else ""
    more += f"; {hidden} not known" if hidden else ""
    ax.set_xlabel(f"loading (no unit){more}")
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
    """Write a text in place of a picture."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", wrap=True)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
