"""Small tables: do the default answers converge, and are clear components told from noise?

    python benchmarks/small_tables.py [--seeds 6]

The tables of scikit-learn with 150 to 569 rows, raw and standardised, and normal rows, at ε from 10 to 3000, δ = 10⁻⁶.
For two components it prints the method, the captured variance over that of the same table without privacy, the largest
relative error of an explained variance, and how many of the two are told from noise; then the error of the whole
covariance, relative to the deviations of the columns. Means over seeds; "–" if refused.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn import datasets

from dpeigen import PrivateCovariance, PrivatePCA

EPSILONS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


def tables() -> Iterator[tuple[str, np.ndarray]]:
    for name in ("iris", "wine", "diabetes", "breast_cancer"):
        raw = getattr(datasets, f"load_{name}")().data
        yield name, raw
        yield f"{name}, standardised", (raw - raw.mean(axis=0)) / raw.std(axis=0)
    for n, d in ((60, 5), (100, 8), (178, 13)):
        rng = np.random.default_rng(n)
        yield "normal, variances 3, 3, 1, …", rng.normal(size=(n, d)) * np.sqrt([3.0, 3.0] + [1.0] * (d - 2))


def components(rows: np.ndarray, epsilon: float, seeds: int) -> str:
    truth = np.cov(rows.T, bias=True)
    values, found, methods = np.linalg.eigvalsh(truth)[::-1][:2], [], set()
    for seed in range(seeds):
        try:
            fit = PrivatePCA(2, epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows)
        except ValueError:
            return "–"
        captured = np.trace(fit.components_ @ truth @ fit.components_.T) / values.sum()
        found.append((captured, np.abs(fit.explained_variance_ / values - 1).max(), fit.release_.resolved))
        methods.add(fit.guarantee_.mechanism)
    captured, error, told = np.mean(found, axis=0)
    return f"{'/'.join(sorted(methods))} {captured:.3f}, {error:.2f}, {told:.1f}"


def covariance(rows: np.ndarray, epsilon: float, seeds: int) -> str:
    truth, errors = np.cov(rows.T, bias=True), []
    area = np.outer(rows.std(axis=0), rows.std(axis=0))
    for seed in range(seeds):
        try:
            fit = PrivateCovariance(epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows)
        except ValueError:
            return "–"
        errors.append(np.linalg.norm((fit.covariance_ - truth) / area) / np.linalg.norm(truth / area))
    return f"{np.mean(errors):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    print("| table | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    for name, rows in tables():
        cells = [f"{components(rows, e, seeds)}; {covariance(rows, e, seeds)}" for e in EPSILONS]
        print(f"| {name}, {rows.shape[0]}×{rows.shape[1]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
