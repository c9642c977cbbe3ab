"""Error of the first component against rows, columns and the noise of the data, for the methods of Liu et al. 2022.

    python papers/liu-2022/run.py --quick

Two models. "gaussian": x ~ N(0, Σ), λ₁ = 4, all other eigenvalues 1. "low-noise" (the paper's example of gradients that
concentrate): x = ±v + σ·N(0, I), both signs equally likely. v is a random direction, new in each repetition, the
budget (1, 1e-6), the error the sine of the angle to v, the centre known to be 0.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share
import liu_figures  # noqa: E402
from recorded import command, expected_entries, standard_error, summary, write_expected  # noqa: E402

from dpeigen import PrivatePCA  # noqa: E402
from dpeigen.methods import DPPCA, Oja  # noqa: E402
from dpeigen.papers import liu  # noqa: E402
from dpeigen.privacy import NotPrivateWarning, gaussian_mu  # noqa: E402

Floats = NDArray[np.float64]
Cell = tuple[str, str, float]  # figure, method, what is on the axis
EPSILON, DELTA = 1.0, 1e-6
ROWS, COLUMNS, NOISE = 60_000, 20, 0.01  # where they are not on the axis

FIGURES: dict[str, tuple[str, tuple[float, ...]]] = {
    "gaussian/n": ("rows", (30_000, 60_000, 100_000)),
    "gaussian/d": ("columns", (5, 20, 50)),
    "low-noise/n": ("rows", (30_000, 60_000, 100_000)),
    "low-noise/sigma": ("σ", (1.0, 0.1, 0.01, 0.001)),
}
QUICK: dict[str, tuple[float, ...]] = {
    "gaussian/n": (30_000, 60_000),
    "gaussian/d": (5, 20),
    "low-noise/n": (30_000, 60_000),
    "low-noise/sigma": (0.1, 0.01, 0.001),
}
METHODS: dict[str, Any] = {
    "oja": Oja(batch=1),
    "oja, batches": Oja(),
    "dp-pca": DPPCA(),
    "dp-pca, box": DPPCA(box=True),
    "oja, published": None,  # Algorithm 2 as printed; it needs the setting
    "dp-pca, published": None,  # Algorithms 3 to 5 as printed
    "gaussian": "gaussian",
    "spatial-sign": "spatial-sign",
    "analyze-gauss": None,  # as published, below
    "exact": None,  # without privacy
}
SLOW = ("oja", "oja, published")  # not in quick mode
REPETITIONS, FEW, RECORDED = 5, 3, 20
OTHER = 10**9  # seeds of releases differ from those of data: a random start must not be the direction that is sought
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


def setting(figure: str, value: float) -> tuple[str, int, int, float]:
    """(model, rows, columns, σ) of a cell."""
    model, axis = figure.split("/")
    given: dict[str, float] = {"n": ROWS, "d": COLUMNS, "sigma": NOISE} | {axis: value}
    return model, int(given["n"]), int(given["d"]), given["sigma"]


def rows_of(model: str, n: int, d: int, sigma: float, seed: int) -> tuple[Floats, Floats, float]:
    """Rows, the direction, and a public bound that holds 99.9% of them, for the methods that need one."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=d)
    v /= np.linalg.norm(v)
    if model == "gaussian":
        X = rng.normal(size=(n, d))
        X += (math.sqrt(4.0) - 1) * np.outer(X @ v, v)
        return X, v, math.sqrt(d + 3) + 4.0
    X = rng.choice([-1.0, 1.0], size=(n, 1)) * v + sigma * rng.normal(size=(n, d))
    return X, v, math.sqrt((1 + 3 * sigma) ** 2 + sigma**2 * (math.sqrt(d) + 3) ** 2)


def as_printed(name: str, model: str, n: int, d: int) -> Any:
    """Algorithms 2 and 3 with the constants of the paper; where it gives none, 1, and ξ = 20 in place of (67)."""
    top = 4.0 if model == "gaussian" else 1.0
    gap = 3.0 if model == "gaussian" else 1.0
    if name.startswith("dp-pca"):
        return DPPCA(constants="published", gap=gap, batch=n // 10, h=2.0)
    clip = liu.oja_clip(n, d, top, liu.gaussian_constants(n, d))
    return Oja(constants="published", batch=1, gap=gap, clip=clip, h=2.0, xi=20.0, block=n)


def analyze_gauss(X: Floats, bound: float, seed: int) -> Floats:
    """Dwork et al. 2014 as it is used in the paper's comparison, with a σ that holds: √2 sensitivity, exact profile.

    Noise on the upper triangle, the same on all entries, and nothing after it.
    """
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X = X * np.minimum(1.0, bound / norms)
    d = X.shape[1]
    noise = np.triu(np.random.default_rng([seed, 1]).normal(size=(d, d)))
    noise += np.triu(noise, 1).T
    sigma = math.sqrt(2) * bound**2 / gaussian_mu(EPSILON, DELTA)
    return np.linalg.eigh(X.T @ X + sigma * noise)[1][:, -1]


def errors(at: tuple[str, int, int, float], seeds: range, methods: tuple[str, ...]) -> dict[str, Floats]:
    """The sines of all methods on the same data sets."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on synthetic data
        for seed in seeds:
            X, v, bound = rows_of(*at, seed)
            for name in methods:
                if name == "exact":
                    c = np.linalg.eigh(X.T @ X)[1][:, -1]
                elif name == "analyze-gauss":
                    c = analyze_gauss(X, bound, seed)
                else:
                    method = as_printed(name, *at[:3]) if name.endswith("published") else METHODS[name]
                    own = None if name.startswith(("dp-pca", "spatial-sign")) else bound
                    options: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "center": None, "bound": own}
                    c = PrivatePCA(1, method=method, random_state=OTHER + seed, **options).fit(X).components_[0]
                found[name].append(float(np.linalg.norm(c - (c @ v) * v)))
    return {name: np.array(values) for name, values in found.items()}


def cells(quick: bool, count: int, first_seed: int = 0) -> dict[Cell, Floats]:
    """All cells. Quick: in this process, without the slow method."""
    methods = tuple(name for name in METHODS if not (quick and name in SLOW))
    axes = QUICK if quick else {name: axis for name, (_, axis) in FIGURES.items()}
    wanted = {(figure, value): setting(figure, value) for figure, axis in axes.items() for value in axis}
    unique = list(dict.fromkeys(wanted.values()))  # figures share cells
    seeds = range(first_seed, first_seed + count)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=1, batch_size=1)(delayed(errors)(at, seeds, methods) for at in unique)
    by_setting = dict(zip(unique, results, strict=True))
    return {(f, m, v): found for (f, v), at in wanted.items() for m, found in by_setting[at].items()}


def allowed(expected: dict[str, float], repetitions: int) -> float:
    """How far a mean may be from the recorded one: six standard errors of the difference, and at least 5%."""
    return max(6 * standard_error(expected, repetitions), 0.05 * expected["mean"])


def claims(found: dict[Cell, Floats]) -> list[tuple[str, bool]]:
    """What the paper says and the bars of this reproduction, each with whether it was seen."""

    def mean(figure: str, method: str, value: float) -> float:
        return float(found[figure, method, value].mean())

    low = sorted({v for f, _, v in found if f == "low-noise/sigma"})
    ratio = mean("low-noise/sigma", "dp-pca", low[0]) / mean("low-noise/sigma", "gaussian", low[0])
    shrinks = mean("low-noise/sigma", "dp-pca", low[0]) / mean("low-noise/sigma", "dp-pca", low[-1])
    flat = mean("low-noise/sigma", "gaussian", low[0]) / mean("low-noise/sigma", "gaussian", 0.01)
    checks: list[tuple[str, Callable[[], bool]]] = [
        (f"low noise, σ = {low[0]:g}: error of dp-pca is {ratio:.2f} of gaussian's (≤ 0.5)", lambda: ratio <= 0.5),
        (f"from σ = {low[-1]:g} to {low[0]:g} the error of dp-pca falls to {shrinks:.2g}", lambda: shrinks < 0.05),
        (f"from σ = 0.01 to {low[0]:g} that of gaussian falls to {flat:.2f}: a floor", lambda: flat > 0.5),
    ]
    gauss = mean("gaussian/n", "dp-pca", 60_000) / mean("gaussian/n", "gaussian", 60_000)
    line = f"Gaussian rows, n = 60,000: dp-pca has {gauss:.1f} times the error of gaussian (it is not for these)"
    checks.append((line, lambda: gauss > 1))
    box = mean("gaussian/n", "dp-pca, box", 60_000) / mean("gaussian/n", "dp-pca", 60_000)
    checks.append((f"the printed box has {box:.1f} times the error of the ball", lambda: box > 1))
    return [(text, check()) for text, check in checks]


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    expected = expected_entries(HERE)
    found = cells(quick, FEW if quick else REPETITIONS)
    results = {}
    print(f"{'figure':<18}{'method':<16}{'at':>9}{'error':>10}{'expected':>10}{'± allowed':>11}")
    for (figure, method, value), values in found.items():
        key, mean = f"{figure}/{method}/{value:g}", float(values.mean())
        record = expected[key]
        margin = allowed(record, len(values))
        good = abs(mean - record["mean"]) <= margin
        results[key] = summary(values) | {"agrees": good}
        numbers = f"{value:>9g}{mean:>10.4g}{record['mean']:>10.4g}{margin:>11.2g}"
        print(f"{figure:<18}{method:<16}{numbers}" + ("" if good else "   differs"))
    agrees = all(entry["agrees"] for entry in results.values())
    seen = claims(found)
    text = "\n".join(f"[{'x' if good else ' '}] {line}" for line, good in seen)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    (out / "claims.txt").write_text(text + "\n", encoding="utf-8")
    liu_figures.draw(found, {name: label for name, (label, _) in FIGURES.items()}, out)
    print("\n" + text)
    agrees &= all(good for _, good in seen)
    print("All entries agree." if agrees else "Some entries differ from expected.json.", f"Written to {out}.")
    return agrees


def record() -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    found = cells(False, RECORDED, RECORDED_FROM)
    about = "Mean and standard deviation of the sine of the angle to the first component; keys are figure/method/value."
    write_expected(HERE, about, {f"{f}/{m}/{v:g}": values for (f, m, v), values in found.items()})
    sys.exit(0)  # comparing is a run of its own


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
