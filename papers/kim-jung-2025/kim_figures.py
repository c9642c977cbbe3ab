"""Figures 1 to 5, drawn like the paper's: mean losses with bars of one standard error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cell = tuple[str, int, int, float, str]
Found = Mapping[Cell, NDArray[np.float64]]
Style = tuple[str, str, str, str]  # label, colour, line, marker

LOSSES: dict[str, Style] = {
    "spherical": ("kendall, spherical, sharp", "C0", "-", "o"),
    "spherical-published": ("kendall, spherical, published", "C0", "--", "o"),
    "spherical-exact": ("Kendall's tau, spherical, not private", "C0", ":", ""),
    "winsorized": ("kendall, winsorized, sharp", "C2", "-", "s"),
    "winsorized-published": ("kendall, winsorized, published", "C2", "--", "s"),
    "winsorized-exact": ("Kendall's tau, winsorized, not private", "C2", ":", ""),
    "AG": ("Analyze Gauss, printed", "C3", "-", "^"),
    "SGPCA": ("SGPCA", "C1", "-", "v"),
    "NSGGD": ("NSGGD", "C4", "-", "D"),
    "pca-exact": ("plain PCA, not private", "grey", ":", ""),
}
FIGURE_1: dict[str, Style] = {
    "tau": ("Kendall's tau, all pairs", "C0", "-", "o"),
    "differences": ("disjoint differences", "C1", "-", "s"),
    "signs": ("signs about the known centre", "C2", "-", "^"),
    "tau-exact": ("Kendall's tau, not private", "C0", ":", ""),
    "differences-exact": ("disjoint differences, not private", "C1", ":", ""),
    "signs-exact": ("signs, not private", "C2", ":", ""),
}
TITLES = {"gaussian": "Gaussian", "cauchy": "t with 1 degree of freedom", "contaminated": "Gaussian with 5% outliers"}


def draw(found: Found, out: Path) -> None:
    """Write figure-1.png to figure-5.png."""
    kinds = ("spherical", "winsorized")
    panels = [(kind, {f"{kind}-{name}": style for name, style in FIGURE_1.items()}) for kind in kinds]
    lines = [(title, _curves(found, styles, law="figure-1")) for title, styles in panels]
    _panels(lines, "n", r"$\|\hat P - P\|_F$", "d = 25, Gaussian rows, (ε, δ) = (0.5, 10⁻⁵)", out / "figure-1.png")
    for number, law in ((2, "gaussian"), (3, "cauchy"), (4, "contaminated")):
        ds = sorted({d for name, d, *_ in found if name == law})
        lines = [(f"d = {d}", _curves(found, LOSSES, law=law, d=d, epsilon=0.5)) for d in ds]
        _panels(lines, "n", "mean sin Θ", f"{TITLES[law]}, (ε, δ) = (0.5, 10⁻⁵)", out / f"figure-{number}.png")
    lines = [(TITLES[law], _curves(found, LOSSES, law=law, d=10, n=2000)) for law in TITLES]
    _panels(lines, "ε", "mean sin Θ", "n = 2000, d = 10, δ = 10⁻⁵", out / "figure-5.png")


def _curves(
    found: Found, styles: dict[str, Style], law: str, d: int = 25, n: int | None = None, epsilon: float | None = None
) -> list[tuple[Style, list[float], list[NDArray[np.float64]]]]:
    """A style, the places and the losses of each curve: against n, or against ε where n is given."""
    curves = []
    for method, style in styles.items():
        where = sorted(
            cell
            for cell in found
            if cell[:2] == (law, d) and cell[4] == method and n in (None, cell[2]) and epsilon in (None, cell[3])
        )
        curves.append((style, [cell[2] if n is None else cell[3] for cell in where], [found[c] for c in where]))
    return curves


def _panels(panels: list[tuple[str, Any]], xlabel: str, ylabel: str, title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.1 * len(panels) + 0.4, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (name, curves) in zip(axes, panels, strict=True):
        for (label, colour, line, marker), places, losses in curves:
            axis.errorbar(
                places,
                [values.mean() for values in losses],
                [values.std(ddof=1) / np.sqrt(len(values)) for values in losses],
                label=label,
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=4,
                markerfacecolor="white" if line == "--" else colour,
                linewidth=2.6 if colour == "C0" else 1.2,  # spherical and winsorized nearly coincide
                capsize=2,
            )
        axis.set(title=name, xlabel=xlabel)
        axis.set_ylim(0, None if ylabel.startswith("$") else 1.04)
        if xlabel == "ε":
            axis.set_xscale("log")
            axis.set_xticks(places, [f"{place:g}" for place in places], minor=False)
            axis.minorticks_off()
        axis.grid(True, alpha=0.3)
    axes[0].set_ylabel(ylabel)
    figure.suptitle(title, fontsize=11)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(4, 2 * len(panels) - 2), frameon=False, fontsize=9
    )
    figure.savefig(path, dpi=120)
