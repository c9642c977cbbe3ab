"""What the displays share: where they draw, the caption with (ε, δ), and the mark on what is not private."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar

from dpeigen.privacy import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

D = TypeVar("D", bound="Display")

MARKERS = "osD^vPX"


@dataclass(frozen=True)
class Colours:
    """Okabe and Ito's palette, which colour-blind readers can tell apart, for a light or a dark background."""

    blue: str = "#0072B2"
    light: str = "#B8D4E8"
    orange: str = "#E69F00"
    vermillion: str = "#D55E00"
    green: str = "#009E73"
    purple: str = "#CC79A7"
    sky: str = "#56B4E9"
    grey: str = "#595959"
    grid: str = "#DDDDDD"

    @property
    def series(self) -> tuple[str, ...]:
        """For one line after another."""
        return (self.blue, self.vermillion, self.green, self.orange, self.purple, self.sky, self.grey)


_DARK = Colours(
    blue="#56B4E9", light="#2B5875", orange="#F0B429", vermillion="#FF9466", green="#4FD0A5", purple="#E5A5CB",
    sky="#A6DBFF", grey="#B4B4B4", grid="#444444",
)  # fmt: skip


def colours(ax: Axes) -> Colours:
    """Those that fit the background of the axes: ``plt.style.use("dark_background")`` gives a dark figure."""
    from matplotlib.colors import to_rgba

    face, whole = to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor())
    seen = face if face[3] > 0 else whole if whole[3] > 0 else (1.0, 1.0, 1.0, 1.0)
    return _DARK if 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2] < 0.4 else Colours()


def ink(ax: Axes) -> Any:
    """The colour of text on these axes."""
    return ax.xaxis.label.get_color()


_LETTERS = 11  # of a caption for an inch of the figure's width
_NARROW = 6.0  # inches


class Display(ABC):
    """A picture after scikit-learn's convention: ``plot(ax=…)`` sets ``ax_`` and ``figure_``."""

    ax_: Axes
    figure_: Figure
    _size = (7.5, 5.2)

    def plot(self: D, ax: Axes | None = None) -> D:
        """Draw on ``ax``, or on a new figure; sets ``ax_`` and ``figure_``."""
        if ax is None:
            ax = self._new_axes()
        self._draw(ax)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        caption = self._caption()
        if caption:
            # No wider than the figure, and in a narrow one from the right edge on: names on the left leave no room.
            inches = ax.figure.get_window_extent().width / ax.figure.dpi
            narrow, most = inches < _NARROW, int(_LETTERS * inches)
            ax.annotate(
                "\n".join(fill(line, most) for line in caption.split("\n")),
                (int(narrow), 0),
                (0, -44),
                xycoords="axes fraction",
                textcoords="offset points",
                annotation_clip=False,
                fontsize=9,
                color=colours(ax).grey,
                va="top",
                ha="right" if narrow else "left",
                multialignment="left",
            )
        guarantee = self._guarantee()
        if guarantee is not None and not guarantee.is_private:
            words = "seeded: not private" if guarantee.numerics == "seeded" else "not private"
            mark = ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", rotation=24)
            mark.set(fontsize=30, weight="bold", color=colours(ax).vermillion, alpha=0.6, zorder=10)
        never_formulas(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self

    def _new_axes(self) -> Axes:
        import matplotlib.pyplot as plt

        axes: Axes = plt.subplots(figsize=self._size, layout="constrained")[1]
        return axes

    @abstractmethod
    def _draw(self, ax: Axes) -> None:
        """Draw on the axes."""

    def _guarantee(self) -> Guarantee | None:
        return None

    def _caption(self) -> str:
        g = self._guarantee()
        if g is None:
            return ""
        return f"(ε, δ) = ({g.epsilon:g}, {g.delta:g}), {neighbours(g)}; method {g.mechanism}"


def never_formulas(ax: Axes) -> None:
    """Show all texts as they are: a column called ``$\\frac{$`` is a name, and as a formula it could not be drawn."""
    from matplotlib.text import Text

    for text in ax.findobj(Text):
        text.set_parse_math(False)


def neighbours(guarantee: Guarantee) -> str:
    """What the promise is about."""
    return guarantee.neighbours


def must_be(value: Any, kind: type, name: str, owner: str) -> None:
    """Refuse anything else without showing it: it may be rows."""
    if not isinstance(value, kind):
        raise TypeError(
            f"The '{name}' parameter of {owner} must be a {kind.__name__}. "
            f"Got an object of type {type(value).__name__} instead."
        )


def short(name: str, most: int = 26) -> str:
    """A name that fits."""
    return name if len(name) <= most else name[: most - 1] + "…"
