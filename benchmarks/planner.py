"""The planner's bars, on random settings of elliptical rows.

With ``robust=True`` "auto" is judged beside the best sign method in hindsight; the default, which estimates the
covariance, beside ``robust=True`` (on normal rows both look for the same directions); and predictions beside runs.

`python benchmarks/planner.py SEED COUNT [LARGEST]` prints one line for each setting. With `--default` before them, only
the default beside ``robust=True`` on normal rows, which takes minutes where all of it takes hours. With `--robust`,
only ``robust=True`` beside what "auto" would choose among methods of signs that do not cut off outliers.

Settings: 5–200 columns, 500–200,000 rows, ε 0.1–8, δ 0 or 10⁻⁶, 1–10 components, spiked, unequal and power-law spectra,
normal and t tails, every kind of bound and centre. Every method sees the same rows. Tables above `LARGEST` entries are
left to patient readers.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Gaussian, Kendall, MatrixLaplace, Method, auto
from dpeigen.planner import OutOfReachError, Rows, needed_epsilon, needed_rows
from dpeigen.planner import plan as make_plan

LARGEST = 4_000_000
T = TypeVar("T")
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
SIGNS = ("spatial-sign", "refined", "kendall")
SLOW = ("eigenvector-sampling",)  # with many columns; it is never the best where anything is good


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


def runs(
    setting: Setting, rng: np.random.Generator, repetitions: int, methods: Mapping[str, Method | str]
) -> dict[str, list[float]]:
    """sinΘ of each method in so many runs; those that refuse are left out."""
    errors: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repetitions):
            X, truth = setting.draw(rng)
            bound, seed = setting.bound_for(X), int(rng.integers(2**31))  # the same for all: runs are paired
            for name, method in methods.items():
                if ("tightened" in name and setting.bound != "box") or (name in SLOW and setting.d > 40):
                    continue
                if name == "kendall" and setting.n > 4000:
                    method = Kendall(design=64)  # as "auto" would: all pairs take long and tell no more
                estimator = PrivatePCA(
                    setting.k,
                    method=method,
                    robust=name == "robust",
                    bound=bound,
                    random_state=seed,
                    **setting.options,
                )
                try:
                    found = estimator.fit(X).components_
                except ValueError:
                    continue
                errors.setdefault(name, []).append(sin_theta(found, truth))
    return errors


def measure(setting: Setting, rng: np.random.Generator) -> dict[str, float]:
    """Mean sinΘ of every method that takes the setting, and of "auto"."""
    size = setting.n * setting.d
    repetitions = 40 if size < 1e5 else 24 if size < 4e5 else 12 if size < 1e6 else 8
    found = runs(setting, rng, repetitions, {**RIVALS, "auto": "auto", "robust": "auto"})
    return {name: float(np.mean(errors)) for name, errors in found.items()}


@dataclass(frozen=True)
class Outcome:
    """One setting: errors of all methods and of "auto", what that chose, and predictions of them."""

    setting: Setting
    errors: dict[str, float]
    chosen: str
    predicted: dict[str, float]

    @property
    def best(self) -> str:
        return min((name for name in SIGNS if name in self.errors), key=lambda name: self.errors[name], default="")

    @property
    def counts(self) -> bool:
        """Whether the best sign method in hindsight has an error below 0.9."""
        return bool(self.best) and self.errors[self.best] < 0.9

    @property
    def regret(self) -> float:
        return self.errors["robust"] / self.errors[self.best] if "robust" in self.errors else math.inf

    @property
    def traded(self) -> float:
        """What the default loses against signs of rows; on normal rows both look for the same directions."""
        return self.errors["auto"] / self.errors["robust"] if {"auto", "robust"} <= set(self.errors) else math.inf

    def ratios(self, *names: str) -> list[float]:
        return [self.predicted[n] / self.errors[n] for n in names or self.predicted if n in self.predicted]

    def __str__(self) -> str:
        s, o = self.setting, self.setting.options
        near = {n: round(e / self.errors[self.best], 2) for n, e in sorted(self.errors.items(), key=lambda t: t[1])[:5]}
        return (
            f"d={s.d} n={s.n} k={s.k} ε={o['epsilon']:.2f} δ={o['delta']:g} center={o['center']} "
            f"bound={s.bound}×{s.loose} "
            f"tails={s.rows.tails} λ={s.rows.eigenvalues[0]:.3g}…{s.rows.eigenvalues[s.k - 1]:.3g}: best {self.best} "
            f"{self.errors[self.best]:.3g}, robust {self.regret:.2f}×, "
            f"default ({self.chosen}) {self.traded:.2f}× robust; {near}; "
            f"predicted/run { {n: round(self.predicted[n] / self.errors[n], 2) for n in self.predicted} }"
        )


def run(setting: Setting, rng: np.random.Generator) -> Outcome:
    errors = measure(setting, rng)
    bound = setting.bound_for(setting.draw(rng)[0])
    facts = {**setting.options, "bound": bound, "spectrum": setting.rows}
    if min(errors.values(), default=1.0) >= 0.9 or not any(name in errors for name in SIGNS):
        return Outcome(setting, errors, "none", {})
    plan = make_plan(setting.n, setting.d, setting.k, **facts)
    predicted = {p.method: p.error for p in plan.predictions if errors.get(p.method, 1.0) < 0.9}
    if plan.chosen is not None and errors.get("auto", 1.0) < 0.9:
        predicted["auto"] = plan.chosen.error
    return Outcome(setting, errors, plan.choice.to_dict()["chosen"], predicted)


def outcomes(seed: int, count: int, largest: int = LARGEST) -> Iterator[Outcome]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        found = run(draw_setting(rng, largest), rng)
        if found.counts:
            yield found


def inverse(seed: int, count: int, *, rows: bool = False) -> tuple[int, int]:
    """Runs of "auto" at the ε (or the rows) that the inverse call gives: (those that reach the target, all)."""
    rng, reached, tried = np.random.default_rng(seed), 0, 0
    while count:
        s = draw_setting(rng, 60_000 if rows else 400_000)
        facts = dict(s.options)
        X, _ = s.draw(rng)
        facts |= {"bound": s.bound_for(X), "spectrum": s.rows}
        target = float(rng.choice([0.1, 0.2, 0.4]))
        try:
            if rows:
                found = replace(s, n=needed_rows(target, s.d, s.k, **facts))
            else:
                del facts["epsilon"]
                epsilon = needed_epsilon(target, s.n, s.d, s.k, **facts)
                found = replace(s, options={**s.options, "epsilon": epsilon})
        except OutOfReachError:
            continue
        if found.n * found.d > LARGEST:
            continue
        errors = runs(found, rng, 5, {"auto": "auto"})["auto"]
        reached, tried = reached + sum(error <= target for error in errors), tried + len(errors)
        count -= 1
    return reached, tried


def beside_signs(seed: int, count: int, largest: int) -> Iterator[tuple[Setting, float, float]]:
    """(setting, error of the default, of ``robust=True``) on normal rows, where the latter is below 0.9; in fewer runs.

    The draws of a setting do not depend on those of others.
    """
    rng = np.random.default_rng(seed)
    for number in range(count):
        setting = draw_setting(rng, largest)
        if setting.rows.tails is None:
            repetitions = 16 if setting.n * setting.d < 4e5 else 8
            methods = {"auto": "auto", "robust": "auto"}
            found = runs(setting, np.random.default_rng([seed, number]), repetitions, methods)
            ours, theirs = (float(np.mean(found.get(name, [1.0]))) for name in methods)
            if theirs < 0.9:
                yield setting, ours, theirs


def print_beside_signs(seed: int, count: int, largest: int = LARGEST) -> None:
    ratios = []
    for setting, ours, theirs in beside_signs(seed, count, largest):
        ratios.append(ours / theirs)
        print(f"{ratios[-1]:.2f}× ({ours:.3f} over {theirs:.3f}): d={setting.d} n={setting.n} k={setting.k} "
              f"{setting.options} {setting.bound}", flush=True)  # fmt: skip
    above = sum(ratio > 2 for ratio in ratios)
    print(f"{len(ratios)} settings: {np.mean(ratios):.2f}× on average, {max(ratios):.2f}× at most, {above} above 2×")


def without_cutoff(fit: Callable[[], T]) -> T:
    """The result of a fit for which "auto" chooses among methods that do not cut off outliers."""
    found = auto._for_directions
    auto._for_directions = lambda task, k, robust=False: found(task, k)  # noqa: ARG005
    try:
        return fit()
    finally:
        auto._for_directions = found


def components(k: int, X: np.ndarray, **facts: Any) -> np.ndarray:
    return PrivatePCA(k, robust=True, **facts).fit(X).components_


def beside_plain_signs(seed: int, count: int, largest: int) -> Iterator[tuple[Setting, float, float]]:
    """(setting, error of ``robust=True``, of the choice without a cutoff), if the latter is below 0.9."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        setting = draw_setting(rng, largest)
        size, draws = setting.n * setting.d, np.random.default_rng([seed, number])
        errors = []
        for _ in range(24 if size < 1e5 else 12 if size < 4e5 else 8):
            X, truth = setting.draw(draws)
            facts = {**setting.options, "bound": setting.bound_for(X), "random_state": int(draws.integers(2**31))}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked = partial(components, setting.k, X, **facts)
                errors.append([sin_theta(found, truth) for found in (asked(), without_cutoff(asked))])
        ours, theirs = np.mean(errors, axis=0)
        if theirs < 0.9:
            yield setting, float(ours), float(theirs)


def print_beside_plain_signs(seed: int, count: int, largest: int = LARGEST) -> None:
    ratios: dict[str, list[float]] = {}
    for setting, ours, theirs in beside_plain_signs(seed, count, largest):
        kinds = "heavy tails" if setting.rows.tails else "normal rows", "δ > 0" if setting.options["delta"] else "δ = 0"
        for kind in ("all", *kinds):
            ratios.setdefault(kind, []).append(ours / theirs)
        print(f"{ours / theirs:.2f}× ({ours:.4f} over {theirs:.4f}): d={setting.d} n={setting.n} k={setting.k} "
              f"{setting.options} {setting.bound} tails={setting.rows.tails}", flush=True)  # fmt: skip
    for kind, found in sorted(ratios.items()):
        print(f"{kind}, {len(found)} settings: {np.mean(found):.3f}× on average, {max(found):.2f}× at most")


def within(ratios: list[float]) -> float:
    return float(np.mean(np.abs(np.log(ratios)) <= math.log(1.2)))


def summary(found: list[Outcome]) -> str:
    regrets, traded = [o.regret for o in found], traded_by(found)
    chosen = [ratio for o in found for ratio in o.ratios("auto")]
    every = [ratio for o in found for ratio in o.ratios()]
    return (
        f"{len(found)} settings: robust {np.mean(regrets):.3f}× the best on average, {max(regrets):.2f}× at most; "
        f"default beside robust on normal rows {np.mean(traded):.3f}× on average, {max(traded):.2f}× at most; "
        f"predictions within 20%: {within(chosen):.0%} of the choice, {within(every):.0%} of all"
    )


def traded_by(found: list[Outcome]) -> list[float]:
    return [o.traded for o in found if o.setting.rows.tails is None]


def timed_plan() -> float:
    """Seconds of the command in a fresh process, imports included."""
    facts = "--rows 20000 --columns 50 --components 3 --epsilon 1 --delta 1e-6 --bound private"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "dpeigen", "plan", *facts.split()], capture_output=True, check=True)
    return time.perf_counter() - start


def rows() -> list[tuple[str, str, str, bool | None]]:
    """(what, figure, bar, met)."""
    found = list(outcomes(2026, 60))
    regrets, traded = [o.regret for o in found], traded_by(found)
    accurate = within([ratio for o in found for ratio in o.ratios("auto")])
    reached, tried = inverse(2026, 12)
    seconds = timed_plan()
    what = f"{len(found)} of 60 random settings with a best error below 0.9"
    mean, lost = float(np.mean(regrets)), float(np.mean(traded))
    reach = f"{reached} of {tried}"
    return [
        (f"robust=True beside the best sign method, {what}", f"{mean:.3f}× on average", "≤ 1.10×", mean <= 1.1),
        ("the same, at most", f"{max(regrets):.2f}×", "≤ 1.5×", max(regrets) <= 1.5),
        (
            f"the default beside robust=True, {len(traded)} with normal rows",
            f"{lost:.2f}× on average",
            "≤ 1.3×",
            lost <= 1.3,
        ),
        ("the same, at most", f"{max(traded):.2f}×", "≤ 2×", max(traded) <= 2),
        ('predictions within 20% of runs, of what "auto" chose', f"{accurate:.0%}", "≥ 90%", accurate >= 0.9),
        ("runs at the ε of `needed_epsilon` that reach the target", reach, "≥ 90%", reached >= 0.9 * tried),
        ("`dpeigen plan`, 20,000 × 50", f"{seconds:.1f} s", "≤ 5 s", seconds <= 5),
    ]


def main(seed: int, count: int, largest: int = LARGEST) -> None:
    found = []
    for outcome in outcomes(seed, count, largest):
        print(outcome, flush=True)
        found.append(outcome)
    print(summary(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--default"]:
        print_beside_signs(*map(int, sys.argv[2:]))
    elif sys.argv[1:2] == ["--robust"]:
        print_beside_plain_signs(*map(int, sys.argv[2:]))
    else:
        main(*map(int, sys.argv[1:]))
