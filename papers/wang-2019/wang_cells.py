"""The cells of the reproduction: what is measured, on which data, with which noise."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from wang_model import DELTA, gaussian_rows, leading, noisy_average, printed_sigma, subspace, true_epsilon

from dpeigen.datasets import load_colon, load_covertype, load_isolet, load_leukemia
from dpeigen.evaluation import projection_distance
from dpeigen.local import LocalParameters
from dpeigen.local.sparse import default_penalty
from dpeigen.stats import fantope_admm
from dpeigen.stats.screening import kept_columns

Floats = NDArray[np.float64]
CURVES = ("printed", "corrected", "pure")
STRONG = 200.0  # λ of the data on which the printed noise can be seen through
TABLES = {"isolet5": load_isolet, "colon": load_colon, "leukemia": load_leukemia}
REAL = {**TABLES, "covertype": load_covertype}


@dataclass(frozen=True)
class Cell:
    """One point of a figure or table. ``printed``: the data as printed, else the strong ones."""

    figure: str
    n: int
    p: int
    k: int
    epsilon: float
    s: int | None = None
    printed: bool = False

    @property
    def key(self) -> str:
        sparsity = "" if self.s is None else f"/s={self.s}"
        return f"{self.figure}/n={self.n}/p={self.p}/k={self.k}{sparsity}/eps={self.epsilon:g}"


DIMENSIONS = (5, 10, 15, 20)  # k of Figure 1


def figure_cells(quick: bool) -> list[Cell]:
    """Figure 1 (all columns) and Figure 2 (sparse): error over n, p, k or s, and ε. Printed settings come first."""
    one = "figure-1-printed-data"
    cells = [Cell(one, n, 40, k, 0.5, printed=True) for k in DIMENSIONS for n in (10_000, 100_000)]
    cells += [Cell(one, 100_000, p, 5, 0.5, printed=True) for p in (20, 80)]
    cells += [Cell(one, 100_000, 40, 5, e, printed=True) for e in (1.0, 2.0, 4.0)]
    cells += [Cell("figure-1", n, 40, k, 2.0) for k in DIMENSIONS for n in (10_000, 30_000, 100_000)]
    cells += [Cell("figure-1", 30_000, p, 5, 2.0) for p in (20, 80)]
    cells += [Cell("figure-1", 30_000, 40, 5, e) for e in (0.5, 1.0, 4.0)]
    if quick:
        few = [c for c in cells if c.n <= 30_000 and c.p <= 40 and c.k <= 10]
        return [*few, Cell("figure-2", 8000, 100, 10, 4.0, 20), Cell("figure-2", 8000, 100, 10, 8.0, 20)]
    two = "figure-2-printed-data"
    cells += [Cell(two, 2000, 400, 10, 2.0, s, True) for s in (15, 20, 40, 80)]
    cells += [Cell(two, 2000, p, 10, 2.0, 20, True) for p in (100, 200)]
    cells += [Cell(two, 2000, 400, 10, 4.0, 20, True)]
    cells += [Cell("figure-2", 8000, p, 10, 4.0, 20) for p in (100, 200)]
    cells += [Cell("figure-2", 8000, 100, 10, 8.0, 20)]
    cells += [Cell("figure-2", n, 400, 10, 4.0, 20) for n in (2000, 8000, 32_000)]
    cells += [Cell("figure-2", 8000, 400, 10, e, 20) for e in (2.0, 8.0)]
    cells += [Cell("figure-2", 8000, 400, 10, 4.0, s) for s in (15, 40, 80)]
    return cells + [Cell("figure-2", 8000, 400, k, 4.0, 40) for k in (5, 15, 20)]


def covertype_cells(quick: bool) -> list[tuple[int, float]]:
    """(k, ε) for Algorithm 1 on Covertype: k of Figure 1 and the first component."""
    if quick:
        return []
    return [(1, e) for e in (0.5, 1.0, 2.0, 4.0)] + [(k, e) for k in DIMENSIONS for e in (1.0, 4.0)]


PURE_RUNS = 4  # of Covertype with pure reports, which read all rows again: their spread is below 10%


def covertype_errors(k: int, epsilon: float, X: Floats, seeds: range) -> dict[str, Floats]:
    """‖V̂V̂ᵀ − VVᵀ‖_F against the leading space of the exact average; rows of norm 1."""
    exact = X.T @ X / len(X)
    truth = leading(exact, k)
    found: dict[str, list[float]] = {curve: [] for curve in CURVES}
    for seed in seeds:
        rng = generator(f"covertype/{k}/{epsilon:g}", seed)
        for curve in CURVES if seed - seeds[0] < PURE_RUNS else CURVES[:2]:
            given = epsilon if curve == "printed" else true_epsilon(epsilon)
            found[curve].append(
                projection_distance(leading(noisy_average(X, curve, given, rng, exact=exact), k), truth)
            )
    return {curve: np.array(values) for curve, values in found.items()}


def generator(cell_key: str, seed: int) -> np.random.Generator:
    """A generator of its own for each cell and repetition."""
    return np.random.default_rng([seed, zlib.crc32(cell_key.encode())])


def figure_errors(cell: Cell, seeds: range) -> dict[str, Floats]:
    """‖V̂V̂ᵀ − VVᵀ‖_F for each curve; all but the printed one are given the ε that the printed noise really costs."""
    found: dict[str, list[float]] = {curve: [] for curve in CURVES}
    for seed in seeds:
        rng = generator(cell.key, seed)
        V = subspace(cell.p, cell.k, rng, cell.s)
        X = gaussian_rows(cell.n, V, rng, 1.0 if cell.printed else STRONG)
        if not cell.printed:
            X = X / np.linalg.norm(X, axis=1, keepdims=True)  # as the paper does with real data
        for curve in CURVES:
            epsilon = cell.epsilon if curve == "printed" else true_epsilon(cell.epsilon)
            S = noisy_average(X, curve, epsilon, rng)
            if cell.s is None:
                estimate = leading(S, cell.k)
            else:
                estimate = fantope_admm(S, cell.k, penalty(curve, cell, epsilon), tolerance=5e-3).components
            found[curve].append(projection_distance(estimate, V))
    return {curve: np.array(values) for curve, values in found.items()}


def penalty(curve: str, cell: Cell, epsilon: float) -> float:
    """The default of `sparse_pca`, for the noise of each curve."""
    if curve == "printed":
        noise = printed_sigma(epsilon)
    else:
        delta = DELTA if curve == "corrected" else 0.0
        noise = LocalParameters(cell.p, epsilon, delta).noise / math.sqrt(2)
    return default_penalty(cell.p, noise / math.sqrt(cell.n))


# --- tables --------------------------------------------------------------------------------------------------------


def table_cells(quick: bool) -> list[tuple[str, int, float]]:
    """(data, s, ε): Table 1 at ε = 2, Table 2 at s = 20 (not leukemia: 50 million noisy entries for each)."""
    if quick:
        return [("isolet5", 10, 2.0)]
    names = list(TABLES)
    first = [(name, s, 2.0) for name in names for s in (10, 20, 40)]
    return first + [(name, 20, e) for name in names if name != "leukemia" for e in (1.0, 4.0)]


def unit_rows(name: str) -> Floats:
    """Rows of norm 1, as the paper does on real data."""
    X = np.asarray(REAL[name]().X, dtype=np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


STEP, HALVINGS = 0.985, 2  # of the search: down by this factor until it ends, then halving the last step
MOST = 8  # times s linked columns, after screening, with which a penalty is still tried


def with_support(S: Floats, k: int, s: int) -> Floats:
    """The sparse components of the smallest penalty that leaves at most s columns, found from above.

    From the largest entry on, where nothing is linked, the penalty goes down until more than s columns are left (or
    screening leaves more than 8s linked ones); the last step is then halved. Columns without an entry above the penalty
    matter through their variance only, so the k + 1 largest of those are enough (`stats.screening`).
    """
    links, order = largest_links(S), np.argsort(-np.diag(S), kind="stable")
    penalty, factor, halving = float(links.max()), STEP, False
    best = order[:k], np.eye(k)  # nothing is linked
    while factor < STEP ** (0.5**HALVINGS) and penalty > 1e-3 * links.max():
        lower = penalty * factor
        linked = np.flatnonzero(links > lower)
        columns = np.union1d(linked, order[~np.isin(order, linked, kind="table")][: k + 1])
        block = np.asarray(S[np.ix_(columns, columns)], dtype=np.float64)
        joined, single = kept_columns(block, k, lower)
        kept = np.union1d(joined, single)
        found = None
        if len(joined) <= MOST * s:
            found = fantope_admm(block[np.ix_(kept, kept)], k, lower, tolerance=3e-3, max_iterations=300)
        if found is not None and len(found.support) <= s:
            penalty, best = lower, (columns[kept], found.components)
        else:
            halving = True
        if halving:
            factor = math.sqrt(factor)
    components = np.zeros((k, len(S)))
    components[:, best[0]] = best[1]
    return components


def largest_links(S: Floats) -> Floats:
    """The largest off-diagonal entry of each column: how many exceed a penalty bounds the work it takes."""
    found = np.empty(len(S))
    for j, row in enumerate(S):
        found[j] = max(np.abs(row[:j]).max(initial=0.0), np.abs(row[j + 1 :]).max(initial=0.0))
    return found


def table_errors(name: str, s: int, epsilon: float, X: Floats, seeds: range) -> dict[str, Floats]:
    """Distance of the private from the non-private sparse subspace, k = 10."""
    k = 10
    exact = X.T @ X / len(X)
    truth = with_support(exact, k, s)
    found: dict[str, list[float]] = {curve: [] for curve in CURVES}
    for seed in seeds:
        rng = generator(f"{name}/{s}/{epsilon:g}", seed)
        for curve in CURVES:
            S = noisy_average(X, curve, epsilon if curve == "printed" else true_epsilon(epsilon), rng, exact=exact)
            found[curve].append(distance(with_support(S, k, s), truth))
    return {curve: np.array(values) for curve, values in found.items()}


def distance(first: Floats, second: Floats) -> float:
    """‖P₁ − P₂‖_F = √(2k − 2‖V₁V₂ᵀ‖²) without forming p × p projectors."""
    return math.sqrt(max(0.0, 2 * len(first) - 2 * float(np.sum((first @ second.T) ** 2))))
