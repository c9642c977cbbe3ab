"""Covariance error on wine, airfoil and one-hot adult: matrix Laplace, Laplace and Gaussian noise.

The data are public: they are scaled by their own maxima, and the noise is seeded, so nothing printed here is private.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivateCovariance
from dpeigen.datasets import load_adult, load_airfoil, load_wine
from dpeigen.evaluation import relative_frobenius
from dpeigen.privacy import NotPrivateWarning

Floats = NDArray[np.float64]

HERE = Path(__file__).parent
SETS = {"wine": load_wine, "airfoil": load_airfoil, "adult": load_adult}
EPSILONS = (0.1, 1.0, 4.0)
METHODS = {"matrix-laplace": 0.0, "laplace": 0.0, "gaussian": 1e-6}  # and the δ of each
REPETITIONS = {"wine": 400, "airfoil": 400, "adult": 40}
QUICK = {"wine": 30, "airfoil": 30, "adult": 3}
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


def scaled(X: Floats) -> Floats:
    """Columns divided by their largest absolute value, then all rows by the largest row norm."""
    columns = X / np.abs(X).max(axis=0)
    return columns / np.linalg.norm(columns, axis=1).max()


def errors(X: Floats, method: str, epsilon: float, seeds: range) -> Floats:
    """‖Ĉ − C‖_F / ‖C‖_F of independent seeded releases; C = XᵀX/n, without centring."""
    truth = X.T @ X / len(X)
    found = []
    for seed in seeds:
        fit = PrivateCovariance(
            epsilon=epsilon, delta=METHODS[method], method=method, bound=1.0, center=None, random_state=seed
        ).fit(X)
        found.append(relative_frobenius(fit.covariance_, truth))
    return np.array(found)


def allowed(expected: float, deviation: float, repetitions: int, expected_repetitions: int) -> float:
    """How far a mean may be from the recorded one: five standard errors of the difference, and at least 2%."""
    standard_error = deviation * float(np.sqrt(1 / repetitions + 1 / expected_repetitions))
    return max(5 * standard_error, 0.02 * expected)


def cells(counts: dict[str, int], first_seed: int = 0) -> Iterator[tuple[str, str, float, Floats]]:
    """(data, method, ε, errors) for every cell of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on public data
        for name, load in SETS.items():
            X = scaled(load().X)
            for method in METHODS:
                for epsilon in EPSILONS:
                    yield (
                        name,
                        method,
                        epsilon,
                        errors(X, method, epsilon, range(first_seed, first_seed + counts[name])),
                    )


def main(quick: bool, out: Path) -> bool:
    """Print the table, write ``out/results.json``, and say whether every entry agrees with ``expected.json``."""
    expected = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))["entries"]
    results, agrees = {}, True
    print(f"{'data':<9}{'method':<15}{'ε':>5}{'δ':>8}{'error':>10}{'expected':>10}{'± allowed':>11}")
    for name, method, epsilon, found in cells(QUICK if quick else REPETITIONS):
        key, mean = f"{name}/{method}/{epsilon:g}", float(found.mean())
        record = expected[key]
        margin = allowed(record["mean"], record["deviation"], len(found), record["repetitions"])
        good = abs(mean - record["mean"]) <= margin
        agrees &= good
        results[key] = summary(found) | {"agrees": good}
        numbers = f"{epsilon:>5g}{METHODS[method]:>8g}{mean:>10.4f}{record['mean']:>10.4f}{margin:>11.4f}"
        print(f"{name:<9}{method:<15}{numbers}" + ("" if good else "   differs"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print("All entries agree." if agrees else "Some entries differ from expected.json.", f"Written to {out}.")
    return agrees


def summary(found: Floats) -> dict[str, float]:
    """Mean, standard deviation and number of the errors of one cell."""
    return {"mean": float(found.mean()), "deviation": float(found.std(ddof=1)), "repetitions": len(found)}


def record() -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    entries = {f"{n}/{m}/{e:g}": summary(found) for n, m, e, found in cells(REPETITIONS, RECORDED_FROM)}
    about = "Mean and standard deviation of the normalised Frobenius error; keys are data/method/epsilon."
    text = json.dumps({"about": about, "entries": entries}, indent=2)
    (HERE / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--record", action="store_true", help="write expected.json anew")
    options = parser.parse_args()
    if options.record:
        record()
    sys.exit(0 if main(options.quick, options.out) else 1)
