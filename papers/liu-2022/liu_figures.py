"""The figures: error against rows, columns and noise, logarithmic axes, bars of one standard error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Found = Mapping[tuple[str, str, float], NDArray[np.float64]]

STYLES: dict[str, tuple[str, str, str, str]] = {  # label, colour, line, marker
    "oja": ("oja, row by row, shuffled", "C0", "-", "o"),
    "oja, batches": ("oja, in batches", "C0", "--", "o"),
    "dp-pca": ("dp-pca", "C1", "-", "s"),
    "dp-pca, box": ("dp-pca, printed box", "C1", ":", "s"),
    "oja, published": ("oja, as printed", "C0", ":", "o"),
    "dp-pca, published": ("dp-pca, as printed", "C1", "--", "s"),
    "analyze-gauss": ("Analyze Gauss, as published", "C2", ":", "^"),
    "gaussian": ("gaussian", "C2", "-", "^"),
    "spatial-sign": ("spatial-sign, no bound either", "black", "--", "D"),
    "exact": ("without privacy", "0.6", "-", ""),
}
TITLES = {
    "gaussian/n": "Gaussian rows, 20 columns",
    "gaussian/d": "Gaussian rows, 60,000 of them",
    "low-noise/n": "±v + noise 0.01, 20 columns",
    "low-noise/sigma": "±v + noise σ, 60,000 × 20",
}


def draw(found: Found, labels: Mapping[str, str], out: Path) -> None:
    """Write figure-gaussian.png and figure-low-noise.png."""
    for model in ("gaussian", "low-noise"):
        _panels(found, {f: label for f, label in labels.items() if f.startswith(model)}, out / f"figure-{model}.png")


def _panels(found: Found, figures: Mapping[str, str], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(figures), 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, label) in zip(figure.subplots(1, len(figures), squeeze=False)[0], figures.items(), strict=True):
        for method, (text, colour, line, marker) in STYLES.items():
            values = sorted(v for f, m, v in found if f == name and m == method)
            if not values:
                continue
            samples = [found[name, method, v] for v in values]
            means = [s.mean() for s in samples]
            bars = [s.std(ddof=1) / np.sqrt(len(s)) if len(s) > 1 else 0.0 for s in samples]
            options = {"color": colour, "linestyle": line, "marker": marker, "capsize": 2, "markersize": 4}
            axes.errorbar(values, means, bars, label=text, **options)
        axes.set(xscale="log", yscale="log", xlabel=label, title=TITLES[name])
        if label != "σ":  # the few values there are, as they are
            ticks = sorted({v for f, _, v in found if f == name})
            axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
            axes.minorticks_off()
        axes.grid(True, which="major", color="0.9")
    figure.axes[0].set_ylabel("sine of the angle to the first component")
    handles, texts = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=120)
