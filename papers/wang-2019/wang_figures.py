"""The figures: subspace error over n, p and ε, a line for each kind of noise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = Mapping[str, Mapping[str, NDArray[np.float64]]]
STYLES = {
    "printed": ("as printed", "C3", "o"),
    "corrected": ("Gaussian, right σ, same true ε", "C0", "s"),
    "pure": ("PrivUnit, same true ε, δ = 0", "black", "D"),
}
BASE = {
    "figure-1": {"n": 30_000.0, "p": 40.0, "k": 5.0, "eps": 2.0},
    "figure-2": {"n": 8000.0, "p": 400.0, "k": 10.0, "s": 20.0, "eps": 4.0},
}
AXES = {"figure-1": ("n", "p", "eps"), "figure-2": ("n", "p", "eps", "s")}
LABELS = {"n": "clients n", "p": "columns p", "eps": "stated ε", "s": "columns of the subspace s"}


def draw(found: Found, out: Path) -> None:
    """Write figure-1.png and figure-2.png."""
    cells = {key: {name: float(value) for name, value in re.findall(r"(\w+)=([\d.e+]+)", key)} for key in found}
    for figure, base in BASE.items():
        keys = [key for key in found if key.split("/")[0] == figure]
        panels = [(axis, series(keys, cells, axis, base)) for axis in AXES[figure]]
        _panels(found, [(axis, line) for axis, line in panels if len(line) > 1], out / f"{figure}.png", base)


def series(
    keys: list[str], cells: Mapping[str, Mapping[str, float]], axis: str, base: Mapping[str, float]
) -> list[tuple[float, str]]:
    """(value, cell) of the cells that differ from the base in one thing only."""
    rest = {name: value for name, value in base.items() if name != axis}
    same = [key for key in keys if all(cells[key].get(name) == value for name, value in rest.items())]
    return sorted((cells[key][axis], key) for key in same)


def _panels(found: Found, panels: list[tuple[str, Any]], path: Path, base: Mapping[str, float]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not panels:
        return
    figure = Figure(figsize=(4.0 * len(panels) + 0.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, (axis, line) in zip(axes, panels, strict=True):
        x = [value for value, _ in line]
        for curve, (label, colour, marker) in STYLES.items():
            values = [found[key][curve] for _, key in line]
            bars = [v.std() / math.sqrt(len(v)) for v in values]
            panel.errorbar(x, [v.mean() for v in values], bars, color=colour, marker=marker, capsize=2, label=label)
        k = base["k"]
        lost = [math.sqrt(2 * k * (1 - k / (value if axis == "p" else base["p"]))) for value in x]
        panel.plot(x, lost, color="grey", linestyle=":", label="a random subspace")
        panel.set(xlabel=LABELS[axis], xscale="log", ylim=(0, None))
        panel.set_xticks(x, [f"{value:g}" for value in x], minor=False)
        panel.minorticks_off()
        panel.grid(True, alpha=0.3)
    axes[0].set_ylabel(r"$\|\hat V\hat V^T - VV^T\|_F$")
    fixed = ", ".join(f"{name if name != 'eps' else 'ε'} = {value:g}" for name, value in base.items())
    figure.suptitle(f"Unless on the axis: {fixed}", fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(path, dpi=110)
