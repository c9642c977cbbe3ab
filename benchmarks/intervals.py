"""Do 95% intervals hold the truth in 95% of the releases? Random settings, elliptical rows and others.

    python benchmarks/intervals.py [--quick] [--seed 0 1 2] [--settings 40] [--repeats 30] [--of table] [--regression]

Each setting has its own n (500 to 50,000), d (3 to 30), ε (0.3 to 8), spectrum, law of the rows and units of the
columns, drawn from the seed. Its rows are drawn anew for every release. For every kind of number it prints the share of
intervals that hold the truth of the population (or of the table), and their median width relative to that of an oracle,
who knows the root mean square error of the released numbers: 2·1.96 times that. Entries of one release are far from
independent, so the standard error of a setting's share is that of its releases.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpeigen import PrivateCovariance, PrivatePCA

Line = tuple[str, str, str, bool | None]
KINDS = ("components", "eigenvalues", "shares", "covariance", "correlation", "mean")
LAWS = ("normal", "student", "exponential", "uniform", "mixture", "skewed factors")


@dataclass(frozen=True)
class Setting:
    """A population and what is asked of it."""

    seed: int
    n: int
    d: int
    epsilon: float
    law: str
    scaled: bool
    root: np.ndarray  # rows are sources @ root.T + mean, sources uncorrelated, of variance 1
    mean: np.ndarray
    freedom: float

    @classmethod
    def of(cls, seed: int, quick: bool) -> Setting:
        rng = np.random.default_rng([23, seed])
        n = int(np.exp(rng.uniform(np.log(500), np.log(10_000 if quick else 50_000))))
        d = int(rng.integers(3, 13 if quick else 31))
        epsilon = float(np.exp(rng.uniform(np.log(0.3), np.log(8))))
        law = LAWS[int(rng.integers(len(LAWS)))]
        levels = np.exp(rng.uniform(0, np.log(30), size=d) * (rng.random(d) < 0.4))
        turn = (
            np.linalg.qr(rng.normal(size=(d, d)))[0]
            if rng.random() < 0.6
            else np.eye(d) + np.tri(d, k=-1) * rng.normal(size=(d, d)) * 0.3
        )
        units = 10 ** rng.uniform(-2, 2, size=d) if rng.random() < 0.5 else np.ones(d)
        mean = rng.normal(size=d) * 3
        return cls(
            seed, n, d, epsilon, law, bool(rng.random() < 0.5), units[:, None] * turn * np.sqrt(levels), units * mean,
            float(rng.uniform(5, 12)),
        )  # fmt: skip

    def rows(self, rng: np.random.Generator) -> np.ndarray:
        shape = self.n, self.d
        if self.law in ("normal", "student"):
            sources = rng.normal(size=shape)
            if self.law == "student":
                sources *= np.sqrt((self.freedom - 2) / rng.chisquare(self.freedom, size=(self.n, 1)))
        elif self.law == "exponential":
            sources = rng.exponential(size=shape) - 1
        elif self.law == "uniform":
            sources = rng.uniform(-np.sqrt(3), np.sqrt(3), size=shape)
        elif self.law == "mixture":  # two groups of people
            sources = rng.normal(size=shape)
            sources[:, 0] = (sources[:, 0] + 2 * rng.choice([-1.0, 1.0], size=self.n)) / np.sqrt(5)
        else:
            sources = rng.normal(size=shape)
            sources[:, :2] = (rng.gamma(2.0, size=(self.n, 2)) - 2) / np.sqrt(2)
        return sources @ self.root.T + self.mean

    def truth(self) -> dict[str, np.ndarray]:
        covariance = self.root @ self.root.T
        deviations = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(deviations, deviations)
        matrix = correlation if self.scaled else covariance
        values, vectors = np.linalg.eigh(matrix)
        return {
            "covariance": matrix, "correlation": correlation, "mean": self.mean, "eigenvalues": values[::-1],
            "shares": values[::-1] / values.sum(), "components": vectors[:, ::-1].T,
        }  # fmt: skip

    def fit(self, rows: np.ndarray, seed: int):
        k = min(3, self.d)
        scale = "private" if self.scaled else None
        options = {"epsilon": self.epsilon, "delta": 1e-6, "scale": scale, "random_state": seed}
        return PrivatePCA(k, **options).fit(rows).release_


def released(release, kind):
    if kind == "shares":
        return release.eigenvalues / np.trace(release.covariance)
    return getattr(release, kind)


def table_truth(rows: np.ndarray, scaled: bool) -> dict[str, np.ndarray]:
    """What the same numbers are for these rows."""
    covariance = np.cov(rows.T, bias=True)
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    matrix = correlation if scaled else covariance
    values, vectors = np.linalg.eigh(matrix)
    return {
        "covariance": matrix, "correlation": correlation, "mean": rows.mean(axis=0), "eigenvalues": values[::-1],
        "shares": values[::-1] / values.sum(), "components": vectors[:, ::-1].T,
    }  # fmt: skip


def judge(setting: Setting, repeats: int, of: str = "population") -> tuple[str, dict[str, tuple[float, float, float]]]:
    """The method, and for each kind the coverage, the median relative width and the standard error of the coverage."""
    truth, held, widths, errors, method = setting.truth(), defaultdict(list), defaultdict(list), defaultdict(list), "?"
    unknown = 0
    for repeat in range(repeats):
        rng = np.random.default_rng([setting.seed, repeat])
        try:
            rows = setting.rows(rng)
            release = setting.fit(rows, repeat)
            found = release.intervals(of=of)
        except ValueError as error:
            return f"refused ({str(error)[:40]}…)", {}
        method = release.facts["method"]
        truth = truth if of == "population" else table_truth(rows, setting.scaled)
        unknown += not np.isfinite(found.eigenvalues[1]).all()
        for kind in KINDS:
            ends = getattr(found, kind)
            if ends is None:
                continue
            low, high = ends
            true, told = truth[kind], released(release, kind)
            if kind in ("eigenvalues", "covariance") and release.facts["details"].get("variances") == "relative":
                true = true / (1.0 if setting.scaled else np.trace(truth["covariance"]))
            true = true[: len(low)]
            if kind == "components":
                true = true * np.where(np.sum(true * told, axis=1) < 0, -1.0, 1.0)[:, None]
            chosen = ~np.eye(setting.d, dtype=bool) if kind == "correlation" else np.ones(true.shape, dtype=bool)
            held[kind].append(((low <= true) & (true <= high))[chosen])
            widths[kind].append((high - low)[chosen])
            errors[kind].append((told - true)[chosen])
    result = {}
    for kind in held:
        if not np.size(errors[kind]):
            continue
        rms = np.sqrt(np.mean(np.square(errors[kind]), axis=0))
        width = np.median(np.median(widths[kind], axis=0) / np.maximum(2 * 1.96 * rms, 1e-300))
        shares = np.reshape(held[kind], (len(held[kind]), -1)).mean(axis=1)
        result[kind] = float(shares.mean()), float(width), float(shares.std() / np.sqrt(len(shares)))
    return method + (f", {unknown} with unknown columns" if unknown else ""), result


def regression_setting(seed: int) -> tuple[int, float, np.ndarray, np.ndarray, float, str, bool]:
    """Rows, ε, root of the features' covariance, coefficients, residual deviation, law, and whether collinear."""
    rng = np.random.default_rng([29, seed])
    n, p = int(np.exp(rng.uniform(np.log(1500), np.log(40_000)))), int(rng.integers(2, 12))
    epsilon, collinear = float(np.exp(rng.uniform(np.log(0.5), np.log(8)))), bool(seed % 2)
    root = np.linalg.qr(rng.normal(size=(p, p)))[0] * np.sqrt(np.exp(rng.uniform(0, 1 + 2 * collinear, size=p)))
    if collinear:
        root[1] = 0.95 * root[0] + 0.3 * root[1]
    units = 10 ** rng.uniform(-1, 1, size=p)
    root, coef = root * units[:, None], rng.normal(size=p) / units
    noise = float(rng.uniform(0.5, 2) * np.linalg.norm(root.T @ coef))
    return n, epsilon, root, coef, noise, ("normal", "student", "exponential")[int(rng.integers(3))], collinear


def judge_regression(seed: int, repeats: int) -> tuple[str, float, float, int]:
    """A description, the coverage of coefficients, the median relative width, and how often nothing is known."""
    n, epsilon, root, coef, noise, law, collinear = regression_setting(seed)
    p, held, widths, errors, unknown = len(coef), [], [], [], 0
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        sources = rng.exponential(size=(n, p)) - 1 if law == "exponential" else rng.normal(size=(n, p))
        if law == "student":
            sources *= np.sqrt(5 / rng.chisquare(7, size=(n, 1)))
        X = sources @ root.T + 2
        rows = np.column_stack([X, X @ coef + 1 + noise * rng.normal(size=n)])
        fit = PrivateCovariance(epsilon=epsilon, delta=1e-6, random_state=repeat).fit(rows).release_.regression(p)
        if np.isinf(fit.standard_errors).any():
            unknown += 1
            continue
        held.append((fit.intervals[0] <= coef) & (coef <= fit.intervals[1]))
        widths.append(2 * 1.96 * fit.standard_errors)
        errors.append(fit.coef - coef)
    about = f"n={n:6d} p={p:2d} ε={epsilon:4.2f} {law:11} {'collinear' if collinear else '':9}"
    if not held:
        return about, np.nan, np.nan, unknown
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    return about, float(np.mean(held)), float(np.median(np.median(widths, axis=0) / (2 * 1.96 * rms))), unknown


def regressions(settings: int, repeats: int, seeds: list[int]) -> None:
    found = []
    for number in (1000 * seed + number for seed in seeds for number in range(settings)):
        about, held, width, unknown = judge_regression(number, repeats)
        print(f"{about} {held:.3f} ({width:.2f})" + (f", nothing known in {unknown}" if unknown else ""), flush=True)
        found.append(held)
    print(f"coefficients: mean {np.nanmean(found):.3f}, least {np.nanmin(found):.3f}")


def summary(found: dict[str, list[tuple[float, float, float]]]) -> Iterator[Line]:
    for kind, triples in found.items():
        held, widths, errors = np.array(triples).T
        mean, width = float(held.mean()), float(np.median(widths))
        yield f"coverage of 95% intervals, {kind}: mean", f"{mean:.3f}", "0.93 to 0.97", 0.93 <= mean <= 0.97
        yield (
            f"coverage of 95% intervals, {kind}: worst setting",
            f"{held.min():.2f}",
            "≥ 0.88",
            bool(held.min() >= 0.88),
        )
        clear = int((held + 2 * errors < 0.88).sum())
        yield f"settings below 0.88 by two standard errors, {kind}", f"{clear} of {len(held)}", "none", clear == 0
        yield f"width over that of an oracle, {kind}: median setting", f"{width:.2f}", "≤ 1.5", width <= 1.5


def rows() -> Iterator[Line]:
    """For `make bench`: 40 settings of 30 releases each, and 20 regressions of 15."""
    warnings.simplefilter("ignore")
    found = defaultdict(list)
    for number in range(40):
        for kind, pair in judge(Setting.of(7000 + number, False), 30)[1].items():
            found[kind].append(pair)
    yield from summary(found)
    held = [judge_regression(1000 + number, 15)[1] for number in range(20)]
    mean = float(np.nanmean(held))
    yield "coverage of 95% intervals, regressions: mean", f"{mean:.3f}", "0.93 to 0.97", 0.93 <= mean <= 0.97


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=[0], nargs="+", help="each has settings of its own")
    parser.add_argument("--of", default="population", choices=["population", "table"])
    parser.add_argument("--settings", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=None)
    parser.add_argument("--regression", action="store_true", help="coefficients of regressions instead")
    options = parser.parse_args()
    settings = options.settings or (8 if options.quick else 40)
    repeats = options.repeats or (8 if options.quick else 30)
    warnings.simplefilter("ignore")
    if options.regression:
        regressions(options.settings or (6 if options.quick else 20), repeats, options.seed)
        return
    print("coverage (relative width) " + " ".join(f"{kind:>13}" for kind in KINDS))
    found = defaultdict(list)
    for number in (1000 * seed + number for seed in options.seed for number in range(settings)):
        setting = Setting.of(number, options.quick)
        method, result = judge(setting, repeats, options.of)
        cells = [f"{result[kind][0]:.3f} ({result[kind][1]:.2f})" if kind in result else "" for kind in KINDS]
        about = f"n={setting.n:6d} d={setting.d:2d} ε={setting.epsilon:4.2f} {setting.law[:11]:11}"
        print(about, "scaled" if setting.scaled else "      ", " ".join(f"{c:>13}" for c in cells), method, flush=True)
        for kind, pair in result.items():
            found[kind].append(pair)
    for what, figure, *_ in summary(found):
        print(f"{what}: {figure}")


if __name__ == "__main__":
    main()
