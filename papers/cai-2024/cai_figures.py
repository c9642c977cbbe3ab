"""The figures: a panel for each axis, bars of one standard error; scores of the images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = Mapping[str, NDArray[np.float64]]

STYLES = {
    "spiked-published": ("spiked (paper), told λ, σ²; distributional", "C0", "-", "o"),
    "spiked-published-whole": ("… whole budget on directions", "C0", ":", "o"),
    "spiked-sharp": ("spiked, sharp constants; distributional", "C4", "--", "o"),
    "DP-Gauss": ("DP-Gauss, told λ, σ²", "C1", "-", "s"),
    "DP-Gauss*": ("DP-Gauss* (not private)", "C3", ":", "v"),
    "DP-Oja": ("DP-Oja, C = 0.2, step 0.5/n, told λ, σ²", "C5", "-", "P"),
    "spatial-sign": ("spatial-sign; worst-case", "C2", "--", "^"),
    "refined": ("refined; worst-case", "black", "--", "D"),
}
FIGURES = {
    "figure-1": {"1-n": "n (r = 1)", "1-rank": "rank r (n = 4000)"},
    "figure-2": {"2-epsilon": "ε (n = 4000, r = 1)", "2-signal": "λ (n = 4000, r = 1)"},
    "figure-3": {"3-signal": "λ (n = 30 < p = 50, r = 3)"},
    "bars": {"bars": "λ (n = 5000, r = 3, δ = $10^{-5}$)"},
    "covariance": {"covariance": "n (λ = 50, r = 3)"},
}


def draw(found: Found, pictures: Mapping[str, Any], out: Path) -> None:
    """Write figure-1.png to figure-4.png, bars.png and covariance.png."""
    for name, panels in FIGURES.items():
        _panels(found, panels, out / f"{name}.png")
    if pictures:
        _scores(found, pictures, out / "figure-4.png")


def _panels(found: Found, panels: Mapping[str, str], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels) + 0.4, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (panel, label) in zip(axes, panels.items(), strict=True):
        for method, (text, colour, line, marker) in STYLES.items():
            points = sorted(
                (float(key.split("/")[2]), values)
                for key, values in found.items()
                if key.split("/")[:2] == [panel, method]
            )
            if not points:
                continue
            means = [values.mean() for _, values in points]
            bars = [values.std(ddof=1) / len(values) ** 0.5 for _, values in points]
            axis.errorbar(
                [x for x, _ in points], means, bars, color=colour, linestyle=line, marker=marker, ms=4, label=text
            )
        axis.set_xlabel(label)
        axis.set_yscale("log")
        if panel != "1-rank":
            axis.set_xscale("log")
        marks = sorted({float(key.split("/")[2]) for key in found if key.startswith(panel + "/")})
        axis.set_xticks(marks, [f"{x:g}" for x in marks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    ylabel = (
        r"$\|\hat\Sigma - \Sigma\|_F\,/\,\|\Sigma\|_F$" if "covariance" in panels else r"$\|\hat U\hat U^T - UU^T\|_F$"
    )
    axes[0].set_ylabel(ylabel)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def _scores(found: Found, pictures: Mapping[str, Any], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in pictures if name != "digits"]
    figure = Figure(figsize=(13, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, (len(names) + 1) // 2).ravel()
    for axis, name in zip(axes, names, strict=False):
        for digit, colour in zip((1, 4, 9), ("C0", "C1", "C2"), strict=True):
            chosen = pictures["digits"] == digit
            axis.scatter(*pictures[name][chosen].T, s=4, color=colour, alpha=0.5, label=str(digit))
        share = found.get(f"mnist/{name}/2")
        note = "" if share is None else f": {100 * share.mean():.0f}% of the best"
        axis.set_title(name + note, fontsize=9)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    axes[0].legend(markerscale=3, fontsize=8)
    figure.savefig(path, dpi=110)
