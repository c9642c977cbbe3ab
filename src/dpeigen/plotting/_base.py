"""What the displays share: where they draw, the caption with (ε, δ), and the mark on what is not private."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

from dpeigen._text import clean
from dpeigen._text import short as short
from dpeigen._text import short_apart as short_apart
from dpeigen.privacy import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CAPTION",
    "MARKERS",
    "Colours",
    "D",
    "Display",
    "characters",
    "colours",
    "ink",
    "must_be",
    "neighbours",
    "never_formulas",
]

D = TypeVar("D", bound="Display")

CAPTION = "dpeigen-caption"  # the id of the caption among the texts of a picture
_CAPTION = 9.0  # points
MARKERS = "osD^vPX"


@dataclass(frozen=True)
class Colours:
    """Okabe and Ito's palette, which colour-blind readers can distinguish, for a light or a dark background."""

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
        """Colours for a series of lines."""
        return (self.blue, self.vermillion, self.green, self.orange, self.purple, self.sky, self.grey)


_DARK = Colours(
    blue="#56B4E9", light="#2B5875", orange="#F0B429", vermillion="#FF9466", green="#4FD0A5", purple="#E5A5CB",
    sky="#A6DBFF", grey="#B4B4B4", grid="#444444",
)  # fmt: skip


def colours(ax: Axes) -> Colours:
    """The colours for the background of the axes: ``plt.style.use("dark_background")`` gives a dark figure."""
    from matplotlib.colors import to_rgba

    face, whole = to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor())
    seen = face if face[3] > 0 else whole if whole[3] > 0 else (1.0, 1.0, 1.0, 1.0)
    return _DARK if 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2] < 0.4 else Colours()


def ink(ax: Axes) -> Any:
    """The colour of text on these axes."""
    return ax.xaxis.label.get_color()


class Display(ABC):
    """A picture after scikit-learn's convention: ``plot(ax=…)`` sets ``ax_`` and ``figure_``."""

    ax_: Axes
    figure_: Figure
    _size = (7.5, 5.2)
    _caption_share = 0.9  # of the width of the axes, before names beside them take some of it

    def plot(self: D, ax: Axes | None = None) -> D:
        """Draw on ``ax``, or on a new figure; sets ``ax_`` and ``figure_``."""
        if ax is None:
            ax = self._new_axes()
        self._draw(ax)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        caption = self._caption()
        if caption:
            ax.annotate(
                _wrapped(caption, characters(ax, _CAPTION, self._caption_share)),
                (0, 0),
                (0, -44),
                xycoords="axes fraction",
                textcoords="offset points",
                annotation_clip=False,
                fontsize=_CAPTION,
                color=colours(ax).grey,
                va="top",
                gid=CAPTION,
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


def characters(ax: Axes, size: float, share: float) -> int:
    """About how many characters of this size in points fit into this share of the width of the axes."""
    figure = ax.get_figure(root=True) if hasattr(ax.figure, "get_figure") else ax.figure
    inches = float(figure.get_size_inches()[0]) * float(ax.get_position().width)  # type: ignore[union-attr]
    return max(8, int(share * inches * 72 / (0.55 * size)))


def _wrapped(caption: str, width: int) -> str:
    """The caption in lines no wider than the axes: a longer line would make the axes smaller."""
    return "\n".join("\n".join(wrap(line, width)) for line in caption.splitlines())


def never_formulas(ax: Axes) -> None:
    """Show all texts as they are: a column called ``$\\frac{$`` is a name, and as a formula it could not be drawn."""
    from matplotlib.text import Text

    for text in ax.findobj(Text):
        text.set_parse_math(False)


def neighbours(guarantee: Guarantee) -> str:
    """What neighbouring tables are, for the caption."""
    return clean(guarantee.neighbours)


def must_be(value: Any, kind: type, name: str, owner: str) -> None:
    """Refuse an object of another type without showing it: it may be rows."""
    if not isinstance(value, kind):
        raise TypeError(
            f"The '{name}' parameter of {owner} must be a {kind.__name__}. "
            f"Got an object of type {type(value).__name__} instead."
        )
