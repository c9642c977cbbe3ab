"""The picture of the documentation: the paper's outliers turn `gaussian` and leave `kendall`, up to a share of them.

python papers/kim-jung-2025/kim_attack.py docs/_static/attack.png
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.privacy import NotPrivateWarning
from dpeigen.stats.elliptical import sign_eigenvalues

sys.path.insert(0, str(Path(__file__).parent))  # the other files of this folder

import kim_data

Floats = NDArray[np.float64]
N, D, EPSILON, DELTA, REPETITIONS = 2000, 10, 1.0, 1e-5, 20
SHARES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1)
METHODS: dict[str, tuple[str, Any, str]] = {
    "gaussian, bound=12": ("gaussian", 12.0, "#D55E00"),
    'gaussian, bound="private"': ("gaussian", "private", "#E69F00"),
    "kendall": ("kendall", None, "#0072B2"),
}


def released(X: Floats, name: str, seed: int) -> Floats:
    method, bound, _ = METHODS[name]
    pca = PrivatePCA(2, epsilon=EPSILON, delta=DELTA, method=method, bound=bound, center=None, random_state=seed)
    return pca.fit(X).components_


def losses() -> dict[str, Floats]:
    """Mean sinΘ to the true plane for each share of outliers."""
    found: dict[str, Floats] = {name: np.zeros((len(SHARES), REPETITIONS)) for name in METHODS}
    for i, share in enumerate(SHARES):
        for seed in range(REPETITIONS):
            X = kim_data.draw("contaminated", N, D, np.random.default_rng([seed, i]), share)
            for name in METHODS:
                found[name][i, seed] = sin_theta(released(X, name, seed), kim_data.plane(D))
    return found


def breakdown() -> float:
    """The share from which on the outliers' direction comes before v₂ in the population's tau itself."""
    values = kim_data.spectrum(D)
    clean = sign_eigenvalues(values)
    w = np.random.default_rng(0).normal(size=(200_000, D)) * np.sqrt(values)
    w[:, 2] -= kim_data.DISTANCE
    mixed = (w**2 / (w**2).sum(axis=1, keepdims=True)).mean(axis=0)
    return float(brentq(lambda a: (1 - a) * (clean[2] - clean[1]) + 2 * a * (mixed[2] - mixed[1]), 0.001, 0.5))


def draw(path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    X = kim_data.draw("contaminated", N, D, np.random.default_rng([0, 5]))
    view = np.vstack([kim_data.plane(D)[1], kim_data.outlier_direction(D)])
    left.scatter(*(X @ view.T).T, s=5, color="#595959", alpha=0.35, linewidths=0)
    for name in ("gaussian, bound=12", "kendall"):
        arrows = released(X, name, 0) @ view.T
        for arrow in arrows:
            tip = 20 * arrow * np.sign(arrow[np.abs(arrow).argmax()])
            style = {"arrowstyle": "-|>", "color": METHODS[name][2], "linewidth": 2.2, "shrinkA": 0, "shrinkB": 0}
            left.annotate("", tip, (0, 0), arrowprops=style)
        left.plot([], [], color=METHODS[name][2], linewidth=2.2, label=f"components of {name}")
    left.set(xlabel="second true direction v₂", ylabel="direction of the outliers", xlim=(-10, 24), ylim=(-10, 29))
    left.set_title("2,000 rows, 5% of them outliers", fontsize=11)
    left.legend(loc="upper right", frameon=False, fontsize=9, bbox_to_anchor=(1, 0.88))
    found = losses()
    percent = 100 * np.array(SHARES)
    for name, values in found.items():
        error = values.std(axis=1, ddof=1) / np.sqrt(REPETITIONS)
        right.errorbar(percent, values.mean(axis=1), error, color=METHODS[name][2], marker="o", capsize=2, label=name)
        print(name, values.mean(axis=1).round(3))
    right.axvline(100 * breakdown(), color="#595959", linestyle=":", label="Kendall's tau itself breaks down")
    right.set(xlabel="outliers (% of the rows)", ylabel="mean sin Θ to the true plane", ylim=(0, 1.03))
    right.set_title(f"10 columns, (ε, δ) = ({EPSILON:g}, 10⁻⁵), 20 runs each", fontsize=11)
    right.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    right.grid(True, alpha=0.3)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on synthetic rows
        draw(Path(sys.argv[1]))
