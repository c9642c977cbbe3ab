"""`PrivateRidge` beside AdaSSP (Wang 2018) on real tables, at equal public bounds, budget and neighbours.

Run by `make bench`, or alone: `python benchmarks/run.py ridge`. The tables are those of the folder that DPEIGEN_DATA
names, and scikit-learn's diabetes; numeric columns and those of two values, complete rows. Public bounds are the least
and largest value of a column, rounded outwards. A quarter of the rows is held out, the same for both; R² is that of the
held-out rows, a mean over seeds (below 0 is worse than their mean). "Behind" is a mean difference below 0 by more than
three standard errors and 0.005, against the better of AdaSSP's two forms, with and without a constant column.

AdaSSP is given tighter constants than are printed: each of its three Gaussian mechanisms gets a third of the exact
Gaussian budget (μ²), in place of (ε/3, δ/3) and a tail bound. Its sensitivities are those of one row replaced, as ours:
‖X‖² for the least eigenvalue, √2·‖X‖² for the upper triangle of XᵀX (one row replaced by an orthogonal one reaches it),
2·‖X‖·‖Y‖ for Xᵀy. Columns are centred in their bounds and divided by half their width, as it needs one ‖X‖ for all.

Cells that chose nothing: `python benchmarks/ridge.py --seed 4 --cells 250 --runs 10` draws a table of `_tables.py`, a
target, 3 to 25 other columns as features, 200 to 5,000 rows and ε, with the exact range of every column as its bounds.
There "behind" is a mean difference of more than two standard errors and 0.01.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Line = tuple[str, str, str, bool | None]
EPSILONS, DELTA, RHO = (0.3, 1.0, 3.0, 10.0), 1e-6, 0.05
SMALL, SEEDS = 400, 10
ADULT = ("age", "fnlwgt", "education", "gain", "loss", "hours")
TARGETS = {
    "DoctorAUS": ("hscore", "income"), "LaborSupply": ("lnwg", "kids"), "PSID": ("earnings", "hours"),
    "baseball": ("r", "hr", "so"), "colon": ("time", "nodes"), "flchain": ("kappa", "futime", "age"),
    "nwtco": ("stage", "edrel"), "rwm5yr": ("hhninc", "docvis", "educ"),
}  # fmt: skip
LEFT_OUT = ["id", "intnum", "persnum", "study", "seqno", "edlevel", "edlevel1", "ibb", "hbp", "sh", "sf", "gidp", "cs"]


def numeric(table: Any) -> Any:
    """Numeric columns, and those of two values as 0 and 1, without incomplete rows."""
    table = table.drop(columns=LEFT_OUT, errors="ignore").copy()
    for name in table.columns:
        if table[name].dtype.kind not in "fiu" and table[name].nunique() == 2:
            table[name] = (table[name] == sorted(table[name].dropna().unique())[0]).astype(float)
    return table.select_dtypes("number").dropna()


def tables() -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    import pandas as pd
    from sklearn.datasets import load_diabetes

    from dpeigen.datasets import load_adult_numeric, load_airfoil

    yield "diabetes", load_diabetes(as_frame=True, scaled=False).frame, ("target", "bmi", "s4")
    airfoil = pd.DataFrame(load_airfoil().X, columns=["frequency", "angle", "chord", "speed", "thickness", "pressure"])
    yield "airfoil", airfoil, ("pressure", "thickness")
    adult = load_adult_numeric()
    people = pd.DataFrame(np.asarray(adult.X, dtype=float), columns=list(ADULT))
    yield "adult", people.assign(income=pd.factorize(np.asarray(adult.target).astype(str))[0]), ("income", "hours")
    folder = Path(os.environ.get("DPEIGEN_DATA", "")) / "tables"
    for name, targets in TARGETS.items():
        if (folder / f"{name}.csv").is_file():
            yield name, numeric(pd.read_csv(folder / f"{name}.csv")), targets


def rounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of columns: least and largest value, rounded outwards to half a power of ten of the range."""
    low, high = values.min(axis=0), values.max(axis=0)
    step = 10.0 ** np.floor(np.log10(high - low)) / 2
    return np.floor(low / step) * step, np.ceil(high / step) * step


def adassp(
    X: np.ndarray, y: np.ndarray, box: tuple, limits: tuple, epsilon: float, seed: int, *, constant: bool
) -> tuple[np.ndarray, float]:
    """Coefficients and intercept of Algorithm 2 of Wang 2018 at (epsilon, DELTA)."""
    from dpeigen.privacy import gaussian_mu

    rng, mu = np.random.default_rng([seed, 1]), gaussian_mu(epsilon, DELTA) / math.sqrt(3)
    (low, high), (least, most) = box, limits
    middle, half, reach = (low + high) / 2, (high - low) / 2, (most - least) / 2
    Z, t = (X - middle) / half, (y - (least + most) / 2) / reach  # ‖Y‖ = 1
    Z = np.column_stack([Z, np.ones(len(Z))]) if constant else Z
    d, square = Z.shape[1], float(Z.shape[1])  # ‖X‖²
    moment = Z.T @ Z
    lowest = np.linalg.eigvalsh(moment)[0] + square / mu * (rng.normal() - math.sqrt(math.log(6 / DELTA)))
    sigma = math.sqrt(2) * square / mu
    upper = np.triu(rng.normal(size=(d, d))) * sigma
    penalty = max(0.0, sigma * math.sqrt(d * math.log(2 * d**2 / RHO)) - max(0.0, lowest))
    cross = Z.T @ t + rng.normal(size=d) * 2 * math.sqrt(square) / mu
    theta = np.linalg.solve(moment + upper + np.triu(upper, 1).T + penalty * np.eye(d), cross)
    coef = theta[: len(half)] * reach / half
    return coef, (least + most) / 2 + (reach * theta[-1] if constant else 0.0) - float(coef @ middle)


def ours(X: np.ndarray, y: np.ndarray, box: tuple, limits: tuple, epsilon: float, delta: float, seed: int) -> tuple:
    from dpeigen import PrivateRidge

    settings = {"epsilon": epsilon, "delta": delta, "bound": box, "target_bounds": limits, "random_state": seed}
    model = PrivateRidge("auto", **settings).fit(X, y)
    return model.coef_, model.intercept_


def cell(
    X: np.ndarray, y: np.ndarray, n: int, epsilon: float, bounds: Any = rounded, seeds: Any = range(SEEDS)
) -> np.ndarray:
    """R² of held-out rows, seeds × (ours, ours at δ = 0, AdaSSP with a constant, AdaSSP without)."""
    box, limits = bounds(X), tuple(float(v) for v in bounds(y))
    found = []
    for seed in seeds:
        order = np.random.default_rng([seed, 0]).permutation(len(y))
        test, train = order[: len(y) // 4], order[len(y) // 4 :][:n]
        data = X[train], y[train], box, limits, epsilon
        fits = [ours(*data, DELTA, seed), ours(*data, 0.0, seed)]
        fits += [adassp(*data, seed, constant=constant) for constant in (True, False)]
        found.append([1 - np.mean((y[test] - X[test] @ w - b) ** 2) / y[test].var() for w, b in fits])
    return np.array(found)


def rows() -> list[Line]:
    lines: list[Line] = []
    means, behind = [], 0
    warnings.simplefilter("ignore")
    for name, table, targets in tables():
        for target in targets:
            X, y = table.drop(columns=target).to_numpy(dtype=float), table[target].to_numpy(dtype=float)
            for n in sorted({min(SMALL, len(y) - len(y) // 4), len(y) - len(y) // 4}):
                figures, late = [], 0
                for epsilon in EPSILONS:
                    found = cell(X, y, n, epsilon)
                    mean = found.mean(axis=0)
                    peer = 2 + int(np.argmax(mean[2:]))
                    difference = found[:, 0] - found[:, peer]
                    error = float(difference.std(ddof=1)) / math.sqrt(SEEDS)
                    late += bool(difference.mean() < -3 * error - 0.005)
                    figures.append(f"{epsilon:g}: {mean[0]:.2f} / {mean[1]:.2f} / {mean[peer]:.2f}")
                    means.append(np.maximum([mean[0], mean[1], mean[peer]], -1.0))
                behind += late
                lines.append((f"{name}, {target}, {n:,}×{X.shape[1]}", "; ".join(figures), "not behind", late == 0))
    mean = np.mean(means, axis=0)
    whole = f"{mean[0]:.3f} / {mean[1]:.3f} / {mean[2]:.3f}; behind in {behind} of {len(means)}"
    what = f"ε: held-out R² of ours, ours at δ = 0, AdaSSP (δ = 10⁻⁶); means of {SEEDS} runs. All cells (≥ −1)"
    return [(what, whole, "ours ahead", bool(mean[0] > mean[2])), *lines]


def drawn(seed: int, cells: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, int, float]]:
    """Name, features, target, rows to fit to, and ε."""
    import _tables

    rng, known = np.random.default_rng([seed, 77]), _tables.tables(260, (4, 40))
    for _ in range(cells):
        table = known[rng.integers(len(known))]
        features = int(rng.integers(3, 26))
        columns = rng.permutation(table.X.shape[1])[: features + 1]
        n = min(int(np.exp(rng.uniform(np.log(200), np.log(5000)))), len(table.X) - len(table.X) // 4)
        epsilon = float(rng.choice([0.1, 0.3, 1.0, 3.0]))
        yield table.name, table.X[:, columns[1:]], table.X[:, columns[0]], n, epsilon


def fresh(seed: int, cells: int, runs: int) -> None:
    """Print every drawn cell, and in how many AdaSSP is ahead."""
    warnings.simplefilter("ignore")
    means, behind = [], 0
    for name, X, y, n, epsilon in drawn(seed, cells):
        found = cell(X, y, n, epsilon, lambda v: (v.min(axis=0), v.max(axis=0)), range(1000 * seed, 1000 * seed + runs))
        if not np.isfinite(found).all():  # a target that is constant in held-out rows
            continue
        mean = found.mean(axis=0)
        peer = 2 + int(np.argmax(mean[2:]))
        difference = found[:, 0] - found[:, peer]
        error = float(difference.std(ddof=1)) / math.sqrt(runs)
        late = bool(difference.mean() < -max(0.01, 2 * error))
        behind += late
        means.append(np.maximum([mean[0], mean[1], mean[peer]], -1.0))
        figures = f"{mean[0]:.3f} / {mean[1]:.3f} / {mean[peer]:.3f} ± {error:.3f}"
        print(f"{name} {n}×{X.shape[1]} ε={epsilon:g}: {figures}{' behind' * late}", flush=True)
    whole = " / ".join(f"{value:.3f}" for value in np.mean(means, axis=0))
    print(f"Ours / ours at δ = 0 / AdaSSP: {whole}; behind in {behind} of {len(means)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cells drawn from public tables, beside AdaSSP.")
    for name, default in (("seed", 4), ("cells", 250), ("runs", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    fresh(asked.seed, asked.cells, asked.runs)
