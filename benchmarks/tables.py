"""Covariances and components of real tables in their own units, judged against the same tables without privacy.

Run by `make bench`, or alone, which prints a line for each table:

    python benchmarks/tables.py [--quick] [--only covariance|variances|found|holes|pca|units|mahalanobis|…]
                                [--table NAME …] [--seeds 2] [--epsilon 1 …] [--fewest 2000]

`--quick`: 2 runs in place of 5, and fewer ε. `_tables.py` says which tables there are and how they are cleaned;
tables of fewer than 2,000 rows are not judged. A fit that refuses counts as the answer of somebody who knows nothing
but the number of columns: no correlation, variances off by 100%, the mean variance of a random plane.
"""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from _table_errors import (  # noqa: E402
    K,
    captured,
    correlation_error,
    explained_error,
    frobenius_error,
    mahalanobis_error,
    variance_error,
    with_variances,
)
from _tables import Table, tables  # noqa: E402

BLANKED, MOST_MORE = 0.1, 1.6  # share of cells that are made missing, and the bar for what that does to errors
EPSILONS, QUICK_EPSILONS = (0.3, 1.0, 3.0, 10.0, 50.0), (1.0, 10.0, 50.0)
DELTA, SEEDS, FEWEST = 1e-6, 5, 2_000
CONDITIONS, MEANS = (1.0, 1e2, 1e4, 1e6), (0.0, 10.0, 1e3, 1e5)
FROBENIUS = ((2_000, 5, None), (2_000, 10, None), (5_000, 10, 5), (5_000, 20, None), (20_000, 20, 5),
             (20_000, 50, None), (50_000, 100, None), (50_000, 10, 5))  # rows, columns, tails  # fmt: skip
RADII = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)  # shares of the rows that they hold
SMALL_ROWS = 7_000  # the largest table for Frobenius errors, and for hindsight
UNIT_ROWS = 5_000  # the largest table of which units and places are changed
INVENTED, PURE_EPSILONS = 5.0, (0.7, 2.0)  # times the truth: a released variance that is made of noise; δ = 0
COUNTS = (2.0, 2.6, 3.2, 4.0)  # times the noise on counts of pairs
PEER_TABLES, PEER_COLUMNS, PEER_RUNS, PEER_EPSILON = 8, 10, 5, 1.0
PEER_FACTS = (
    "peers need public facts: exact centres and scales of columns, the exact largest length of a row; pure ε. 'same "
    "facts': our default with the same, pure ε. 'nothing': our default on raw rows without any bound, δ = 10⁻⁶"
)
Row = tuple[str, str, str, bool | None]


@dataclass(frozen=True)
class Choice:
    """What to measure: for `make bench` as it stands, smaller for a quick look."""

    epsilons: Sequence[float] = EPSILONS
    seeds: int = SEEDS
    fewest: int = FEWEST
    names: Sequence[str] = ()
    say: Callable[[str], None] = lambda _: None

    def tables(self, most: int = 10**9) -> list[Table]:
        """The chosen tables of at most that many rows; if they are named, whatever their size."""
        found = tables(0 if self.names else self.fewest, note=self.say)
        if missing := set(self.names) - {t.name for t in found}:
            raise SystemExit(f"No table is called {', '.join(sorted(missing))}. There are {[t.name for t in found]}.")
        return [t for t in found if (t.name in self.names if self.names else len(t.X) <= most)]


# Fits.


def fit(estimator: object, X: np.ndarray) -> object | None:
    """The fitted estimator, or None if it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seeded: a benchmark
            return estimator.fit(X)
    except ValueError as error:
        tell(f"{type(estimator).__name__} refuses {X.shape[0]:,}×{X.shape[1]}: {str(error)[:160]}")
        return None


@cache
def tell(line: str) -> None:
    """On the error stream, each line once."""
    print(line, file=sys.stderr, flush=True)


def covariance(X: np.ndarray, epsilon: float, seed: int, bound: object = None, **options: str) -> np.ndarray | None:
    from dpeigen import PrivateCovariance

    found = fit(PrivateCovariance(epsilon=epsilon, delta=DELTA, bound=bound, random_state=seed, **options), X)
    return None if found is None else found.covariance_


def scalable() -> bool:
    """Whether this version of `PrivatePCA` has the parameter `scale`."""
    from dpeigen import PrivatePCA

    return "scale" in inspect.signature(PrivatePCA).parameters


def pca_errors(X: np.ndarray, truth: np.ndarray, epsilon: float, seed: int, private: bool) -> tuple[float, float]:
    """(captured share, error of explained variances); ``private``: the scales of columns are paid for."""
    from dpeigen import PrivatePCA

    options = {"scale": "private"} if private and scalable() else {}
    found = fit(PrivatePCA(K, epsilon=epsilon, delta=DELTA, random_state=seed, **options), X)
    if found is None:
        return captured(None, truth), explained_error(None, truth)
    return captured(found.components_, truth), explained_error(found.explained_variance_, truth)


# Sections: each prints a line for each table and returns rows with bars.


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-12)))))


def covariance_rows(choice: Choice) -> list[Row]:
    """Correlations and variances, without public facts and with the exact ranges of columns."""
    epsilon = 1.0 if 1.0 in choice.epsilons else choice.epsilons[0]
    found = []  # (name, without, with, variances without, with): errors for each run
    for t in choice.tables():
        truth = t.X.var(axis=0)
        runs = [[covariance(t.X, epsilon, s, b) for s in range(choice.seeds)] for b in (None, t.bounds)]
        rms = [np.array([correlation_error(c, t.correlation) for c in run]) for run in runs]
        variances = [float(np.mean([variance_error(c, truth) for c in run])) for run in runs]
        own = correlation_error(None, t.correlation)
        refused = sum(c is None for run in runs for c in run)
        choice.say(
            f"{t!s:32} correlations' rms {own:.3f}; error {rms[0].mean():.3f}, with bounds {rms[1].mean():.3f}; "
            f"variances off by {variances[0]:.3g}, with bounds {variances[1]:.3g}"
            + f"; {refused} refused"
            * (refused > 0)
        )
        found.append((t.name, *rms, *variances))
    if not found:
        return []
    rows: list[Row] = []
    for place, what, bars in ((1, "no bound", (0.04, 0.22)), (2, "exact public bounds of columns", (0.035, 0.2))):
        means = [float(f[place].mean()) for f in found]
        worst = int(np.argmax(means))
        title = f"rms error of correlations, ε = {epsilon:g}, {what}, {len(found)} tables"
        rows.append(
            (f"{title}: geometric mean", f"{geometric(means):.3f}", f"≤ {bars[0]:g}", geometric(means) <= bars[0])
        )
        rows.append(
            (f"{title}: worst", f"{means[worst]:.3f} ({found[worst][0]})", f"≤ {bars[1]:g}", means[worst] <= bars[1])
        )
        median = float(np.median([f[place + 2] for f in found]))
        bar = ("≤ 0.35", median <= 0.35) if place == 1 else ("", None)
        rows.append((f"largest relative error of a column's variance, {what}, median table", f"{median:.3g}", *bar))
    worse = [f[0] for f in found if clearly_worse(f[2], f[1])]
    what = "tables whose correlations are worse with bounds (by over 10% and three standard errors)"
    return [*rows, (what, f"{len(worse)}" + f" ({', '.join(worse)})" * bool(worse), "0", not worse)]


def variance_rows(choice: Choice) -> list[Row]:
    """Variances that are made of noise, with δ = 0: a column in which nothing is found must be reported as unknown."""
    from dpeigen import PrivateCovariance

    rows: list[Row] = []
    for epsilon in PURE_EPSILONS:
        ratios = []
        for t in choice.tables(most=UNIT_ROWS if not choice.names else 10**9):
            for seed in range(choice.seeds):
                found = fit(PrivateCovariance(epsilon=epsilon, random_state=seed), t.X)
                if found is not None:
                    ratios.extend(np.diag(found.covariance_) / t.X.var(axis=0))
        known = np.array([ratio for ratio in ratios if ratio > 0])
        made_up = int((known > INVENTED).sum())
        what = f"released variances above {INVENTED:g} times the truth, δ = 0, ε = {epsilon:g}"
        figure = f"{made_up} of {len(known)} (unknown: {len(ratios) - len(known)} more)"
        rows.append((what, figure, "0", made_up == 0))
    return rows


def found_rows(choice: Choice) -> list[Row]:
    """The share of columns that are known, with ε from that at which counts of pairs exceed their noise so many times.

    It chooses how many times they must for a whole covariance (`dpeigen.methods.columns`).
    """
    from scipy.optimize import brentq

    from dpeigen import PrivateCovariance
    from dpeigen.methods.found_columns import counts_over_noise
    from dpeigen.privacy import Budget

    rows: list[Row] = []
    for times in COUNTS:
        known, errors, refused = [], [], 0
        for t in choice.tables(most=UNIT_ROWS if not choice.names else 10**9):
            n, d = t.X.shape
            epsilon = brentq(
                lambda e, n=n, d=d, times=times: counts_over_noise(n, d, Budget(e, DELTA)) - times, 1e-3, 50
            )
            for seed in range(choice.seeds):
                whitened = PrivateCovariance(epsilon=epsilon, delta=DELTA, method="whitened", random_state=seed)
                found = fit(whitened, t.X)
                refused += found is None
                if found is not None:
                    known.append(float(np.mean(np.diag(found.covariance_) > 0)))
                    errors.append(correlation_error(found.covariance_, np.corrcoef(t.X.T)))
        what = f"share of columns that are known, counts {times:g} times their noise"
        beside = f"rms error of correlations {np.mean(errors):.3f}; {refused} fits were refused"
        rows.append((what, f"{np.mean(known):.2f} ({beside})", "", None))
    return rows


def clearly_worse(ours: np.ndarray, than: np.ndarray) -> bool:
    error = math.sqrt((ours.var(ddof=1) + than.var(ddof=1)) / len(ours)) if len(ours) > 1 else 0.0
    return bool(ours.mean() > 1.1 * than.mean() and ours.mean() - than.mean() > 3 * error)


def blanked(X: np.ndarray, seed: int) -> np.ndarray:
    """The table with cells missing completely at random."""
    return np.where(np.random.default_rng(1000 + seed).random(X.shape) < BLANKED, np.nan, X)


def hole_rows(choice: Choice) -> list[Row]:
    """Correlations with missing cells, beside those of the complete table at the same ε."""
    epsilon = 1.0 if 1.0 in choice.epsilons else choice.epsilons[0]
    ratios: dict[str, float] = {}
    for t in choice.tables():
        seeds = range(choice.seeds)
        found = [covariance(blanked(t.X, seed), epsilon, seed, missing="correct") for seed in seeds]
        error = float(np.mean([correlation_error(c, t.correlation) for c in found]))
        whole = float(np.mean([correlation_error(covariance(t.X, epsilon, s), t.correlation) for s in seeds]))
        ratios[t.name] = error / whole
        choice.say(
            f"{t!s:32} error {whole:.4f} complete, {error:.4f} with {BLANKED:.0%} missing: {ratios[t.name]:.2f}×"
        )
    if not ratios:
        return []
    mean, worst = geometric(list(ratios.values())), max(ratios, key=lambda name: ratios[name])
    title = (
        f"rms error of correlations, ε = {epsilon:g}, {BLANKED:.0%} of cells missing, over that of the complete table"
    )
    return [
        (f"{title}, {len(ratios)} tables: geometric mean", f"{mean:.2f}", f"≤ {MOST_MORE:g}", mean <= MOST_MORE),
        (f"{title}: worst", f"{ratios[worst]:.2f} ({worst})", "", None),
    ]


def pca_rows(choice: Choice) -> list[Row]:
    """Captured variance and explained variances of two components: scales paid for, and scales known."""
    kinds = {True: 'scale="private", raw rows' if scalable() else "no `scale` in this version: raw rows"}
    kinds[False] = "default, standardised rows"
    found: dict[tuple[bool, float], list[tuple[str, float, float]]] = {}
    for t in choice.tables():
        for private, kind in kinds.items():
            X = t.X if private else t.standardised
            texts = []
            for epsilon in choice.epsilons:
                runs = [pca_errors(X, t.correlation, epsilon, seed, private) for seed in range(choice.seeds)]
                share, off = (float(v) for v in np.mean(runs, axis=0))
                found.setdefault((private, epsilon), []).append((t.name, share, off))
                texts.append(f"ε = {epsilon:g}: {share:.3f} (variances off by {off:.2g})")
            choice.say(f"{t!s:32} {kind:28} captured " + ", ".join(texts))
    return [
        row for (private, epsilon), cell in found.items() for row in pca_bars(kinds[private], private, epsilon, cell)
    ]


def pca_bars(kind: str, private: bool, epsilon: float, cell: list[tuple[str, float, float]]) -> Iterator[Row]:
    """The rows of one ε."""
    name, worst, _ = min(cell, key=lambda c: c[1])
    loss = 1 - float(np.mean([c[1] for c in cell]))
    title = f"captured variance, k = {K}, {kind}, ε = {epsilon:g}, {len(cell)} tables"
    below = sum(c[1] < 0.99 for c in cell)
    judged = epsilon == (10 if private else 50)
    figure = f"worst {worst:.3f} ({name}), {below} below 0.99"
    yield f"{title}: every table", figure, "≥ 0.99" if judged else "", worst >= 0.99 if judged else None
    judged = not private and epsilon == 1
    yield f"{title}: mean loss", f"{loss:.4f}", "≤ 0.02" if judged else "", loss <= 0.02 if judged else None
    name, _, off = max(cell, key=lambda c: c[2])
    above = sum(c[2] > 0.1 for c in cell)
    judged = private and epsilon == 10
    figure = f"worst {off:.3g} ({name}), {above} above 0.1, median {np.median([c[2] for c in cell]):.3g}"
    title = title.replace("captured variance", "relative error of `explained_variance_`")
    yield f"{title}: every table", figure, "≤ 0.1" if judged else "", off <= 0.1 if judged else None


def moved(X: np.ndarray, units: bool, offsets: bool) -> np.ndarray:
    """Columns in units 10⁶ times smaller or larger, 10⁶ deviations away from where they were, by a fixed seed."""
    rng = np.random.default_rng(1)
    scales, signs = (rng.choice((-1.0, 1.0), size=X.shape[1]) for _ in range(2))
    away = X + signs * 1e6 * X.std(axis=0) if offsets else X
    return away * 10.0 ** (6 * scales) if units else away


def unit_rows(choice: Choice) -> list[Row]:
    """PCA with scales paid for: lost variance in other units and places over that of the table as it is, at ε = 1."""
    settings = {"as it is": (False, False), "units": (True, False), "offsets": (False, True), "both": (True, True)}
    losses: dict[str, list[float]] = {name: [] for name in settings}
    chance = []
    for t in choice.tables(most=UNIT_ROWS):
        for name, setting in settings.items():
            X = moved(t.X, *setting)
            runs = [pca_errors(X, t.correlation, 1.0, seed, True)[0] for seed in range(choice.seeds)]
            losses[name].append(1 - float(np.mean(runs)))
        choice.say(f"{t!s:32} lost variance " + ", ".join(f"{name} {v[-1]:.4f}" for name, v in losses.items()))
        chance.append(1 - captured(None, t.correlation))
    if not chance:
        return []
    rows: list[Row] = []
    base, random = float(np.mean(losses["as it is"])), float(np.mean(chance))
    learnt = scalable() and base < 0.5 * random  # otherwise all are equally bad, and the ratio says nothing
    kind = 'scale="private"' if scalable() else "no `scale` in this version"
    words = {"units": "units 10^±6", "offsets": "means 10⁶ deviations away", "both": "both"}
    for name, what in words.items():
        lost = float(np.mean(losses[name]))
        title = f"PCA, {kind}, ε = 1, {len(chance)} tables, {what}: mean lost variance over that of raw tables"
        figure = f"{lost / base:.2f}× ({lost:.4f} over {base:.4f}; a random plane {random:.3f})"
        rows.append((title, figure, "≤ 1.3×, and below half of random", learnt and lost <= 1.3 * base))
    return rows


def robust_rows(choice: Choice) -> list[Row]:
    """Means with `robust=True` on raw rows, in deviations of the columns, and how many are in their 95% intervals."""
    from dpeigen import PrivatePCA

    errors, held, resolved = [], [], []
    for t in choice.tables():
        for seed in range(choice.seeds):
            found = fit(PrivatePCA(K, epsilon=2.0, delta=DELTA, robust=True, random_state=seed), t.X)
            if found is None or found.mean_ is None:
                continue
            truth, intervals = t.X.mean(axis=0), found.release_.intervals()
            low, high = intervals.mean
            errors.append(float(np.median(np.abs(found.mean_ - truth) / t.deviations)))
            held.append(float(((low <= truth) & (truth <= high)).mean()))
            resolved.append(intervals.resolved)
            choice.say(f"{t!s:32} error of means {errors[-1]:.3g}, held {held[-1]:.2f}, clear {resolved[-1]}")
    what = "robust=True, raw rows, ε = 2"
    return [
        (
            f"{what}: error of the mean of the median column, in its deviations, median fit",
            f"{np.median(errors):.3f}",
            "",
            None,
        ),
        (f"{what}: means inside their 95% intervals", f"{np.mean(held):.2f}", "", None),
        (f"{what}: components told from noise, of {K}", f"{np.mean(resolved):.2f}", "", None),
    ]


def mahalanobis_rows(choice: Choice) -> list[Row]:
    """Gaussian rows, 8,000×10, ε = 4.89: condition numbers up to 10⁶, means up to 10⁵ deviations away."""
    rows: list[Row] = []
    for condition in CONDITIONS:
        texts, errors = [], []
        for mean in MEANS:
            runs = [gaussian_errors(condition, mean, seed) for seed in range(choice.seeds)]
            ours, exact = (float(v) for v in np.mean(runs, axis=0))
            errors.append(ours)
            texts.append(f"{mean:g}: {ours:.3g}")
        title = f"Mahalanobis error, Gaussian 8,000×10, ε = 4.89, condition number {condition:g}, means in deviations"
        rows.append((title, ", ".join(texts) + f" (not private {exact:.3f})", "≤ 0.15", max(errors) <= 0.15))
        choice.say(f"{title}: {rows[-1][1]}")
    return rows


def gaussian_errors(condition: float, mean: float, seed: int) -> tuple[float, float]:
    """(private, not private)."""
    rng, d = np.random.default_rng(seed), 10
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    roots = condition ** (-np.arange(d) / (2 * (d - 1)))
    truth = (basis * roots**2) @ basis.T
    centred = (rng.normal(size=(8_000, d)) * roots) @ basis.T
    X = centred + mean * np.sqrt(np.diag(truth)) * rng.choice((-1.0, 1.0), size=d)
    found = covariance(X, 4.89, seed)
    return math.sqrt(d) if found is None else mahalanobis_error(found, truth), mahalanobis_error(
        np.cov(centred.T), truth
    )


def frobenius_rows(choice: Choice) -> list[Row]:
    """The default without any fact beside `gaussian` given the public radius that is best in hindsight, at ε = 1."""
    ratios: dict[str, float] = {}
    right: dict[str, float] = {}  # the same, if the variances of columns were exact
    for name, X in frobenius_tables(choice):
        truth = np.cov(X.T, bias=True)
        lengths, seeds = np.linalg.norm(X, axis=1), range(choice.seeds)
        found = [covariance(X, 1.0, s) for s in seeds]
        ours = np.mean([frobenius_error(c, truth) for c in found])
        rest = np.mean([frobenius_error(with_variances(c, truth), truth) for c in found])
        radii = [float(np.quantile(lengths, share)) for share in RADII]
        theirs = [np.mean([frobenius_error(covariance(X, 1.0, s, r, method="gaussian"), truth) for s in seeds])
                  for r in radii]  # fmt: skip
        ratios[name], right[name] = float(ours / min(theirs)), float(rest / min(theirs))
        choice.say(
            f"{name:24} no fact {ours:.4f}, best of {len(radii)} radii {min(theirs):.4f}: {ratios[name]:.2f}×; "
            f"with exact variances {right[name]:.2f}×"
        )
    worst = max(ratios, key=lambda name: ratios[name])
    title = (
        f"Frobenius error without any fact over that of `gaussian` with the best public radius, {len(ratios)} tables"
    )
    return [
        (f"{title}: geometric mean", f"{geometric(list(ratios.values())):.2f}×", "≤ 1.3×",
         geometric(list(ratios.values())) <= 1.3),
        (f"{title}: worst", f"{ratios[worst]:.2f}× ({worst})", "≤ 1.3×", ratios[worst] <= 1.3),
        (f"{title}: the same correlations with exact variances",
         f"geometric mean {geometric(list(right.values())):.2f}×, worst {max(right.values()):.2f}×", "", None),
    ]  # fmt: skip


def frobenius_tables(choice: Choice) -> Iterator[tuple[str, np.ndarray]]:
    """Centred rows with variances 1, ½, ⅓, …, in random axes, and real tables of at most 7,000 rows, standardised."""
    for n, d, tails in FROBENIUS:
        rng = np.random.default_rng([n, d])
        rows = rng.normal(size=(n, d)) / np.sqrt(np.arange(1, d + 1))
        if tails is not None:
            rows *= np.sqrt((tails - 2) / rng.chisquare(tails, size=(n, 1)))
        X = rows @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        yield f"{n:,}×{d} {'normal' if tails is None else f't{tails}'}", X - X.mean(axis=0)
    for table in choice.tables(most=SMALL_ROWS):
        yield str(table), table.standardised


def peer_rows(choice: Choice) -> list[Row]:
    """Beside the peers in `peers.py`, at ε = 1: captured variance of two components, and correlations.

    The peers are pure and need public facts: they get the exact centre and scale of every column and the exact largest
    length of a row, all of them read from the table. "same facts" is our pure fit with the same; "nothing" is our
    default on the raw table, without any bound and with δ = 10⁻⁶. A peer's covariance is put together from all of its
    components and their variances. Fits that did not end in `peers.LIMIT` seconds are left out.
    """
    import peers

    narrow = [t for t in choice.tables(most=10_000) if t.X.shape[1] <= PEER_COLUMNS]
    chosen = narrow if choice.names else narrow[:: max(1, len(narrow) // PEER_TABLES)][:PEER_TABLES]
    pythons = {peer: peers.environment(peers.PEERS[peer], install=False) for peer in ("diffprivlib", "opendp")}
    rows: list[Row] = [(f"PCA beside {peer}", why, "", None) for peer, (python, why) in pythons.items() if not python]
    if len(rows) == len(pythons):
        return rows
    rows.append((f"beside peers, {PEER_RUNS} runs, means", PEER_FACTS, "", None))
    shares: dict[str, list[list[float]]] = {}  # over ours with the same facts: of lost variance, and of errors
    for t in chosen:
        radius = float(np.linalg.norm(t.standardised, axis=1).max()) * (1 + 1e-9)
        setting = peers.Setting(str(t), t.standardised, K, radius)
        found = {
            "nothing": own_errors(t.X, t.correlation, DELTA),
            "same facts": own_errors(t.standardised, t.correlation, 0.0, radius),
        }
        for peer, (python, _) in pythons.items():
            if python is not None:
                fits = peers.their_fits(setting, peer, python, [PEER_EPSILON], PEER_RUNS, (K, t.X.shape[1]))
                found[peer] = peer_errors(fits, t.correlation)
        texts = [f"{name} {' and '.join(map(shown, each))}" for name, each in found.items()]
        rows.append((f"{t}, ε = 1: lost variance, and rms error of correlations", "; ".join(texts), "", None))
        choice.say(" | ".join(rows[-1][:2]))
        for peer in pythons.keys() & found.keys():
            ratios = [ours / max(theirs, 1e-12) for ours, theirs in zip(found["same facts"], found[peer], strict=True)]
            shares.setdefault(peer, []).append(ratios)
    for peer, each in shares.items():
        for what, ratios in zip(("lost variance", "rms error of correlations"), zip(*each, strict=True), strict=True):
            ended = [ratio for ratio in ratios if math.isfinite(ratio)]
            figure = (
                f"{geometric(ended):.2f}× (geometric mean of {len(ended)} of {len(chosen)} tables)"
                if ended
                else "none ended"
            )
            rows.append((f"{what} over that of {peer}, pure ε = 1, same public facts", figure, "", None))
    return rows


def shown(error: float) -> str:
    return f"{error:.3f}" if math.isfinite(error) else "(no fit ended in time)"


def own_errors(X: np.ndarray, truth: np.ndarray, delta: float, radius: float | None = None) -> tuple[float, float]:
    """(lost variance, rms error of correlations), means over runs; a radius stands for centred and scaled columns."""
    from dpeigen import PrivateCovariance, PrivatePCA

    known = {} if radius is None else {"bound": radius, "center": None}
    scale = {"scale": "private"} if radius is None and scalable() else {}
    lost, errors = [], []
    for seed in range(PEER_RUNS):
        options = {"epsilon": PEER_EPSILON, "delta": delta, "random_state": seed, **known}
        pca, whole = fit(PrivatePCA(K, **options, **scale), X), fit(PrivateCovariance(**options), X)
        lost.append(1 - captured(None if pca is None else pca.components_, truth))
        errors.append(correlation_error(None if whole is None else whole.covariance_, truth))
    return float(np.mean(lost)), float(np.mean(errors))


def peer_errors(fits: Sequence[dict], truth: np.ndarray) -> tuple[float, float]:
    """The same of a peer's fits; NaN where none ended."""
    lost = [1 - captured(np.array(each["components"]), truth) for each in fits if each["k"] == K]
    errors = []
    for each in fits:
        if each["k"] == len(truth):
            basis, variances = np.array(each["components"]), np.array(each["variances"])
            errors.append(correlation_error((basis.T * variances) @ basis, truth))
    return tuple(float(np.mean(part)) if part else math.nan for part in (lost, errors))


SECTIONS: dict[str, Callable[[Choice], list[Row]]] = {
    "covariance": covariance_rows,
    "variances": variance_rows,
    "found": found_rows,
    "holes": hole_rows,
    "pca": pca_rows,
    "units": unit_rows,
    "mahalanobis": mahalanobis_rows,
    "frobenius": frobenius_rows,
    "robust": robust_rows,
    "peers": peer_rows,
}


def rows() -> list[Row]:
    """(what, figure, bar, met) of all sections, after what was left out."""
    notes: list[str] = []
    tables(FEWEST, note=notes.append)
    left_out = [("left out", note, "", None) for note in notes]
    return left_out + [row for section in SECTIONS.values() for row in section(Choice())]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="2 runs and fewer ε")
    parser.add_argument("--only", choices=list(SECTIONS), action="append")
    parser.add_argument("--table", action="append", default=[], metavar="NAME", help="this table, whatever its size")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+")
    parser.add_argument("--fewest", type=int, default=FEWEST, help="rows of the smallest table")
    given = parser.parse_args()
    epsilons = given.epsilon or (QUICK_EPSILONS if given.quick else EPSILONS)
    seeds = given.seeds or (2 if given.quick else SEEDS)
    choice = Choice(epsilons, seeds, given.fewest, given.table, lambda line: print(line, flush=True))
    for name in given.only or SECTIONS:
        print(f"# {name}")
        for what, figure, bar, met in SECTIONS[name](choice):
            print(f"| {what} | {figure} | {bar} | {'' if met is None else 'yes' if met else '**no**'} |")


if __name__ == "__main__":
    main()
