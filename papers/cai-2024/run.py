"""Figures 1 to 4 and the covariance comparison of Cai, Xia and Zha 2024, with worst-case methods drawn beside theirs.

The data are synthetic or public, parameters are given away where the paper does so, and the noise is seeded: nothing
printed here is private.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivatePCA
from dpeigen.evaluation import projection_distance
from dpeigen.methods import DataScaledGaussian, Gaussian, Refined, SpatialSign, Spiked
from dpeigen.privacy import NotPrivateWarning
from dpeigen.stats.spiked import dp_gauss_radius

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share

import cai_figures  # noqa: E402
import cai_mnist  # noqa: E402
from recorded import allowed, command, expected_entries, summary, write_expected  # noqa: E402

Floats = NDArray[np.float64]
P, DELTA, REPETITIONS, QUICK, RECORDED = 50, 0.1, 40, 4, 60
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


class Setting(NamedTuple):
    """One point of a figure."""

    n: int = 4000
    rank: int = 3
    signal: float = 10.0
    epsilon: float = 1.0
    delta: float = DELTA


Panel = dict[float, Setting]  # what the axis says → the setting
PANELS: dict[str, Panel] = {
    "1-n": {n: Setting(n=n, rank=1) for n in (1000, 2000, 4000, 8000, 16000)},
    "1-rank": {r: Setting(rank=r) for r in (1, 2, 3, 5, 8)},
    "2-epsilon": {e: Setting(epsilon=e) for e in (0.2, 0.5, 1.0, 2.0, 4.0)},
    "2-signal": {s: Setting(signal=s) for s in (2.0, 5.0, 10.0, 20.0, 50.0, 200.0)},
    "3-signal": {s: Setting(n=30, signal=s) for s in (1e2, 1e3, 1e4, 1e5)},
    "bars": {s: Setting(n=5000, signal=s, delta=1e-5) for s in (5.0, 10.0, 50.0, 200.0, 1000.0)},
    "covariance": {n: Setting(n=n, signal=50.0) for n in (1000, 4000, 16000)},
}
QUICK_POINTS = {"1-n": (2000,), "1-rank": (5,), "2-epsilon": (0.5,), "2-signal": (50.0,), "3-signal": (1e4,),
                "bars": (10.0, 1000.0), "covariance": (4000,)}  # fmt: skip


def curves(s: Setting) -> dict[str, tuple[Any, float | None]]:
    """Methods with their bounds. Those of the paper are told λ and σ²; the last two are told nothing but, if rows are
    too few for paid radii, DP-Gauss's bound."""
    radius = dp_gauss_radius(s.n, P, s.rank, s.signal, 1.0)
    found: dict[str, tuple[Any, float | None]] = {
        "spiked-published": (Spiked(s.signal, 1.0, constants="published"), None),
        "spiked-published-whole": (Spiked(s.signal, 1.0, constants="published", eigenvalues="known"), None),
        "spiked-sharp": (Spiked(s.signal, 1.0), None),
        "DP-Gauss": (Gaussian(constants="published"), radius),
        "DP-Gauss*": (DataScaledGaussian(), None),
        "spatial-sign": (SpatialSign(), radius if s.n < 1000 or s.epsilon < 0.5 else None),
    }
    if s.n >= 1000 and s.epsilon >= 0.5 and s.epsilon * s.n > 900:
        found["refined"] = (Refined(), None)
    return found


def draw_rows(s: Setting, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(P, s.rank)))[0].T
    return rng.normal(size=(s.n, P)) + math.sqrt(s.signal) * rng.normal(size=(s.n, s.rank)) @ basis, basis


def error(panel: str, s: Setting, rows: Floats, basis: Floats, method: Any, bound: float | None, seed: int) -> float:
    fitted = PrivatePCA(
        s.rank, epsilon=s.epsilon, delta=s.delta, method=method, bound=bound, center=None, random_state=seed
    ).fit(rows)
    if panel != "covariance":
        return projection_distance(fitted.components_, basis)
    # All are told σ² = 1, as in the paper: V(Λ − σ²)Vᵀ + σ²I.
    v, values = fitted.components_, np.maximum(fitted.explained_variance_ - 1, 0.0)
    truth = s.signal * basis.T @ basis + np.eye(P)
    return float(np.linalg.norm((v.T * values) @ v + np.eye(P) - truth) / np.linalg.norm(truth))


def cells(quick: bool, count: int, first_seed: int = 0) -> dict[str, Floats]:
    """Errors by panel/method/point."""
    found: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on synthetic data
        for panel, points in PANELS.items():
            for x, s in points.items():
                if quick and x not in QUICK_POINTS[panel]:
                    continue
                for seed in range(first_seed, first_seed + count):
                    rows, basis = draw_rows(s, seed)
                    for name, (method, bound) in curves(s).items():
                        if panel == "covariance" and name.endswith("whole"):
                            continue  # it is told the eigenvalues
                        value = error(panel, s, rows, basis, method, bound, seed)
                        found.setdefault(f"{panel}/{name}/{x:g}", []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    expected = expected_entries(HERE)
    found = cells(quick, QUICK if quick else REPETITIONS)
    runs, pictures = cai_mnist.cells(range(2 if quick else 20), quick)
    found |= runs
    results = {}
    print(f"{'panel/method/point':<44}{'error':>10}{'expected':>10}{'± allowed':>11}")
    for key, values in found.items():
        mean, record = float(values.mean()), expected[key]
        margin = allowed(record, len(values))
        good = abs(mean - record["mean"]) <= margin
        results[key] = summary(values) | {"agrees": good}
        print(f"{key:<44}{mean:>10.4g}{record['mean']:>10.4g}{margin:>11.2g}" + ("" if good else "   differs"))
    agrees = all(entry["agrees"] for entry in results.values())
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    cai_figures.draw(found, pictures, out)
    print("All entries agree." if agrees else "Some entries differ from expected.json.", f"Written to {out}.")
    return agrees


def record() -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    found = cells(False, RECORDED, RECORDED_FROM)
    found |= cai_mnist.cells(range(RECORDED_FROM, RECORDED_FROM + 20), False)[0]
    about = "Mean and standard deviation of ‖ÛÛᵀ − UUᵀ‖_F (covariance: of the relative Frobenius error; mnist: of the "
    about += (
        "explained variance relative to the best; mnist-parameters: of private estimates); keys are panel/method/x."
    )
    write_expected(HERE, about, found)


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
