"""Figure 6: 1,387 Europeans, 20 genetic coordinates, on two private directions.

The table is public. A map of private rows on private directions would not be private: the scores are private data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kim_baselines
import numpy as np
from numpy.typing import NDArray

from dpeigen.datasets import load_europe
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Kendall

Floats = NDArray[np.float64]
Private = Callable[..., Floats]
EPSILON, DELTA = 2.0, 1e-4
METHODS = {"spherical": Kendall(), "spherical-published": Kendall(constants="published")}


def plain(X: Floats) -> Floats:
    """Two directions of plain PCA."""
    return kim_baselines.directions(np.cov(X.T))


def maps(private: Private, X: Floats, seed: int) -> dict[str, Floats]:
    """Two directions by every method of the figure, and by Kendall's tau without privacy."""
    from dpeigen.stats import kendall_tau

    rng = np.random.default_rng([seed, 6])
    found = {name: private(X, method, EPSILON, seed, DELTA) for name, method in METHODS.items()}
    shuffled = X[rng.permutation(len(X))][None]  # NSGGD pairs row i with row i + n/2, and the table is sorted
    found["NSGGD"] = kim_baselines.nsggd(shuffled, EPSILON, DELTA, rng)[0]
    found["spherical-exact"] = kim_baselines.directions(kendall_tau(X))
    return found


def cells(private: Private, seeds: range) -> dict[tuple[str, int, int, float, str], Floats]:
    """sinΘ to the plane of plain PCA."""
    X = load_europe().X
    truth, losses = plain(X), {}
    for seed in seeds:
        for name, found in maps(private, X, seed).items():
            losses.setdefault(("europe", X.shape[1], len(X), EPSILON, name), []).append(sin_theta(found, truth))
    return {key: np.array(values) for key, values in losses.items()}


def draw(private: Private, path: Path, seed: int = 0) -> None:
    """The maps of one seed, turned and mirrored onto that of plain PCA, coloured by country."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    europe = load_europe()
    X, countries = europe.X - europe.X.mean(axis=0), np.asarray(europe.target)
    truth = plain(X)
    found = maps(private, X, seed)
    panels: list[tuple[str, Floats]] = [
        ("plain PCA, not private", truth),
        ("kendall, sharp constants", found["spherical"]),
        ("kendall, published constants", found["spherical-published"]),
        ("NSGGD, published", found["NSGGD"]),
    ]
    figure = Figure(figsize=(11, 7.9), layout="constrained")
    FigureCanvasAgg(figure)
    names, sizes = np.unique(countries, return_counts=True)
    shown = names[np.argsort(-sizes)][:12]
    for axis, (title, basis) in zip(figure.subplots(2, 2).ravel(), panels, strict=True):
        _scatter(axis, X @ _turned(basis, truth).T, countries, shown)
        loss = "" if basis is truth else f" (sinΘ to plain PCA {sin_theta(basis, truth):.2f})"
        axis.set(title=title + loss, xlabel="component 1", ylabel="component 2", aspect="equal")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=9, markerscale=2)
    figure.suptitle("Genes and geography: 1,387 Europeans on two directions, (ε, δ) = (2, 10⁻⁴), one seed", fontsize=12)
    figure.savefig(path, dpi=110)


def _turned(basis: Floats, onto: Floats) -> Floats:
    """The same plane in the basis nearest to another: the sense of an axis means nothing."""
    left, _, right = np.linalg.svd(onto @ basis.T)
    return left @ right @ basis


def _scatter(axis: Any, scores: Floats, countries: NDArray[Any], shown: NDArray[Any]) -> None:
    import matplotlib

    rest = ~np.isin(countries, shown)
    axis.scatter(*scores[rest].T, s=6, color="0.8", linewidths=0, label="other")
    for country, colour in zip(shown, matplotlib.colormaps["tab20"].colors, strict=False):
        axis.scatter(*scores[countries == country].T, s=7, color=colour, linewidths=0, label=str(country))
    axis.grid(True, alpha=0.2)
