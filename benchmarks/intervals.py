"""Do 95% intervals hold the truth in 95% of the releases? Random settings, elliptical rows and others.

    python benchmarks/intervals.py [--quick] [--seed 0 1 2] [--settings 40] [--repeats 30] [--of table]
                                   [--columns | --tables | --regression | --noise] [--methods | --robust]

Each setting has its own n (500 to 50,000), d (3 to 30), ε (0.3 to 8), spectrum, law of the rows and units of the
columns, drawn from the seed. Its rows are drawn anew for every release. For every kind of number it prints the share of
intervals that hold the truth of the population (or of the table), and their median width relative to that of an oracle,
who knows the root mean square error of the released numbers: 2·1.96 times that. Entries of one release are far from
independent, so the standard error of a setting's share is that of its releases. Where a release says that columns are
unknown, the truth of components, eigenvalues and shares is that of the known columns.

``--columns``: columns of laws of their own: lognormal, counts, rare and frequent indicators, zeros with a long tail.
``--methods``: a method, δ and a centre are drawn for every setting. ``--tables``: rows are drawn from a public table
with replacement, which is the population (`_tables`). ``--noise``: independent columns of equal variance; how many
releases show a component, with δ > 0, δ = 0, several rows of a person and missing cells in turn. ``--robust``: with
``robust=True``.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pandas as pd
from _populations import Asked, Columns, Setting, TableSetting, options_of, spectral_truth

from dpeigen import PrivateCovariance, PrivatePCA

Line = tuple[str, str, str, bool | None]
KINDS = ("components", "eigenvalues", "shares", "covariance", "correlation", "mean")


def released(release, kind):
    if kind == "shares":
        return release.eigenvalues / np.trace(release.covariance)
    return getattr(release, kind)


def judge(setting: Asked, repeats: int, of: str = "population") -> tuple[str, dict[str, tuple[float, float, float]]]:
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
        truth = truth if of == "population" else setting.truth_of_table(rows)
        truth |= spectral_truth(truth["covariance"], found.known)
        unknown += not found.known.all()
        for kind in KINDS:
            ends = getattr(found, kind)
            if ends is None:
                continue
            low, high = ends
            true, told = truth[kind], released(release, kind)
            if kind in ("eigenvalues", "covariance") and release.facts["details"].get("variances") == "relative":
                true = true * np.trace(release.covariance) / np.trace(truth["covariance"])
            true = true[: len(low)]
            if kind == "components":
                true = true * np.where(np.nansum(true * told[: len(true)], axis=1) < 0, -1.0, 1.0)[:, None]
            low, high, told = low[: len(true)], high[: len(true)], told[: len(true)]
            chosen = ~np.eye(setting.d, dtype=bool) if kind == "correlation" else np.ones(true.shape, dtype=bool)
            held[kind].append(np.where(np.isnan(true), np.nan, (low <= true) & (true <= high))[chosen])
            widths[kind].append((high - low)[chosen])
            errors[kind].append((told - true)[chosen])
    result = {}
    for kind in held:
        shares = np.array([np.nanmean(each) for each in held[kind] if np.isfinite(each).any()])
        if not len(shares):
            continue
        same = [i for i, each in enumerate(errors[kind]) if each.shape == errors[kind][0].shape]
        rms = np.sqrt(np.nanmean(np.square([errors[kind][i] for i in same]), axis=0))
        middle = np.median([widths[kind][i] for i in same], axis=0)
        width = np.nanmedian(middle / np.maximum(2 * 1.96 * rms, 1e-300))
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
    """A description, the coverage of known coefficients, the median relative width, and how often some are unknown."""
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
        known = np.isfinite(fit.standard_errors)
        unknown += not known.all()
        held.append(np.where(known, (fit.intervals[0] <= coef) & (coef <= fit.intervals[1]), np.nan))
        widths.append(np.where(known, 2 * 1.96 * fit.standard_errors, np.nan))
        errors.append(np.where(known, fit.coef - coef, np.nan))
    about = f"n={n:6d} p={p:2d} ε={epsilon:4.2f} {law:11} {'collinear' if collinear else '':9}"
    rms = np.sqrt(np.nanmean(np.square(errors), axis=0))
    width = np.nanmedian(np.nanmedian(widths, axis=0) / (2 * 1.96 * rms))
    return about, float(np.nanmean(held)), float(width), unknown


def regressions(settings: int, repeats: int, seeds: list[int]) -> None:
    found = []
    for number in (1000 * seed + number for seed in seeds for number in range(settings)):
        about, held, width, unknown = judge_regression(number, repeats)
        print(
            f"{about} {held:.3f} ({width:.2f})" + (f", unknown coefficients in {unknown}" if unknown else ""),
            flush=True,
        )
        found.append(held)
    print(f"coefficients: mean {np.nanmean(found):.3f}, least {np.nanmin(found):.3f}")


VARIANTS: tuple[dict[str, object], ...] = ({}, {"delta": 0.0}, {"unit": "id"}, {"missing": "correct"})


def noise_table(number: int, repeat: int, n: int, d: int, variant: dict[str, object]) -> pd.DataFrame:
    """Independent columns of equal variance; up to four rows of one person, or a tenth of the cells missing."""
    rng = np.random.default_rng([number, repeat])
    table = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{j}" for j in range(d)])
    if "missing" in variant:
        table = table.mask(rng.random((n, d)) < 0.1)
    if "unit" in variant:
        table["id"] = np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]
    return table


def pure_noise(settings: int, repeats: int, seeds: list[int]) -> None:
    """How many releases of independent columns of equal variance show a component."""
    shown = total = 0
    for number in (1000 * seed + number for seed in seeds for number in range(settings)):
        rng = np.random.default_rng([37, number])
        n, d = int(np.exp(rng.uniform(np.log(500), np.log(20_000)))), int(rng.integers(3, 16))
        epsilon, scaled = float(np.exp(rng.uniform(np.log(0.3), np.log(8)))), bool(rng.random() < 0.5)
        variant, found = VARIANTS[number % len(VARIANTS)], []
        options = {"delta": 1e-6, "scale": "private" if scaled else None} | variant
        for repeat in range(repeats):
            table = noise_table(number, repeat, n, d, variant)
            try:
                model = PrivatePCA(2, epsilon=epsilon, random_state=repeat, **options).fit(table)
            except ValueError:
                break
            found.append(bool(model.release_.resolved))
        about = f"n={n:6d} d={d:2d} ε={epsilon:4.2f} {'scaled' if scaled else '      '} {variant or ''}"
        print(about, f"{sum(found)} of {len(found)}" if found else "refused", flush=True)
        shown, total = shown + sum(found), total + len(found)
    print(f"pure noise: a component is shown in {shown} of {total} releases ({shown / total:.3f})")


def summary(found: dict[str, list[tuple[float, float, float]]]) -> Iterator[Line]:
    for kind, triples in found.items():
        held, widths, errors = np.array(triples).T
        mean, width = float(held.mean()), float(np.nanmedian(widths))
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
    parser.add_argument("--tables", action="store_true", help="public tables as populations instead")
    parser.add_argument("--noise", action="store_true", help="how often pure noise shows a component instead")
    parser.add_argument("--columns", action="store_true", help="columns of laws of their own instead")
    parser.add_argument("--methods", action="store_true", help="a method, δ and a centre drawn for each setting")
    parser.add_argument("--robust", action="store_true", help="with robust=True")
    options = parser.parse_args()
    settings = options.settings or (8 if options.quick else 40)
    repeats = options.repeats or (8 if options.quick else 30)
    warnings.simplefilter("ignore")
    if options.regression:
        regressions(options.settings or (6 if options.quick else 20), repeats, options.seed)
        return
    if options.noise:
        pure_noise(options.settings or 13, options.repeats or 40, options.seed)
        return
    tables = []
    if options.tables:
        from _tables import tables as tables_at_hand

        tables = tables_at_hand(fewest=400)
    print("coverage (relative width) " + " ".join(f"{kind:>13}" for kind in KINDS))
    found = defaultdict(list)
    for number in (1000 * seed + number for seed in options.seed for number in range(settings)):
        robust = {"delta": 1e-6, "robust": True} if options.robust else None
        asked = options_of(number) if options.methods else robust
        if tables:
            setting: Asked = TableSetting.of(number, tables, asked)
        else:
            setting = (Columns if options.columns else Setting).of(number, options.quick, asked)
        method, result = judge(setting, repeats, options.of)
        cells = [f"{result[kind][0]:.3f} ({result[kind][1]:.2f})" if kind in result else "" for kind in KINDS]
        print(setting, " ".join(f"{c:>13}" for c in cells), method, flush=True)
        for kind, pair in result.items():
            found[kind].append(pair)
    for what, figure, *_ in summary(found):
        print(f"{what}: {figure}")


if __name__ == "__main__":
    main()
