"""The studio's forecasts beside real errors on public tables: how far they are apart, and whether they are too rosy.

    DPEIGEN_DATA=data DPEIGEN_TABLES=public-tables python benchmarks/forecasts.py [--every 3] [--holes] [--epsilon 1]

A forecast knows what a person declares: numbers, truth values, categories, and the number of rows. The real error is
the median of three seeded releases of the table, against the answer without privacy on the same rows. ``--holes``
blanks 5% of the cells of both. Printed: quantiles of forecast / real, and the share of tables inside
and above the range that is shown.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from dpeigen.sources.declared import Declared
from dpeigen.studio.foresee import Facts, refined
from dpeigen.studio.made_up import HOLES, ColumnFacts, MadeUpTable
from dpeigen.studio.trial import Asked, tried

QUESTIONS, RUNS, FEWEST, MOST_LEVELS = ("pca", "covariance", "ridge"), 3, 1500, 8


def frames() -> Iterator[tuple[str, pd.DataFrame]]:
    """Every table at hand."""
    from sklearn import datasets

    for name in ("breast_cancer", "wine", "diabetes", "digits"):
        yield name, getattr(datasets, f"load_{name}")(as_frame=True).data
    for variable, below in (("DPEIGEN_DATA", "tables"), ("DPEIGEN_TABLES", "")):
        if variable in os.environ:
            for path in sorted((Path(os.environ[variable]) / below).glob("*.csv")):
                yield path.stem, pd.read_csv(path, low_memory=False)


def declared(frame: pd.DataFrame, holes: bool) -> tuple[tuple[ColumnFacts, ...], MadeUpTable]:
    """What a person would declare, and the complete rows as a table of which everything is known."""
    kept = [c for c in frame if frame[c].isna().mean() <= 0.3 and c != "rownames"]
    frame = frame[kept].dropna()
    facts, parts, names, flags, schema = [], [], list[str](), list[bool](), {}
    for name in frame:
        column = frame[name].astype(float) if frame[name].dtype == bool else frame[name]
        number, levels = pd.api.types.is_numeric_dtype(column), sorted(column.unique())
        whole = number and bool(np.all(column == np.floor(column)))
        if len(levels) < 2 or (whole and len(levels) == len(column)) or (not number and len(levels) > MOST_LEVELS):
            continue
        if len(levels) == 2 or number:
            parts.append(((column == levels[1]) if len(levels) == 2 else column).to_numpy(dtype=float)[:, None])
            facts.append(ColumnFacts("bool" if len(levels) == 2 else "number"))
            names.append(str(name))
        else:
            parts.append(np.column_stack([column == level for level in levels]).astype(float))
            facts.append(ColumnFacts("category", len(levels)))
            schema[str(name)] = Declared(categories=tuple(map(str, levels)))
            names += [f"{name}={level}" for level in levels]
        flags += [facts[-1].kind == "category"] * facts[-1].features
    rows = np.column_stack(parts) if parts else np.empty((0, 0))
    gone = np.random.default_rng(0).random((len(rows), len(facts))) < (HOLES if holes else 0)
    seen = np.where(np.repeat(gone, [f.features for f in facts], axis=1), np.nan, rows) if parts else rows
    return tuple(facts), MadeUpTable(rows, seen, None, tuple(names), np.array(flags), schema, ((), ()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--holes", action="store_true")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    missing, found = "correct" if given.holes else "refuse", {q: [] for q in QUESTIONS}
    for name, frame in list(frames())[given.start :: given.every]:
        columns, table = declared(frame, given.holes)
        n, d = table.complete.shape
        if n < FEWEST or not 4 <= d <= 60 or table.flags.all():
            continue
        target = int(np.flatnonzero(~table.flags)[0])
        for question in QUESTIONS:
            asked = Asked(question, 2, given.epsilon, given.delta, True, False, "replace", missing, None, None, target)
            runs = [run for seed in range(RUNS) if (run := tried(asked, table, seed)) is not None]
            facts = Facts(question, n, columns, 2, given.epsilon, given.delta, missing=missing, target=target)
            forecast = refined(facts)
            if runs and forecast.error is not None:
                real = float(np.median([run.error for run in runs]))
                found[question].append((forecast.error / real, forecast.low <= real, real <= forecast.high))
                if given.show:
                    print(f"{name:40.40} {question:10} {n:6,} x {d:2}: real {real:.3g}, forecast {forecast.error:.3g} "
                          f"({forecast.low:.3g} to {forecast.high:.3g})")  # fmt: skip
    for question, cells in found.items():
        ratios = np.array([ratio for ratio, _, _ in cells])
        quantiles = ", ".join(f"{q:.2f}" for q in np.quantile(ratios, (0.1, 0.25, 0.5, 0.75, 0.9)))
        inside = np.mean([low and high for _, low, high in cells])
        above = np.mean([not high for _, _, high in cells])
        apart = np.exp(np.median(np.abs(np.log(ratios))))
        print(f"{question:10} {len(cells)} tables: forecast / real at 10, 25, 50, 75, 90%: {quantiles}; "
              f"a factor of {apart:.2f} apart in the middle; inside {inside:.0%}, above {above:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
