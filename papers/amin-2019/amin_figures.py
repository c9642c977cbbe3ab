"""The figures, drawn like the paper's: a panel for each data set, logarithmic axes, bars of one standard error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = Mapping[tuple[str, str, float], NDArray[np.float64]]
Style = tuple[str, str, str, str]  # label, colour, line, marker

X_AXES = {"rows": "rows n (10 columns, ε = 1)", "dimension": "columns d (10,000 rows, ε = 1)"}

FIGURE_1A: dict[str, Style] = {
    "AD": ("AD (paper)", "C0", "-", "o"),
    "IT-U": ("IT-U (paper)", "C1", "-", "s"),
    "KT": ("KT", "C2", "-", "^"),
    "L": ("L", "C3", "-", "v"),
    "eigenvector-sampling": ("eigenvector-sampling, sharp", "C0", "--", "o"),
    "matrix-laplace": ("matrix-laplace + shrinkage", "black", "--", "D"),
}
FIGURE_1B: dict[str, Style] = {
    "AD": ("AD (paper), δ = 0", "C0", "-", "o"),
    "G-16": ("G-16", "C4", "-", "^"),
    "G-10": ("G-10", "C5", "-", "s"),
    "G-3": ("G-3", "C6", "-", "v"),
    "gaussian-16": ("gaussian, sharp, δ = $10^{-16}$", "C4", "--", "^"),
    "gaussian-10": ("gaussian, sharp, δ = $10^{-10}$", "C5", "--", "s"),
    "gaussian-3": ("gaussian, sharp, δ = $10^{-3}$", "C6", "--", "v"),
    "matrix-laplace": ("matrix-laplace + shrinkage, δ = 0", "black", "--", "D"),
}
REGRESSION: dict[str, Style] = {
    "AD": ("ridge from AD, α from the release", "C0", "-", "o"),
    "AD-best": ("ridge from AD, best α", "C0", ":", "o"),
    "eigenvector-sampling": ("ridge from eigenvector-sampling, sharp", "C2", "--", "o"),
    "matrix-laplace": ("ridge from matrix-laplace", "black", "--", "D"),
    "output-perturbation": ("output perturbation, best α, δ = 0", "C1", "-", "s"),
    "output-perturbation-6": ("output perturbation, best α, δ = $10^{-6}$", "C3", "-", "v"),
}
SWEEPS: dict[str, Style] = {
    "AD": ("AD (paper)", "C0", "-", "o"),
    "IT-U": ("IT-U (paper)", "C1", "-", "s"),
    "KT": ("KT", "C2", "-", "^"),
    "L": ("L", "C3", "-", "v"),
    "G-10": ("G-10", "C5", "-", "s"),
    "eigenvector-sampling": ("eigenvector-sampling, sharp", "C0", "--", "o"),
    "matrix-laplace": ("matrix-laplace + shrinkage", "black", "--", "D"),
}


def draw(found: Found, names: list[str], out: Path) -> None:
    """Write figure-1a.png, figure-1b.png and, where there are such cells, regression.png and sweeps.png."""
    error = r"$\|\hat C - C\|_F\,/\,\|C\|_F$"
    _panels(found, names, FIGURE_1A, error, out / "figure-1a.png")
    _panels(found, names, FIGURE_1B, error, out / "figure-1b.png")
    fitted = [f"{name}-ridge" for name in names if any(key[0] == f"{name}-ridge" for key in found)]
    if fitted:
        label = "test error / error of predicting the mean"
        _panels(found, fitted, REGRESSION, label, out / "regression.png", yscale="linear")
    if any(key[0] == "rows" for key in found):
        _panels(found, ["rows", "dimension"], SWEEPS, error, out / "sweeps.png")


def _panels(
    found: Found, names: list[str], styles: dict[str, Style], ylabel: str, path: Path, yscale: str = "log"
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(names) + 0.4, 4.6 + 0.6 / len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        for method, style in styles.items():
            _line(axis, found, name, method, style)
        exact = found.get((name, "not-private", 0.0))
        if exact is not None:
            axis.axhline(exact.mean(), color="grey", linewidth=1, linestyle=":", label="without privacy")
        marks = sorted({key[2] for key in found if key[0] == name and key[2] > 0})
        if name in X_AXES:
            axis.set(xlabel=X_AXES[name], xscale="log", yscale=yscale)
            axis.set_xticks(marks)
        else:
            axis.set(title=name.removesuffix("-ridge"), xlabel="ε", xscale="log", yscale=yscale)
            axis.set_xticks([e for e in (0.01, 0.1, 1.0) if e in marks])
        axis.minorticks_off()
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylabel(ylabel)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def _line(axis: Any, found: Found, name: str, method: str, style: Style) -> None:
    label, colour, line, marker = style
    epsilons = sorted(e for n, m, e in found if (n, m) == (name, method))
    if not epsilons:
        return  # left out of a quick run
    values = [found[name, method, e] for e in epsilons]
    axis.errorbar(
        epsilons,
        [v.mean() for v in values],
        [v.std(ddof=1) / np.sqrt(len(v)) for v in values],
        label=label,
        color=colour,
        linestyle=line,
        marker=marker,
        markersize=4,
        markerfacecolor="white" if line == "--" else colour,
        linewidth=1.4,
        capsize=2,
    )
