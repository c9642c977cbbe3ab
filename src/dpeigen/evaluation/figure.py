"""The picture of a comparison: error against ε for each method, with quartiles, and the error without privacy."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from dpeigen.evaluation.cells import FLOOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpeigen.evaluation.comparison import Comparison

__all__ = ["draw"]

# Okabe and Ito's palette, which colour-blind readers can distinguish; further methods differ by markers and dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":")
_GREY = "#595959"
_LEAST = 1e-12  # the smallest value on a logarithmic axis
_TITLES = {
    "sin_theta": "sine of the largest principal angle",
    "projection_distance": "distance of projectors (Frobenius)",
    "captured_variance": "share of the best captured variance that is lost",
    "relative_frobenius": "relative Frobenius error of the covariance",
}


def draw(comparison: Comparison, metric: str, ax: Axes | None) -> Axes:
    """Draw on ``ax`` or on a new figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(8.6, 5.4), layout="constrained")[1]
    summary = comparison.summary()
    labels = list(dict.fromkeys(entry["method"] for entry in summary if entry["method"] != FLOOR))
    missing = [label for i, label in enumerate(labels) if not _line(ax, summary, label, metric, i)]
    _floor(ax, next(e for e in summary if e["method"] == FLOOR), metric, synthetic="synthetic" in _data(comparison))
    ax.set(xscale="log", yscale="log", xlabel="ε", ylabel=_TITLES[metric])
    epsilons = sorted({entry["epsilon"] for entry in summary if entry["epsilon"] is not None})
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.minorticks_off() if len(epsilons) > 1 else None
    ax.grid(True, which="major", alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_title(_title(comparison), loc="left", fontsize=10)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    _caption(ax, comparison, summary, missing)
    return ax


def _data(comparison: Comparison) -> dict[str, Any]:
    data: dict[str, Any] = comparison.setting["data"]
    return data


def _values(entry: dict[str, Any], metric: str) -> tuple[float, float, float]:
    """Median and quartiles of an error; smaller is better for every metric shown."""
    middle, (low, high) = entry[metric]["median"], entry[metric]["quartiles"]
    if metric == "captured_variance":
        low, middle, high = 1 - high, 1 - middle, 1 - low
    return max(low, _LEAST), max(middle, _LEAST), max(high, _LEAST)


def _line(ax: Axes, summary: list[dict[str, Any]], label: str, metric: str, number: int) -> bool:
    points = [(e["epsilon"], *_values(e, metric)) for e in summary if e["method"] == label and e["done"]]
    if not points:
        return False
    epsilon, low, middle, high = np.array(sorted(points)).T
    colour = _COLOURS[number % len(_COLOURS)]
    style: dict[str, Any] = {
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
    }
    ax.fill_between(epsilon, low, high, color=colour, alpha=0.14, linewidth=0)
    ax.plot(epsilon, middle, color=colour, label=label, markersize=5, linewidth=1.6, **style)
    return True


def _floor(ax: Axes, entry: dict[str, Any], metric: str, *, synthetic: bool) -> None:
    low, middle, high = _values(entry, metric)
    ax.axhspan(low, high, color=_GREY, alpha=0.12, linewidth=0)
    words = "without privacy" if synthetic else "sampling error of the table\n(bootstrap, without privacy)"
    ax.axhline(middle, color=_GREY, linestyle=(0, (5, 3)), linewidth=1.2, label=words)


def _title(comparison: Comparison) -> str:
    k, delta = comparison.setting["n_components"], comparison.setting["delta"]
    what = "whole covariance" if k is None else f"{k} component{'s' if k > 1 else ''}"
    return f"{_data(comparison)['about']}; {what}, δ = {delta:g}"


def _caption(ax: Axes, comparison: Comparison, summary: list[dict[str, Any]], missing: list[str]) -> None:
    setting = comparison.setting
    neighbour = "one row replaced" if setting["relation"] == "replace" else "one row added or removed"
    kind = "Made-up" if "synthetic" in _data(comparison) else "Public"
    text = (
        f"{kind} data, seeded noise; {neighbour}. Median and quartiles of {max(e['of'] for e in summary)} repetitions."
    )
    if missing:
        text += f" Not shown, because refused or failed: {', '.join(missing)}."
    place: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "annotation_clip": False,
        "va": "top",
    }
    ax.annotate(fill(text, 96), (0, 0), (0, -40), fontsize=9, color=_GREY, **place)
