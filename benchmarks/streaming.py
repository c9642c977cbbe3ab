"""One-pass methods: rows per second, memory against the length of the stream, and where adaptive noise shines.

Run by `make bench`, or alone: `python benchmarks/run.py streaming`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _memory import IMPORT

D = 50
SPEED = {"dp-pca": (1_000_000, 300_000), "oja": (100_000, 30_000), "oja, batches": (400_000, 30_000)}  # rows, bar
SETTLED = 60  # blocks of 10,000 rows; batches of 50 columns have their largest size from 335,000 rows on
CHILD = """
import numpy as np
from dpeigen import PrivatePCA
rng = np.random.default_rng(0)
pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, method={method!r}, bound={bound})
base = rng.normal(size=(10_000, {d}))
for block in range({blocks}):
    pca.partial_fit(base)
    if block == {settled} - 1:
        before = peak()
print(peak() - before, pca.n_samples_seen_)
"""


def rows_per_second(name: str) -> tuple[float, float]:
    """By the clock and by the processor's time, medians of three fits after a warm-up."""
    from dpeigen import PrivatePCA
    from dpeigen.methods import Oja

    n, _ = SPEED[name]
    X = np.random.default_rng(0).normal(size=(n, D)) * np.r_[4.0, np.ones(D - 1)]
    method = Oja(batch="auto") if name == "oja, batches" else name
    pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, method=method, bound=None if name == "dp-pca" else 12.0, center=None)
    pca.fit(X[:60_000])
    times, busy = [], []
    for _ in range(3):
        start, spent = time.perf_counter(), time.process_time()
        pca.fit(X)
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - spent)
    return n / statistics.median(times), n / statistics.median(busy)


def extra_memory(method: str, blocks: int) -> float:
    """MiB that the peak rises by between the row from which batches no longer grow and the end of the stream."""
    bound = None if method == "dp-pca" else 12.0
    code = IMPORT + CHILD.format(method=method, bound=bound, d=D, blocks=blocks, settled=SETTLED)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1024


def low_noise_ratio() -> float:
    """Error of dp-pca over that of gaussian for ±v + 0.001·noise, 100,000 × 20, mean of 5."""
    from dpeigen import PrivatePCA

    errors: dict[str, list[float]] = {"dp-pca": [], "gaussian": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        v = rng.normal(size=20)
        v /= np.linalg.norm(v)
        X = rng.choice([-1.0, 1.0], size=(100_000, 1)) * v + 1e-3 * rng.normal(size=(100_000, 20))
        for method, found in errors.items():
            bound = 1.01 if method == "gaussian" else None
            options = {"epsilon": 1.0, "delta": 1e-6, "bound": bound, "center": None, "random_state": seed}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded on purpose, on synthetic data
                c = PrivatePCA(1, method=method, **options).fit(X).components_[0]
            found.append(float(np.linalg.norm(c - (c @ v) * v)))
    return float(np.mean(errors["dp-pca"]) / np.mean(errors["gaussian"]))


def rows() -> list[tuple[str, str, str, bool | None]]:
    """(what, figure, bar, met)."""
    found: list[tuple[str, str, str, bool | None]] = []
    for name, (n, bar) in SPEED.items():
        speed, alone = rows_per_second(name)
        figure = f"{speed:,.0f} rows/s ({alone:,.0f} per second of processor time)"
        found.append((f"`{name}`, {n:,}×{D}", figure, f"≥ {bar:,} rows/s", speed >= bar))
    for method in ("dp-pca", "oja"):
        short, long = extra_memory(method, 2 * SETTLED), extra_memory(method, 4 * SETTLED)
        figure = f"{short:.0f} MiB over 1,200,000 rows, {long:.0f} MiB over 2,400,000"
        found.append((f"`{method}` stream, peak above that at 600,000 rows", figure, "no growth (≤ 4 MiB)", long <= 4))
    ratio = low_noise_ratio()
    what = "±v + 0.001·noise, 100,000×20: error of `dp-pca` over that of `gaussian`"
    return [*found, (what, f"{ratio:.2f}", "≤ 0.5", ratio <= 0.5)]


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")
