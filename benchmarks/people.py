"""People with several rows: what all their rows bring, what clipping them together brings, and what it costs.

- Accuracy: sinΘ of fits with all rows of the same people over that of fits with one row each, the same seeds.
- ``max_rows``: errors on two real panels (rwm5yr, LaborSupply) when the rows of a person are clipped together, over
  those when each row is clipped to the radius by itself, which was the way of an earlier version.
- Time: a fit with a unit over the same fit without, in memory and from a Parquet file; and memory.

`python benchmarks/people.py [accuracy|panels|time|parquet …]` runs it, or parts of it, by itself. The panels are read
from the folders named by DPEIGEN_DATA (in `tables/`) or DPEIGEN_TABLES, and left out where they are in neither.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _memory import IMPORT

Row = tuple[str, str, str, "bool | None"]
PANELS = {
    "rwm5yr": (
        ["docvis", "hospvis", "age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"], (0.5, 2.0)
    ),
    "LaborSupply": (["lnhr", "lnwg", "kids", "age", "disab"], (3.0, 10.0)),
}  # fmt: skip
FITS, PANEL_FITS = 30, 12


# --- accuracy ---------------------------------------------------------------------------------------------------------


def drawn(kind: str, people: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, ids and the true leading plane. "correlated": half of the variance is between people."""
    rng = np.random.default_rng([seed, people, d])
    ids = np.repeat(np.arange(people), rng.integers(1, 12, people))
    between = rng.normal(size=(people, d))[ids] if kind == "correlated" else 0.0
    turn = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    levels = np.append([2.0, 1.6], np.ones(d - 2))
    return (between + rng.normal(size=(len(ids), d))) * levels @ turn, ids, turn[:2]


def accuracy() -> Iterator[Row]:
    from dpeigen import PrivatePCA
    from dpeigen.stats import sin_theta

    for kind in ("correlated", "independent"):
        for method, bound in (("auto", None), ("gaussian", "private"), ("spatial-sign", None)):
            for people, d, epsilon in ((600, 5, 8.0), (5000, 8, 1.0)):
                errors: dict[str, list[float]] = {"all": [], "one": [], "capped": []}
                for seed in range(FITS):
                    rows, ids, truth = drawn(kind, people, d, seed)
                    _, first = np.unique(ids, return_index=True)
                    options: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "method": method, "bound": bound}
                    for name, part, most in (
                        ("all", slice(None), None),
                        ("one", first, None),
                        ("capped", slice(None), 30),
                    ):
                        fit = PrivatePCA(2, **options, max_rows=most, random_state=seed).fit(rows[part], unit=ids[part])
                        errors[name].append(sin_theta(fit.components_, truth))
                ratio = np.mean(errors["all"]) / np.mean(errors["one"])
                what = f"all rows over one row each, {kind} rows, `{method}`, {people:,} people × {d}, ε = {epsilon:g}"
                figure = f"{ratio:.2f}× (sinΘ {np.mean(errors['all']):.3f} over {np.mean(errors['one']):.3f})"
                yield what, figure, "≤ 1.05×", bool(ratio <= 1.05)
                ratio = np.mean(errors["capped"]) / np.mean(errors["one"])
                yield "… with max_rows=30", f"{ratio:.2f}×", "≤ 1.05×", bool(ratio <= 1.05)


# --- rows of a person clipped together --------------------------------------------------------------------------------


def panel(name: str) -> Any:
    import pandas as pd

    places = [Path(os.environ.get("DPEIGEN_DATA", ".")) / "tables", Path(os.environ.get("DPEIGEN_TABLES", "."))]
    found = next((place / f"{name}.csv" for place in places if (place / f"{name}.csv").exists()), None)
    return None if found is None else pd.read_csv(found)[[*PANELS[name][0], "id"]]


def true_correlation(table: Any, most: int) -> np.ndarray:
    """Each row counts alike, but of nobody more than ``most``: what a random choice of their rows has on average."""
    rows, ids = table.drop(columns="id").to_numpy(float), table["id"].to_numpy()
    _, codes, counts = np.unique(ids, return_inverse=True, return_counts=True)
    covariance = np.cov(rows.T, aweights=np.minimum(1, most / counts)[codes], ddof=0)
    deviations = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviations, deviations)


@contextmanager
def each_by_itself() -> Iterator[None]:
    """Rows clipped to the radius one by one, which was measured on one row of each person."""
    from dpeigen.methods.base import Task
    from dpeigen.stats.lattice import Lattice
    from dpeigen.stats.norms import NormHistogram, NormHistograms

    changes = [
        (Lattice, "clips", property(lambda _: False)),
        (NormHistogram, "takes_capped", False),
        (NormHistograms, "takes_capped", False),
        (Task, "units_per_term", property(lambda _: 1.0)),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def panel_errors(table: Any, most: int, epsilon: float, relation: str) -> dict[str, float]:
    from dpeigen import PrivateCovariance

    truth, d = true_correlation(table, most), table.shape[1] - 1
    standard = table.copy()
    columns = [name for name in table if name != "id"]
    standard[columns] = (table[columns] - table[columns].mean()) / table[columns].std(ddof=0)
    errors: dict[str, list[float]] = {"auto": [], "gaussian": []}
    for seed in range(PANEL_FITS):
        options: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "unit": "id", "max_rows": most}
        options |= {"relation": relation, "random_state": seed}
        found = PrivateCovariance(**options).fit(table).release_.correlation
        errors["auto"].append(float(np.linalg.norm(found - truth)))
        plain = PrivateCovariance(method="gaussian", bound="private", center=np.zeros(d), **options).fit(standard)
        errors["gaussian"].append(float(np.linalg.norm(plain.release_.covariance - truth)))
    return {name: float(np.mean(values)) / np.sqrt(d * (d - 1)) for name, values in errors.items()}


def panels() -> Iterator[Row]:
    for name, (_, epsilons) in PANELS.items():
        table = panel(name)
        if table is None:
            yield f"{name}", "not at hand", "", None
            continue
        for most in (2, 5):
            ratios: dict[str, list[float]] = {"auto": [], "gaussian": []}
            for epsilon in epsilons:
                for relation in ("replace", "add_remove"):
                    together = panel_errors(table, most, epsilon, relation)
                    with each_by_itself():
                        apart = panel_errors(table, most, epsilon, relation)
                    for method, error in together.items():
                        ratios[method].append(error / apart[method])
            for method, found in ratios.items():
                mean = float(np.exp(np.mean(np.log(found))))
                label = (
                    "correlations, default" if method == "auto" else "covariance of standardised columns, `gaussian`"
                )
                what = f"{name}, max_rows={most}, {label}: error clipped together over one by one"
                figure = f"{mean:.2f}× on average, {max(found):.2f}× at most, over two ε and both relations"
                yield what, figure, "≤ 1× on average", mean <= 1


# --- time and memory --------------------------------------------------------------------------------------------------


def in_turns(calls: list[Callable[[], object]], repeat: int = 3) -> list[float]:
    """Median processor seconds of each, after one warm-up, taken in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(repeat + 1):
        for call, found in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if turn:
                found.append(time.process_time() - start)
    return [statistics.median(found) for found in times]


def memory_speed(n: int = 1_000_000, d: int = 50) -> Iterator[Row]:
    from dpeigen import PrivatePCA

    rng = np.random.default_rng(0)
    rows, ids = rng.normal(size=(n, d)), rng.integers(0, n // 10, n)
    for method, bound in (("gaussian", 10.0), ("gaussian", "private"), ("auto", None)):
        options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "method": method, "bound": bound}
        alone, shared, capped = in_turns([
            lambda options=options: PrivatePCA(5, **options).fit(rows),
            lambda options=options: PrivatePCA(5, **options).fit(rows, unit=ids),
            lambda options=options: PrivatePCA(5, max_rows=10, **options).fit(rows, unit=ids),
        ])  # fmt: skip
        what = f"fit `{method}`, bound={bound!r}, {n:,}×{d} in memory, {n // 10:,} people"
        figure = f"{shared / alone:.2f}× without a unit ({shared:.2f} s of a processor over {alone:.2f} s)"
        yield what, figure, "≤ 1.5×", shared / alone <= 1.5
        yield "… with max_rows=10: lengths of all rows are found first", f"{capped / alone:.2f}×", "", None


FIT = """
from dpeigen import PrivatePCA
from dpeigen.sources import open_source
source = open_source(path, columns=[f"x{j}" for j in range(WIDTH)], unit=UNIT)
PrivatePCA(2, epsilon=1.0, delta=1e-6, method="gaussian", bound=9.0, max_rows=MOST).fit(source)
"""
SCRIPT = """
import json, time
import numpy, pyarrow.dataset, sklearn.decomposition, dpeigen, opendp.measurements
path = PATH
start = time.process_time()
CODE
print(json.dumps(dict(cpu=time.process_time() - start, peak=peak() / 1024)))
"""


def written(path: Path, n: int, d: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, group = np.random.default_rng(0), 2**17
    kinds = [("who", pa.int64()), ("text", pa.string()), ("uuid", pa.string())]
    schema = pa.schema([*((f"x{j}", pa.float32()) for j in range(d)), *kinds])
    names = pa.array([f"patient-{number:07d}" for number in range(n // 10)])
    digits = rng.bytes(16 * (n // 10)).hex()
    marked = (digits[at : at + 32] for at in range(0, len(digits), 32))
    uuids = pa.array(["-".join((t[:8], t[8:12], t[12:16], t[16:20], t[20:])) for t in marked])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for start in range(0, n, group):
            rows = min(group, n - start)
            who = rng.integers(0, n // 10, rows)
            text = [each.take(pa.array(who)) for each in (names, uuids)]
            columns = [*rng.standard_normal((d, rows), dtype=np.float32), who, *text]
            file.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema))
    return path


def measured(path: Path, d: int, unit: str | None, most: int | None) -> dict[str, float]:
    code = FIT.replace("WIDTH", str(d)).replace("UNIT", repr(unit)).replace("MOST", repr(most))
    script = IMPORT + SCRIPT.replace("PATH", repr(str(path))).replace("CODE", code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


IDS = {"who": "integer ids", "text": "ids of 15 characters", "uuid": "ids of 36 characters (UUIDs)"}


def parquet() -> Iterator[Row]:
    yield from parquet_speed(1_000_000, 50, 0.5)
    yield from parquet_speed(10_000_000, 10, None)


def parquet_speed(n: int, d: int, least: float | None) -> Iterator[Row]:
    """Rows per second with a unit over those without, and the memory that ids take; ``least``: the bar, for speed."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "t.parquet", n, d)
        fits = [(None, None), *((name, None) for name in IDS), ("who", 10)]
        runs = [[measured(path, d, unit, most) for _ in range(3)] for unit, most in fits]
    alone, *others = ({name: min(run[name] for run in each) for name in ("cpu", "peak")} for each in runs)
    table = f"Parquet, {n:,}×{d} float32, {n // 10:,} people, `gaussian` with a public bound"
    bar = "" if least is None else f"≥ {least:g}×"
    for what, found in zip((*IDS.values(), "max_rows=10: lengths of all rows are found first"), others, strict=True):
        ratio, extra, capped = alone["cpu"] / found["cpu"], found["peak"] - alone["peak"], "max_rows" in what
        met = None if least is None or capped else ratio >= least
        figure = f"{ratio:.2f}× those without ({found['cpu']:.1f} s of a processor over {alone['cpu']:.1f} s)"
        yield f"{table}, {what}: rows/s with a unit", figure, "" if capped else bar, met
        yield "… memory beyond that without a unit", f"{extra:.0f} MiB", "≤ 500 MiB", extra <= 500


PARTS = {"accuracy": accuracy, "panels": panels, "time": memory_speed, "parquet": parquet}


def rows() -> Iterator[Row]:
    """For `benchmarks/run.py`."""
    warnings.simplefilter("ignore")
    for part in PARTS.values():
        yield from part()


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or PARTS:
        for what, figure, bar, met in PARTS[name]():
            print(what, figure, bar, "" if met is None else "yes" if met else "no", sep=" | ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
