"""Figure 1 of Amin et al. 2019, regressions on wine, airfoil and one-hot adult, and errors against rows and columns.

The data are public: they are scaled by their own maxima, and the noise is seeded, so nothing printed here is private.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from dpeigen import PrivateCovariance
from dpeigen.datasets import load_adult, load_airfoil, load_wine
from dpeigen.evaluation import relative_frobenius
from dpeigen.methods import EigenvectorSampling, Gaussian, KapralovTalwar, Laplace
from dpeigen.privacy import NotPrivateWarning

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share

import amin_claims  # noqa: E402
import amin_figures  # noqa: E402
import amin_regression  # noqa: E402
from recorded import command, compared, verdict, write_expected  # noqa: E402

Floats = NDArray[np.float64]
Cell = tuple[str, str, float]  # data, method, ε

SETS = {"wine": load_wine, "airfoil": load_airfoil, "adult": load_adult}
EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
QUICK_EPSILONS = (0.1, 1.0, 4.0)
REPETITIONS = {"wine": 50, "airfoil": 50, "adult": 50}
QUICK = {"wine": 10, "airfoil": 10, "adult": 2}
NOT_QUICK = ("kapralov-talwar", "gaussian-16", "G-16")
RECORDED = {"wine": 200, "airfoil": 200, "adult": 50}
RIDGE_RECORDED = {"wine": 50, "airfoil": 200, "adult": 50}  # AD has heavy tails on airfoil
SWEPT = 50  # runs of each point of the two sweeps
SWEEP_METHODS = ("AD", "IT-U", "KT", "L", "G-10", "eigenvector-sampling", "matrix-laplace")
ROWS = (300, 1000, 3000, 10_000, 30_000, 100_000)  # of 10 columns
DIMENSIONS = (5, 10, 20, 40)  # of 10,000 rows
QUICK_ROWS, QUICK_DIMENSIONS, QUICK_SWEPT = (1000, 10_000), (5, 20), 8
OTHER_SCALINGS = {"wine": 20, "airfoil": 20, "adult": 5}
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


class Curve(NamedTuple):
    """One line of a figure."""

    method: Any
    delta: float = 0.0


def _curves() -> dict[str, Curve]:
    printed = {"constants": "published", "reconstruction": "printed"}  # and its rounding of eigenvalues to [0, n]
    curves = {
        "AD": Curve(EigenvectorSampling(split="adaptive", **printed)),
        "IT-U": Curve(EigenvectorSampling(split="uniform", **printed)),
        "KT": Curve(KapralovTalwar(**printed)),
        "L": Curve(Laplace(**printed)),
        "eigenvector-sampling": Curve("eigenvector-sampling"),
        "kapralov-talwar": Curve("kapralov-talwar"),
        "laplace": Curve("laplace"),
        "matrix-laplace": Curve("matrix-laplace"),
    }
    for power in (16, 10, 3):
        curves[f"G-{power}"] = Curve(Gaussian(**printed), 10.0**-power)
        curves[f"gaussian-{power}"] = Curve("gaussian", 10.0**-power)
    return curves


METHODS = _curves()


def scaled(X: Floats) -> Floats:
    """Columns divided by their largest absolute value, then all rows by the largest row norm."""
    columns = X / np.abs(X).max(axis=0)
    return columns / np.linalg.norm(columns, axis=1).max()


def by_rows(X: Floats) -> Floats:
    """All rows divided by the largest row norm: the column of the largest numbers is nearly all there is."""
    return X / np.linalg.norm(X, axis=1).max()


def to_unit(X: Floats) -> Floats:
    """Columns divided by their largest absolute value, then every row by its own norm."""
    columns = X / np.abs(X).max(axis=0)
    return columns / np.linalg.norm(columns, axis=1, keepdims=True)


def standardised(X: Floats) -> Floats:
    """Columns centred and divided by their deviation, then all rows by the largest row norm."""
    return by_rows((X - X.mean(axis=0)) / X.std(axis=0))


SCALINGS: dict[str, Callable[[Floats], Floats]] = {"rows": by_rows, "unit": to_unit, "standard": standardised}
SCALING_METHODS = ("AD", "L", "G-16", "G-3", "matrix-laplace")


def synthetic(n: int, d: int) -> Floats:
    """Rows of the sweeps, whose settings the paper does not print: Gaussian, variances 1/j, over twice their typical
    length; the few that are longer than 1 then are shortened to 1."""
    variances = 1 / np.arange(1, d + 1)
    rows = np.random.default_rng([n, d]).normal(size=(n, d)) * np.sqrt(variances / (4 * variances.sum()))
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def errors(X: Floats, method: str, epsilon: float, seeds: range) -> Floats:
    """‖Ĉ − C‖_F / ‖C‖_F of independent seeded releases; C = XᵀX/n, without centring."""
    curve, truth, found = METHODS[method], X.T @ X / len(X), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on public data
        for seed in seeds:
            fit = PrivateCovariance(
                epsilon=epsilon, delta=curve.delta, method=curve.method, bound=1.0, center=None, random_state=seed
            ).fit(X)
            found.append(relative_frobenius(fit.covariance_, truth))
    return np.array(found)


def sweeps(quick: bool, count: int, first_seed: int = 0) -> dict[Cell, Floats]:
    """ε = 1 on synthetic rows: errors against their number, and against the number of columns."""
    shapes = [("rows", n, n, 10) for n in (QUICK_ROWS if quick else ROWS)]
    shapes += [("dimension", d, 10_000, d) for d in (QUICK_DIMENSIONS if quick else DIMENSIONS)]
    found = {}
    for name, x, n, d in shapes:
        X = synthetic(n, d)
        for method in SWEEP_METHODS:
            found[name, method, float(x)] = errors(X, method, 1.0, range(first_seed, first_seed + count))
    return found


def cells(quick: bool, counts: dict[str, int], first_seed: int = 0) -> dict[Cell, Floats]:
    """The errors of every cell. Quick: in this process, three values of ε, one scaling; else in two processes."""
    wanted: list[tuple[Cell, Floats, int]] = []
    epsilons = QUICK_EPSILONS if quick else EPSILONS
    regressions: list[tuple[str, Floats]] = []
    for name, load in SETS.items():
        data = load().X
        X, count = scaled(data), counts[name]
        wanted += [((name, m, e), X, count) for m in METHODS if not (quick and m in NOT_QUICK) for e in epsilons]
        if not quick:
            for scaling, scale in SCALINGS.items():
                Y, few = scale(data), OTHER_SCALINGS[name]
                wanted += [((f"{name}@{scaling}", m, e), Y, few) for m in SCALING_METHODS for e in epsilons]
        if name in amin_regression.TARGETS and not (quick and name == "adult"):
            regressions.append((name, data))
    with parallel_config(backend="loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=1 if quick else 2, batch_size=1)(
            delayed(errors)(X, m, e, range(first_seed, first_seed + count)) for (_, m, e), X, count in wanted
        )
    results = {cell: values for (cell, _, _), values in zip(wanted, found, strict=True)}
    for name, data in regressions:
        count = RIDGE_RECORDED[name] if first_seed == RECORDED_FROM else 20
        results |= amin_regression.cells(name, data, epsilons, range(first_seed, first_seed + count))
    if set(SETS) > {"adult"}:
        results |= sweeps(quick, QUICK_SWEPT if quick else SWEPT, first_seed)
    return results


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    found = cells(quick, QUICK if quick else REPETITIONS)
    results = compared(HERE, {key_of(cell): values for cell, values in found.items()}, out)
    amin_figures.draw(found, list(SETS), out)
    if not quick:
        text = amin_claims.text(found)
        (out / "claims.txt").write_text(text + "\n", encoding="utf-8")
        print("\n" + text)
    return verdict(results, out)


def key_of(cell: Cell) -> str:
    return f"{cell[0]}/{cell[1]}/{cell[2]:g}"


ABOUT = (
    "Mean and standard deviation of the normalised Frobenius error (NAME-ridge: of the test error of a ridge "
    "regression, 1 for predicting the mean); keys are data[@scaling]/method/epsilon, rows/method/n, dimension/method/d."
)


def record(*parts: str) -> None:
    """Write ``expected.json`` anew, or NAME-ridge of it: only after a change that is meant to change the numbers."""
    known = {f"{name}-ridge": name for name in amin_regression.TARGETS}
    if unknown := set(parts) - set(known):
        sys.exit(f"There are the parts {', '.join(known)}; not {', '.join(sorted(unknown))}.")
    found = {} if parts else cells(False, RECORDED, RECORDED_FROM)
    for name in (known[part] for part in parts):
        seeds = range(RECORDED_FROM, RECORDED_FROM + RIDGE_RECORDED[name])
        found |= amin_regression.cells(name, SETS[name]().X, EPSILONS, seeds)
    only = [f"{part}/*" for part in parts]
    write_expected(HERE, ABOUT, {key_of(cell): values for cell, values in found.items()}, only=only)
    sys.exit(0)  # comparing is a run of its own


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
