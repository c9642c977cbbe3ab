"""Figure 1 of Amin et al. 2019 and a comparison of regressions, on wine, airfoil and one-hot adult.

The data are public: they are scaled by their own maxima, and the noise is seeded, so nothing printed here is private.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

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
from recorded import allowed, command, expected_entries, summary, write_expected  # noqa: E402

Floats = NDArray[np.float64]
Cell = tuple[str, str, float]  # data, method, ε

SETS = {"wine": load_wine, "airfoil": load_airfoil, "adult": load_adult}
EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
QUICK_EPSILONS = (0.1, 1.0, 4.0)
REPETITIONS = {"wine": 50, "airfoil": 50, "adult": 20}
QUICK = {"wine": 10, "airfoil": 10, "adult": 2}
NOT_QUICK = ("kapralov-talwar", "gaussian-16", "G-16")
RECORDED = {"wine": 200, "airfoil": 200, "adult": 25}
RIDGE_RECORDED = {"airfoil": 200, "adult": 20}  # AD has heavy tails on airfoil
OTHER_SCALINGS = {"wine": 20, "airfoil": 20, "adult": 5}
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses


class Curve(NamedTuple):
    """One line of a figure."""

    method: Any
    delta: float = 0.0
    printed: bool = False  # with the paper's rounding of eigenvalues, and nothing else, after it


def _curves() -> dict[str, Curve]:
    printed = {"constants": "published", "reconstruction": "printed"}
    curves = {
        "AD": Curve(EigenvectorSampling(split="adaptive", **printed), printed=True),
        "IT-U": Curve(EigenvectorSampling(split="uniform", **printed), printed=True),
        "KT": Curve(KapralovTalwar("published"), printed=True),
        "L": Curve(Laplace(constants="published"), printed=True),
        "eigenvector-sampling": Curve("eigenvector-sampling"),
        "kapralov-talwar": Curve("kapralov-talwar"),
        "laplace": Curve("laplace"),
        "matrix-laplace": Curve("matrix-laplace"),
    }
    for power in (16, 10, 3):
        curves[f"G-{power}"] = Curve(Gaussian(constants="published"), 10.0**-power, printed=True)
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


@contextmanager
def printed_rounding() -> Iterator[None]:
    """The paper's post-processing, each eigenvalue rounded to [0, n], in place of dpeigen's projection."""

    def clip(values: Floats, trace: float) -> Floats:
        return np.clip(values, 0.0, trace)

    with (
        patch("dpeigen.methods.moment.base.project_eigenvalues", clip),
        patch("dpeigen.methods.sampling.kapralov_talwar.project_eigenvalues", clip),
    ):
        yield


def errors(X: Floats, method: str, epsilon: float, seeds: range) -> Floats:
    """‖Ĉ − C‖_F / ‖C‖_F of independent seeded releases; C = XᵀX/n, without centring."""
    curve, truth, found = METHODS[method], X.T @ X / len(X), []
    rounding = printed_rounding() if curve.printed else nullcontext()
    with warnings.catch_warnings(), rounding:
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on public data
        for seed in seeds:
            fit = PrivateCovariance(
                epsilon=epsilon,
                delta=curve.delta,
                method=curve.method,
                bound=1.0,
                center=None,
                shrink=not curve.printed,
                random_state=seed,
            ).fit(X)
            found.append(relative_frobenius(fit.covariance_, truth))
    return np.array(found)


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
    return results


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    expected = expected_entries(HERE)
    found = cells(quick, QUICK if quick else REPETITIONS)
    results = {}
    print(f"{'data':<18}{'method':<26}{'ε':>5}{'error':>10}{'expected':>10}{'± allowed':>11}")
    for (name, method, epsilon), values in found.items():
        key, mean = f"{name}/{method}/{epsilon:g}", float(values.mean())
        record = expected[key]
        margin = allowed(record, len(values))
        good = abs(mean - record["mean"]) <= margin
        results[key] = summary(values) | {"agrees": good}
        numbers = f"{epsilon:>5g}{mean:>10.4g}{record['mean']:>10.4g}{margin:>11.2g}"
        print(f"{name:<18}{method:<26}{numbers}" + ("" if good else "   differs"))
    agrees = all(entry["agrees"] for entry in results.values())
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    amin_figures.draw(found, list(SETS), out)
    if not quick:
        text = amin_claims.text(found)
        (out / "claims.txt").write_text(text + "\n", encoding="utf-8")
        print("\n" + text)
    print("All entries agree." if agrees else "Some entries differ from expected.json.", f"Written to {out}.")
    return agrees


def record() -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    found = cells(False, RECORDED, RECORDED_FROM)
    about = "Mean and standard deviation of the normalised Frobenius error (NAME-ridge: of the test error of a ridge "
    about += "regression, 1 for predicting the mean); keys are data[@scaling]/method/epsilon."
    write_expected(HERE, about, {f"{n}/{m}/{e:g}": values for (n, m, e), values in found.items()})


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
