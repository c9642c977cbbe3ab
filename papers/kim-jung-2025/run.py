"""Figures 1 to 6 of Kim and Jung 2025: Kendall's tau against Analyze Gauss, SGPCA and NSGGD.

The rows are synthetic or public and the noise is seeded, so nothing printed here is private.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivatePCA
from dpeigen.evaluation import projection_distance, sin_theta
from dpeigen.methods import AnalyzeGaussPrinted, Kendall
from dpeigen.methods.foreseen import OnlyNoiseWarning
from dpeigen.privacy import NotPrivateWarning, gaussian_sigma
from dpeigen.stats import kendall_tau, pairs

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share

import kim_baselines  # noqa: E402
import kim_claims  # noqa: E402
import kim_data  # noqa: E402
import kim_europe  # noqa: E402
import kim_figures  # noqa: E402
import kim_outliers  # noqa: E402
from recorded import allowed, command, compared, verdict, write_expected  # noqa: E402, F401

Floats = NDArray[np.float64]
Cell = tuple[str, int, int, float, str]  # law, columns, rows, ε, method

DELTA = 1e-5
EPSILON = 0.5
DIMENSIONS = (5, 10, 25)
SIZES = (250, 500, 750, 1000, 1500, 2000)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # Figure 5
RATES = (0.1, 0.3, 3.0, 10.0, 30.0)  # of NSGGD, beside the printed 1, times 1/n²
REPETITIONS, FIGURE_1, EUROPE, OTHER_RATES, OUTLIERS = 100, 1000, 50, 20, 10
QUICK_DIMENSIONS, QUICK_SIZES, QUICK_EPSILONS, QUICK = (5, 10), (500, 2000), (0.5, 2.0), 6
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


PARTS = {
    "figure-1": ("figure-1/*",),
    "figures-2-to-5": tuple(f"{law}/*" for law in kim_data.LAWS),
    "figure-6": ("europe/*",),
    "outliers": ("outliers: *",),
}
ABOUT = (
    "Mean and standard deviation of sinΘ (figure-1: of the Frobenius distance of projectors; europe: to the plane of "
    "plain PCA); keys are law/columns/rows/epsilon/method."
)


@contextmanager
def one_sum_per_table() -> Iterator[None]:
    """Sums over pairs are kept for the next fit on the same table, and variances, which no figure shows, are not found.

    Neither changes a direction.
    """
    kept: dict[Any, Floats] = {}

    def remembered(rows: Floats, transform: Any, design: Any = None) -> Floats:
        key = (rows.tobytes(), transform, design)
        if key not in kept:
            while len(kept) > 3:
                del kept[next(iter(kept))]
            kept[key] = pairs.pair_sum(rows, transform, design)
        return kept[key]

    def unchanged(phi: Floats, *_: Any) -> Floats:
        return phi

    with (
        patch("dpeigen.stats.kendall.pair_sum", remembered),
        patch("dpeigen.methods.signs.kendall.relative_variances", unchanged),
        patch("dpeigen.methods.signs.kendall.winsorized_variances", unchanged),
    ):
        yield


def fits(d: int) -> dict[str, Any]:
    """The methods of this package, by the name of their curve."""
    winsorized = {"transform": "winsorized", "radius": math.sqrt(d)}
    return {
        "spherical": Kendall(),
        "spherical-published": Kendall(constants="published"),
        "winsorized": Kendall(**winsorized),
        "winsorized-published": Kendall(**winsorized, constants="published"),
        "AG": AnalyzeGaussPrinted(),
    }


def private(X: Floats, method: Any, epsilon: float, seed: int, delta: float = DELTA) -> Floats:
    """Two directions from a release."""
    pca = PrivatePCA(2, epsilon=epsilon, delta=delta, method=method, center=None, random_state=seed)
    return pca.fit(X).components_


def exact(X: Floats) -> dict[str, Floats]:
    """Two directions without privacy, from Kendall's tau and from the covariance."""
    taus = {
        "spherical-exact": kendall_tau(X),
        "winsorized-exact": kendall_tau(X, "winsorized", math.sqrt(X.shape[1])),
        "pca-exact": np.cov(X.T),
    }
    return {name: kim_baselines.directions(matrix) for name, matrix in taus.items()}


def cell(law: str, d: int, n: int, epsilons: tuple[float, ...], seeds: range, rates: bool) -> dict[Cell, Floats]:
    """sinΘ to the true plane, for every method and ε, on one table of each seed."""
    truth, losses = kim_data.plane(d), {}
    tag = kim_data.LAWS.index(law)
    tables = [kim_data.draw(law, n, d, np.random.default_rng([seed, tag, d, n])) for seed in seeds]

    def add(epsilon: float, name: str, value: float) -> None:
        losses.setdefault((law, d, n, epsilon, name), []).append(value)

    with one_sum_per_table():
        for seed, X in zip(seeds, tables, strict=True):
            noise = int(np.random.SeedSequence([seed, tag, d, n]).generate_state(1)[0])
            for name, found in exact(X).items():
                loss = sin_theta(found, truth)
                for epsilon in epsilons:
                    add(epsilon, name, loss)
            for epsilon in epsilons:
                for name, method in fits(d).items():
                    add(epsilon, name, sin_theta(private(X, method, epsilon, noise), truth))
    stack = np.array(tables)
    spikes = np.array([kim_data.FIRST, kim_data.REST])
    for epsilon in epsilons:
        rng = np.random.default_rng([seeds.start, tag, d, n, round(1000 * epsilon)])
        for found in kim_baselines.sgpca(stack, epsilon, DELTA, spikes, rng):
            add(epsilon, "SGPCA", sin_theta(found, truth))
        for found in kim_baselines.nsggd(stack, epsilon, DELTA, rng):
            add(epsilon, "NSGGD", sin_theta(found, truth))
        for rate in RATES if rates and epsilon == EPSILON else ():
            for found in kim_baselines.nsggd(stack[:OTHER_RATES], epsilon, DELTA, rng, rate=rate):
                add(epsilon, f"NSGGD@{rate:g}", sin_theta(found, truth))
    return {key: np.array(values) for key, values in losses.items()}


def figure_1(n: int, seeds: range) -> dict[Cell, Floats]:
    """‖P̂ − P‖_F at d = 25 with Kendall's tau, disjoint paired differences, and signs about the known centre."""
    d, losses = 25, {}
    truth = kim_data.plane(d)
    # All noises are for one row replaced: it is in a 2/n share of the pairs, one of n/2 differences, one of n signs.
    scale = {"tau": 2 * math.sqrt(2) / n, "differences": math.sqrt(2) / (n // 2), "signs": math.sqrt(2) / n}
    for seed in seeds:
        rng = np.random.default_rng([seed, n])
        X = kim_data.draw("gaussian", n, d, rng)
        half = n // 2
        for transform, radius in (("spherical", 1.0), ("winsorized", math.sqrt(d))):
            taken = {"differences": (X[half : 2 * half] - X[:half]) / math.sqrt(2), "signs": X}
            matrices = {"tau": kendall_tau(X, transform, None if transform == "spherical" else radius)}
            for kind, rows in taken.items():
                norms = np.linalg.norm(rows, axis=1, keepdims=True)
                g = rows / norms * (1.0 if transform == "spherical" else np.minimum(radius, norms))
                matrices[kind] = g.T @ g / len(g)
            for kind, matrix in matrices.items():
                sigma = gaussian_sigma(EPSILON, DELTA, scale[kind] * radius**2)
                noisy = matrix + sigma * kim_baselines.isometric((d, d), rng)
                for suffix, value in (("-exact", matrix), ("", noisy)):
                    loss = projection_distance(kim_baselines.directions(value), truth)
                    losses.setdefault(("figure-1", d, n, EPSILON, f"{transform}-{kind}{suffix}"), []).append(loss)
    return {key: np.array(values) for key, values in losses.items()}


def cells(
    quick: bool, first_seed: int = 0, log: bool = False, parts: Collection[str] = tuple(PARTS)
) -> dict[Cell, Floats]:
    """The losses of every cell of these parts."""
    found: dict[Cell, Floats] = {}
    started = time.monotonic()

    def seeds(count: int) -> range:
        return range(first_seed, first_seed + count)

    def say(what: str) -> None:
        if log:
            print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)

    for law in kim_data.LAWS if "figures-2-to-5" in parts else ():
        for d in QUICK_DIMENSIONS if quick else DIMENSIONS:
            for n in QUICK_SIZES if quick else SIZES:
                several = (d, n) == (10, 2000)
                epsilons = (QUICK_EPSILONS if quick else EPSILONS) if several else (EPSILON,)
                rates = not quick and law != "gaussian"
                found |= cell(law, d, n, epsilons, seeds(QUICK if quick else REPETITIONS), rates)
            say(f"{law}, d = {d}")
    for n in (QUICK_SIZES if quick else SIZES) if "figure-1" in parts else ():
        found |= figure_1(n, seeds(QUICK if quick else FIGURE_1))
        say(f"figure 1, n = {n}")
    if "figure-6" in parts:
        found |= kim_europe.cells(private, seeds(QUICK if quick else EUROPE))
        say("figure 6")
    if "outliers" in parts:
        found |= kim_outliers.cells(seeds(2 if quick else OUTLIERS), quick)
        say("outliers")
    return found


def key_of(cell: Cell) -> str:
    law, d, n, epsilon, method = cell
    return f"{law}/{d}/{n}/{epsilon:g}/{method}"


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on synthetic and public rows
        warnings.simplefilter("ignore", OnlyNoiseWarning)  # the paper has such settings
        found = cells(quick, log=not quick)
    results = compared(HERE, {key_of(where): values for where, values in found.items()}, out, digits=5)
    kim_figures.draw(found, out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        kim_europe.draw(private, out / "figure-6.png")
    if not quick:
        text = kim_claims.text(results)
        (out / "claims.txt").write_text(text + "\n", encoding="utf-8")
        print("\n" + text)
    return verdict(results, out)


def record(*parts: str) -> None:
    """Write ``expected.json`` anew, or only `PARTS` of it: only after a change that is meant to change the numbers."""
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"There are the parts {', '.join(PARTS)}; not {', '.join(sorted(unknown))}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        warnings.simplefilter("ignore", OnlyNoiseWarning)
        found = cells(False, RECORDED_FROM, log=True, parts=parts or tuple(PARTS))
    only = [pattern for part in parts for pattern in PARTS[part]]
    write_expected(HERE, ABOUT, {key_of(where): values for where, values in found.items()}, digits=5, only=only)
    sys.exit(0)  # comparing is a run of its own


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
