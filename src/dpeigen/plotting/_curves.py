"""Pictures of results and of spending: error against ε, and the timeline of a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_count, complain
from dpeigen.plotting._base import MARKERS, Display, colours, must_be, short
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import Ledger

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LedgerDisplay", "PrivacyUtilityDisplay"]

_MOST_ENTRIES = 40


class PrivacyUtilityDisplay(Display):
    """Error against ε, a line for each method: the median of its runs, the shade from the 10th to the 90th percentile.

    Parameters
    ----------
    results : data frame, Arrow table, list of dict or dict of columns
        Tidy results, one line for each run. The errors must be public: measured on public or synthetic data.
    x : str, default="epsilon"
        The column with ε.
    y : str, default="error"
        The column with the error.
    by : str, default="method"
        The column with the method.
    """

    def __init__(self, results: Any, *, x: str = "epsilon", y: str = "error", by: str = "method") -> None:
        self.x, self.y, self.by = x, y, by
        self.curves = _curves(_columns(results, (x, y, by)), x, y, by)

    @classmethod
    def from_results(
        cls, results: Any, *, x: str = "epsilon", y: str = "error", by: str = "method", ax: Axes | None = None
    ) -> PrivacyUtilityDisplay:
        """Draw tidy results.

        Parameters
        ----------
        results : data frame, Arrow table, list of dict or dict of columns
            One line for each run, on public or synthetic data.
        x : str, default="epsilon"
            The column with ε.
        y : str, default="error"
            The column with the error.
        by : str, default="method"
            The column with the method.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        return cls(results, x=x, y=y, by=by).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, epsilons: Sequence[float], runs: int = 5, ax: Axes | None = None
    ) -> PrivacyUtilityDisplay:
        """Fit clones at every ε and draw the relative Frobenius error of their covariances.

        Parameters
        ----------
        estimator : estimator
            Without a ledger: every run would spend.
        X : array or table
            Public or synthetic rows (`Release.sample`): errors on private rows are private data.
        epsilons : list of float
            The ε to try.
        runs : int, default=5
            Fits at each ε.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        from sklearn.base import clone

        from dpeigen.evaluation import relative_frobenius

        if estimator.ledger is not None:
            raise ValueError(
                "This estimator has a ledger, so its rows are private. A privacy-utility curve needs public or "
                "synthetic rows: give an estimator without one, and rows from Release.sample."
            )
        runs = check_count("runs", runs, cls.__name__)
        truth = np.cov(np.asarray(X, dtype=np.float64).T, bias=True)
        lines = []
        for epsilon in epsilons:
            for _ in range(runs):
                release = clone(estimator).set_params(epsilon=float(epsilon)).fit(X).release_
                error = relative_frobenius(release.covariance, np.atleast_2d(truth))
                lines.append({"method": release.guarantee.mechanism, "epsilon": float(epsilon), "error": error})
        return cls(lines).plot(ax)

    def _draw(self, ax: Axes) -> None:
        palette = colours(ax)
        for number, (name, (x, low, middle, high)) in enumerate(self.curves.items()):
            colour = palette.series[number % len(palette.series)]
            ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            ax.plot(
                x, middle, color=colour, marker=MARKERS[number % len(MARKERS)], markersize=5, linewidth=1.6, label=name
            )
        ax.set(xscale="log", yscale="log", xlabel="ε (more privacy to the left)", ylabel=self.y)
        ticks = sorted({float(value) for x, *_ in self.curves.values() for value in x})
        if len(ticks) <= 8:
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.xaxis.minorticks_off()
        else:
            ax.xaxis.set_major_formatter(_plain)
        ax.yaxis.set_major_formatter(_plain)
        ax.yaxis.set_minor_formatter(_plain if self._narrow() else "")
        ax.grid(visible=True, which="major", color=palette.grid, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_title("Error against privacy", loc="left")
        ax.legend(frameon=False, fontsize=9)

    def _narrow(self) -> bool:
        """Whether the range of errors is so small that tick marks between powers of ten are needed."""
        values = np.concatenate([np.concatenate(curve[1:]) for curve in self.curves.values()])
        values = values[values > 0]
        return bool(len(values) and values.max() < 20 * values.min())

    def _caption(self) -> str:
        return "median of the runs; shade: 10th to 90th percentile"


def _plain(value: float, _: float) -> str:
    return f"{value:g}"


def _columns(results: Any, names: Iterable[str]) -> dict[str, list[Any]]:
    """The columns with these names, from any kind of table."""
    owner, names = "PrivacyUtilityDisplay", list(names)
    try:
        if isinstance(results, Mapping) or hasattr(results, "columns"):
            found = {name: list(np.asarray(results[name])) for name in names}
        else:
            found = {name: [line[name] for line in results] for name in names}
    except (KeyError, TypeError, IndexError, ValueError):
        found = {}
    if not found or not found[names[0]] or len({len(column) for column in found.values()}) != 1:
        raise ValueError(
            complain("results", owner, f"a table with the columns {names}, not empty", type(results).__name__)
        )
    return found


def _curves(columns: dict[str, list[Any]], x: str, y: str, by: str) -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
    """For each method: ε, and the 10th, 50th and 90th percentile of the errors."""
    epsilon, error = np.asarray(columns[x], dtype=np.float64), np.asarray(columns[y], dtype=np.float64)
    method, curves = np.asarray([str(name) for name in columns[by]]), {}
    for name in dict.fromkeys(method.tolist()):
        mine = (method == name) & np.isfinite(error)
        at = np.unique(epsilon[mine])
        low, middle, high = (
            np.array([np.percentile(error[mine & (epsilon == value)], (10, 50, 90)) for value in at]).reshape(-1, 3).T
        )
        curves[name] = (at, low, middle, high)
    return curves


class LedgerDisplay(Display):
    """What was spent when: one bar for each entry, from what had been spent before it, oldest at the top.

    Hollow bars are cancelled: they cost nothing. Hatched ones are reserved and not yet committed: they count.

    Parameters
    ----------
    history : list of dict
        `Ledger.history`.
    remaining : Budget or None
        `Ledger.remaining`.
    """

    def __init__(self, history: Sequence[Mapping[str, Any]], remaining: Budget | None) -> None:
        self.history, self.remaining = list(history), remaining

    @classmethod
    def from_ledger(cls, ledger: Any, ax: Axes | None = None) -> LedgerDisplay:
        """Draw a ledger.

        Parameters
        ----------
        ledger : Ledger, path or str
            The ledger, its path or its URL.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        LedgerDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        if not isinstance(ledger, (str, Path)):
            must_be(ledger, Ledger, "ledger", cls.__name__)
        found = Ledger.at(ledger)
        return cls(found.history(), found.remaining()).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Axes | None = None) -> LedgerDisplay:
        """Draw the ledger of an estimator.

        Parameters
        ----------
        estimator : estimator
            One with a ``ledger``.
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.

        Returns
        -------
        LedgerDisplay
            The display, with ``ax_`` and ``figure_``.
        """
        if estimator.ledger is None:
            raise ValueError(complain("ledger", type(estimator).__name__, "a ledger or its path", None))
        return cls.from_ledger(estimator.ledger, ax)

    def _draw(self, ax: Axes) -> None:
        entries = self.history[-_MOST_ENTRIES:]
        earlier = self.history[: len(self.history) - len(entries)]
        palette = colours(ax)
        spent = sum(entry["epsilon"] for entry in earlier if entry["state"] != "cancelled")
        names = []
        for row, entry in enumerate(entries):
            counts = entry["state"] != "cancelled"
            style: dict[str, Any] = {
                "facecolor": palette.blue if counts else "none",
                "edgecolor": palette.blue if counts else palette.grey,
            }
            if entry["state"] == "reserved":
                style |= {"facecolor": palette.light, "hatch": "///"}
            ax.barh(row, entry["epsilon"], left=spent, height=0.62, linestyle="-" if counts else "--", **style)
            note = f"{entry['epsilon']:g}" + ("" if entry["state"] == "committed" else f", {entry['state']}")
            ax.annotate(
                note, (spent + entry["epsilon"], row), (5, 0), textcoords="offset points", va="center", fontsize=9
            )
            spent += entry["epsilon"] if counts else 0.0
            names.append(f"{str(entry['at'])[:16].replace('T', ' ')}  {short(str(entry['what']), 34)}")
        left = 0.0 if self.remaining is None else self.remaining.epsilon
        total = spent + left
        ax.barh(len(entries), left, left=spent, height=0.62, facecolor="none", edgecolor=palette.vermillion)
        ax.annotate(
            f"{left:.4g} left", (spent, len(entries)), (5, 0), textcoords="offset points", va="center", fontsize=9
        )
        ax.axvline(total, color=palette.vermillion, linewidth=1.4)
        ax.set_yticks(range(len(entries) + 1), [*names, "left"], fontsize=9)
        ax.set(xlabel="ε spent", xlim=(0, 1.18 * total if total > 0 else 1.0), ylim=(len(entries) + 0.6, -0.6))
        ax.set_title(f"Ledger: {spent:.4g} of ε = {total:.4g} spent", loc="left")

    def _caption(self) -> str:
        epsilon, delta = (0.0, 0.0) if self.remaining is None else (self.remaining.epsilon, self.remaining.delta)
        return f"left: (ε, δ) = ({epsilon:.4g}, {delta:.3g}); the red line is the budget"
