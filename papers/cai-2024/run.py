"""Figures 1 to 4 and the covariance comparison of Cai, Xia and Zha 2024, with worst-case methods drawn beside theirs.

The data are synthetic or public, parameters are given away where the paper does so, and the noise is seeded: nothing
printed here is private.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.evaluation import projection_distance
from dpeigen.methods import Gaussian, Refined, SpatialSign, Spiked
from dpeigen.papers import DataScaledGaussian, OjaPrinted
from dpeigen.privacy import NotPrivateWarning
from dpeigen.stats.spiked import dp_gauss_radius

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share

import cai_figures  # noqa: E402
import cai_mnist  # noqa: E402
from recorded import command, compared, verdict, write_expected  # noqa: E402

Floats = NDArray[np.float64]
P, DELTA, REPETITIONS, QUICK, RECORDED = 50, 0.1, 40, 4, 40
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


UNKNOWN = ("unknown", "unknown-noise", "unknown-rank")  # error of the covariance, private σ², private rank


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
    # DP-Oja is in the paper's second figure, and has one direction only
    "2-epsilon": {e: Setting(rank=1, epsilon=e) for e in (0.2, 0.5, 1.0, 2.0, 4.0)},
    "2-signal": {s: Setting(rank=1, signal=s) for s in (2.0, 5.0, 10.0, 50.0, 200.0)},
    "3-signal": {s: Setting(n=30, signal=s) for s in (1e2, 1e3, 1e4, 1e5)},
    "bars": {s: Setting(n=5000, signal=s, delta=1e-5) for s in (5.0, 10.0, 50.0, 200.0, 1000.0)},
    "covariance": {n: Setting(n=n, signal=50.0) for n in (1000, 4000, 16000)},
    "unknown": {n: Setting(n=n, signal=50.0) for n in (4000, 16000)},
}
QUICK_POINTS = {"1-n": (2000,), "1-rank": (5,), "2-epsilon": (0.5,), "2-signal": (50.0,), "3-signal": (1e4,),
                "bars": (10.0, 1000.0), "covariance": (4000,), "unknown": (4000,)}  # fmt: skip


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
    if s.rank == 1:
        found["DP-Oja"] = (OjaPrinted(s.signal), None)  # C = 0.2 and a step of 0.5/n
    if s.n >= 1000 and s.epsilon >= 0.5 and s.epsilon * s.n > 900:
        found["refined"] = (Refined(), None)
    return found


def unknown(s: Setting) -> dict[str, tuple[Any, float | None]]:
    """σ² unknown (§5.3), and the rank and λ too (§7.1, §7.2): as printed, told λ and σ² for the noise; and ours, told
    nothing."""
    printed = {"constants": "published", "assumed": (s.signal, 1.0)}
    return {
        "published, section 5.3": (Spiked(s.signal, rank=s.rank, **printed), None),
        "published, sections 5.3 and 7": (Spiked(rank="private", largest_rank=10, **printed), None),
        "sharp, private": (Spiked(rank="private"), None),
    }


def unknown_error(s: Setting, rows: Floats, basis: Floats, method: Any, seed: int) -> tuple[float, float, float]:
    """Relative error of the covariance, the private σ², and the private rank."""
    release = PrivateCovariance(epsilon=s.epsilon, delta=s.delta, method=method, center=None, random_state=seed)
    release = release.fit(rows).release_
    truth = s.signal * basis.T @ basis + np.eye(P)
    details = release.facts["details"]
    off = float(np.linalg.norm(release.covariance - truth) / np.linalg.norm(truth))
    return off, details["noise_variance"], float(details["rank"])


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
    truth = s.signal * basis.T @ basis + np.eye(P)
    if isinstance(method, Spiked):  # as it comes out of the algorithm
        return float(np.linalg.norm(fitted.release_.covariance - truth) / np.linalg.norm(truth))
    # All are told σ² = 1, as in the paper: V(Λ − σ²)Vᵀ + σ²I.
    v, values = fitted.components_, np.maximum(fitted.explained_variance_ - 1, 0.0)
    return float(np.linalg.norm((v.T * values) @ v + np.eye(P) - truth) / np.linalg.norm(truth))


def cells(
    quick: bool, count: int, first_seed: int = 0, wanted: Callable[[str, str], bool] | None = None
) -> dict[str, Floats]:
    """Errors by panel/method/point; ``wanted`` picks panels and methods, all by default."""
    found: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on synthetic data
        for panel, points in PANELS.items():
            for x, s in points.items():
                if quick and x not in QUICK_POINTS[panel]:
                    continue
                chosen = unknown(s) if panel == "unknown" else curves(s)
                chosen = {name: curve for name, curve in chosen.items() if wanted is None or wanted(panel, name)}
                for seed in range(first_seed, first_seed + count) if chosen else ():
                    rows, basis = draw_rows(s, seed)
                    for name, (method, bound) in chosen.items():
                        if panel == "covariance" and name.endswith("whole"):
                            continue  # it is told the eigenvalues
                        if panel == "unknown":
                            for what, value in zip(UNKNOWN, unknown_error(s, rows, basis, method, seed), strict=True):
                                found.setdefault(f"{what}/{name}/{x:g}", []).append(value)
                            continue
                        value = error(panel, s, rows, basis, method, bound, seed)
                        found.setdefault(f"{panel}/{name}/{x:g}", []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    found = cells(quick, QUICK if quick else REPETITIONS)
    runs, pictures = cai_mnist.cells(range(2 if quick else 20), quick)
    found |= runs
    results = compared(HERE, found, out)
    cai_figures.draw(found, pictures, out)
    return verdict(results, out)


ABOUT = (
    "Mean and standard deviation of ‖ÛÛᵀ − UUᵀ‖_F (covariance, unknown: of the relative Frobenius error; "
    "unknown-noise, unknown-rank: of private estimates; mnist: of the explained variance relative to the best; "
    "mnist-total, mnist-raw: of its share of the total, centred and not; mnist-parameters: of private estimates); keys "
    "are panel/method/x."
)


def record() -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    found = cells(False, RECORDED, RECORDED_FROM)
    found |= cai_mnist.cells(range(RECORDED_FROM, RECORDED_FROM + 20), False)[0]
    write_expected(HERE, ABOUT, found)


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
