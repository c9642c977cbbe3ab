"""Tables as they are: the messy table of the tests beside its truth, and how fast files are read.

`python benchmarks/run.py mixed`. The table is that of tests/cli/messy_table.py: visits of 8,000 patients, 3 to 8% of
the cells missing, categories, dates, skewed amounts; the truth is factor analysis of mixed data of the complete table.
Reading is timed beside PyArrow's own reader of the same file, in one thread of ours, the two in turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

RUNS = 15
ROWS = 400_000
LEAST = 0.98, 0.95


def messy(folder: Path) -> list[tuple]:
    """Cosines of the first two components with those of the complete table, at ε = 2."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cli"))
    import messy_table

    from dpeigen import PrivatePCA
    from dpeigen.cli._config import read_study
    from dpeigen.sources import open_source

    ids, columns = messy_table.drawn()
    names, _, truth = messy_table.truth(ids, columns)
    used = "\n\n".join(f'[columns."{name}"]\n{messy_table.SETTINGS[name]}' for name in messy_table.NAMES)
    (folder / "study.toml").write_text(used, encoding="utf-8")
    declared, rows = read_study(folder / "study.toml").columns, []
    office = {"separator": ";", "decimal": ",", "encoding": "latin-1", "date_format": "%d.%m.%Y"}
    for how, what in ((office, "semicolons, decimal commas, latin-1"), ({}, "plain CSV")):
        path = messy_table.written(folder / "visits.csv", ids, columns, office=bool(how))
        found = []
        for seed in range(RUNS):
            source = open_source(path, columns=declared, unit="patient", **how)
            options = {"scale": "private", "missing": "correct", "random_state": seed}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = PrivatePCA(2, epsilon=2.0, delta=1e-6, **options).fit(source)
            assert fitted.release_.feature_names == names
            found.append(np.abs((fitted.components_ * truth[:2]).sum(axis=1)))
        worst, middle = np.min(found, axis=0), np.median(found, axis=0)
        for k in range(2):
            title = f"messy table, 8,000 patients, ε = 2, {what}: cosine of component {k + 1}"
            figure = f"{middle[k]:.4f} (worst of {RUNS} runs {worst[k]:.4f})"
            rows.append((title, figure, f"≥ {LEAST[k]:g}", bool(worst[k] >= LEAST[k])))
    return rows


def reading(folder: Path) -> list[tuple]:
    """Rows a second of a file of numbers, and of one of mixed columns, beside PyArrow's reader."""
    import pyarrow.csv

    from dpeigen.sources import open_source

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(ROWS, 8))
    lines = [",".join(f"x{j}" for j in range(8))]
    lines += [",".join(f"{value:.4f}" for value in row) for row in numbers]
    (folder / "numbers.csv").write_text("\n".join(lines) + "\n")
    words = rng.choice(["north", "south", "east", "west"], ROWS)
    mixed = [f"{row[0]:.4f},{np.exp(row[1]):.4f},{word},{1950 + i % 60}-03-{1 + i % 28:02}" for i, (row, word) in
             enumerate(zip(numbers, words, strict=True))]  # fmt: skip
    (folder / "mixed.csv").write_text("\n".join(["a,b,c,d", *mixed]) + "\n")
    columns = {"a": {"lower": -3, "upper": 3, "outside": "missing"}, "b": {"transform": "log"},
               "c": {"categories": ["north", "south", "east", "west"]}, "d": "date"}  # fmt: skip
    rows = []
    for name, declared in (("numbers", None), ("mixed", columns)):
        path, ours, theirs = folder / f"{name}.csv", [], []
        for _ in range(5):
            start = time.perf_counter()
            count = sum(len(block) for block in open_source(path, columns=declared).blocks())
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            options = pyarrow.csv.ReadOptions(use_threads=False)
            assert pyarrow.csv.read_csv(path, options).num_rows == count == ROWS
            theirs.append(time.perf_counter() - start)
        mine, peer = statistics.median(ours), statistics.median(theirs)
        title = f"reading a CSV of {'8 columns of numbers' if declared is None else '4 mixed columns'}, {ROWS:,} rows"
        rows.append((title, f"{ROWS / mine:,.0f} rows/s, {peer / mine:.2f}× PyArrow's reader in one thread", "", None))
    return rows


def rows() -> list[tuple]:
    """For run.py."""
    with tempfile.TemporaryDirectory() as folder:
        return [*messy(Path(folder)), *reading(Path(folder))]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep=" | ")
