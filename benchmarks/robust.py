"""Kendall's tau: nanoseconds per pair, beside a vectorised loop over rows, memory, and a million rows.

Run by `make bench`, or alone: `python benchmarks/run.py robust`. The loop is what one writes in NumPy without thinking:
for each row the signs of its differences to all later rows, and their product.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _memory import IMPORT

Line = tuple[str, str, str, bool | None]
MEMORY = """
import numpy as np
from dpeigen.stats import kendall_tau
X = np.random.default_rng(0).normal(size=({n}, {d}))
kendall_tau(X[:2000])
before = peak()
kendall_tau(X)
print(peak() - before)
"""


def normal(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)) * np.linspace(3, 1, d)


def row_loop(X: np.ndarray) -> np.ndarray:
    """The peer: one row against all later ones at a time."""
    n, d = X.shape
    total = np.zeros((d, d))
    for i in range(n - 1):
        w = X[i + 1 :] - X[i]
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        total += w.T @ w
    return total * (2 / (n * (n - 1)))


def seconds(call: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def per_pair(n: int = 20_000, d: int = 50) -> Line:
    from dpeigen.stats import kendall_tau
    from dpeigen.stats.threads import workers

    X = normal(n, d)
    kendall_tau(X[:2000])
    found = 1e9 * seconds(lambda: kendall_tau(X), 3) / (n * (n - 1) / 2)
    return f"Kendall's tau, all pairs, {n:,}×{d}, {workers()} threads", f"{found:.1f} ns a pair", "≤ 25 ns", found <= 25


def beside_the_loop(n: int = 5_000, d: int = 100) -> list[Line]:
    from dpeigen.stats import kendall_tau

    X = normal(n, d)
    off = float(np.abs(kendall_tau(X) - row_loop(X)).max())
    ours = seconds(lambda: kendall_tau(X), 5)
    theirs = seconds(lambda: row_loop(X), 1)
    what = f"Kendall's tau, {n:,}×{d}, beside the loop over rows in NumPy"
    figure = f"{ours:.2f} s, the loop {theirs:.1f} s: {theirs / ours:.0f}× faster"
    return [
        (what, figure, "≥ 20×", theirs >= 20 * ours),
        ("the same, largest difference to the loop", f"{off:.1e}", "≤ 1e-10", off <= 1e-10),
    ]


def memory(n: int = 50_000, d: int = 50) -> Line:
    code = IMPORT + MEMORY.format(n=n, d=d)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extra = int(done.stdout.strip().splitlines()[-1]) / 1024
    return f"Kendall's tau, all pairs, {n:,}×{d}, peak extra memory", f"{extra:.0f} MiB", "≤ 150 MiB", extra <= 150


def a_million(n: int = 1_000_000, d: int = 50) -> Line:
    from dpeigen import PrivatePCA

    X = normal(n, d)
    found = seconds(lambda: PrivatePCA(5, epsilon=1.0, delta=1e-8, method="kendall").fit(X), 1)
    return f"fit `kendall`, {n:,}×{d}, circulant design, noise included", f"{found:.1f} s", "≤ 60 s", found <= 60


def rows() -> list[Line]:
    """(what, figure, bar, met)."""
    return [per_pair(), *beside_the_loop(), memory(), a_million()]


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")
