"""The planner's bars: "auto" beside the best method in hindsight, and predictions beside runs, on random settings.

`python benchmarks/planner.py SEED COUNT` prints one line for each setting. Settings: 5–200 columns, 500–200,000 rows,
ε 0.1–8, δ 0 or 10⁻⁶, 1–10 components, spiked, unequal and power-law spectra, normal and t tails, every kind of bound
and centre. Every method sees the same rows. Tables above `LARGEST` entries are left to patient readers.
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Gaussian, Kendall, MatrixLaplace, Method
from dpeigen.planner import Rows
from dpeigen.planner import plan as make_plan

LARGEST = 4_000_000
RIVALS: dict[str, Method | str] = {
    "gaussian": "gaussian",
    "gaussian (tightened)": Gaussian(tighten=True),
    "matrix-laplace": "matrix-laplace",
    "matrix-laplace (tightened)": MatrixLaplace(tighten=True),
    "spatial-sign": "spatial-sign",
    "refined": "refined",
    "kendall": "kendall",
    "geodesic": "geodesic",
    "eigenvector-sampling": "eigenvector-sampling",
}


@dataclass(frozen=True)
class Setting:
    """Public facts, and what the rows are really like."""

    rows: Rows
    n: int
    k: int
    options: dict[str, Any]  # of PrivatePCA, but for bounds that follow the rows
    bound: str
    loose: float
    rotate: bool

    @property
    def d(self) -> int:
        return self.rows.n_features

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        basis = np.linalg.qr(rng.normal(size=(self.d, self.d)))[0] if self.rotate else np.eye(self.d)
        return self.rows.draw(self.n, rng) @ basis.T, basis[:, : self.k].T

    def bound_for(self, X: np.ndarray) -> Any:
        """A public bound as someone might know it: of the longest rows, or of the columns, and a little more."""
        if self.bound == "radius":
            return float(np.quantile(np.linalg.norm(X, axis=1), 0.99) * self.loose)
        if self.bound == "box":
            half = np.quantile(np.abs(X), 0.999, axis=0) * self.loose
            return -half, half
        return None if self.bound == "none" else "private"


def draw_setting(rng: np.random.Generator, largest: int = LARGEST) -> Setting:
    while True:
        d, n = (int(math.exp(rng.uniform(math.log(a), math.log(b)))) for a, b in ((5, 201), (500, 200_001)))
        if n * d <= largest:
            break
    k = int(rng.integers(1, min(10, d - 1) + 1))
    signal, kind = math.exp(rng.uniform(math.log(3), math.log(1000))), rng.choice(["spiked", "unequal", "power"])
    if kind == "power":
        values = np.arange(1.0, d + 1) ** -rng.uniform(0.5, 2)
    else:
        strengths = np.full(k, signal) if kind == "spiked" else signal * np.geomspace(1, max(0.1, 3 / signal), k)
        values = np.append(1 + strengths, np.ones(d - k))
    tails = [None, None, 3.0, 5.0][int(rng.integers(4))]
    options = {
        "epsilon": math.exp(rng.uniform(math.log(0.1), math.log(8))),
        "delta": 1e-6 if rng.random() < 0.7 else 0.0,
        "center": [None, "private", "pairs"][int(rng.integers(3))],
    }
    bound = str(rng.choice(["radius", "box", "private", "none"]))
    return Setting(
        Rows(values, tails), n, k, options, bound, float(rng.choice([1.0, 1.5, 3.0])), bool(rng.random() < 0.7)
    )


def measure(setting: Setting, rng: np.random.Generator, repetitions: int | None = None) -> dict[str, float]:
    """Mean sinΘ of every method that takes the setting, and of "auto"."""
    size = setting.n * setting.d
    repetitions = repetitions or (12 if size < 2e5 else 6 if size < 1e6 else 3)
    errors: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repetitions):
            X, truth = setting.draw(rng)
            bound = setting.bound_for(X)
            for name, method in {**RIVALS, "auto": "auto"}.items():
                if "tightened" in name and setting.bound != "box":
                    continue
                if name == "kendall" and setting.n > 4000:
                    method = Kendall(design=64)  # as "auto" would: all pairs take long and tell no more
                seed = int(rng.integers(2**31))
                estimator = PrivatePCA(setting.k, method=method, bound=bound, random_state=seed, **setting.options)
                try:
                    found = estimator.fit(X).components_
                except ValueError:
                    continue
                errors.setdefault(name, []).append(sin_theta(found, truth))
    return {name: float(np.mean(found)) for name, found in errors.items()}


def predict(setting: Setting, method: str, rng: np.random.Generator) -> float:
    bound = setting.bound_for(setting.draw(rng)[0])
    facts = {**setting.options, "bound": bound, "spectrum": setting.rows}
    return make_plan(setting.n, setting.d, setting.k, methods=[method], **facts)[method].error


def chosen(setting: Setting, rng: np.random.Generator) -> str:
    from dpeigen.methods.auto import explain
    from dpeigen.planner.planning import Problem

    bound = setting.bound_for(setting.draw(rng)[0])
    problem = Problem.of(setting.n, setting.d, setting.k, bound=bound, spectrum=setting.rows, **setting.options)
    return explain(problem.task).method.name


def main(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    regrets, ratios, others = [], [], []
    for number in range(count):
        setting = draw_setting(rng)
        errors = measure(setting, rng)
        auto = errors.pop("auto", None)
        if auto is None or not errors or min(errors.values()) >= 0.9:
            continue
        best, name = min(errors, key=lambda m: errors[m]), chosen(setting, rng)
        regrets.append(auto / errors[best])
        predictions = {
            m: predict(setting, m, rng)
            for m in ("spatial-sign", "refined", "kendall", "gaussian", "matrix-laplace")
            if errors.get(m, 1) < 0.9
        }
        if name in predictions:
            ratios.append(predictions[name] / errors[name])
        others += [predictions[m] / errors[m] for m in predictions]
        s = setting
        print(
            f"{number} d={s.d} n={s.n} k={s.k} ε={s.options['epsilon']:.2f} δ={s.options['delta']:g} {s.options['center']} {s.bound}×{s.loose} "
            f"tails={s.rows.tails} λ1={s.rows.eigenvalues[0]:.0f} λk={s.rows.eigenvalues[s.k - 1]:.2g} best {best} {errors[best]:.3f} auto {name} {regrets[-1]:.2f} "
            f"{ {m: round(e / errors[best], 2) for m, e in sorted(errors.items(), key=lambda t: t[1])[1:4]} } predicted {ratios[-1] if name in predictions else math.nan:.2f} { {m: round(predictions[m] / errors[m], 2) for m in predictions} }",
            flush=True,
        )
    print(
        f"{len(regrets)} settings: auto {np.mean(regrets):.3f} on average, {max(regrets):.2f} at most; over 1.5: {sum(r > 1.5 for r in regrets)}; "
        f"predictions within 20%: {np.mean(np.abs(np.log(ratios)) < math.log(1.2)):.2f} of auto, {np.mean(np.abs(np.log(others)) < math.log(1.2)):.2f} of all",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
