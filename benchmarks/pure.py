"""Eigenvector sampling beside diffprivlib's and OpenDP's PCA, each in a process of its own with a time limit.

Run by `make bench`, or alone: `python benchmarks/run.py pure`. The peers run in the environments that `peers.py` makes;
one that cannot be installed is reported and skipped.

A time limit is a lower bound: what "did not finish" is at least that much slower. The peers' rejection step divides by
the envelope where it must multiply, so where they finish they draw from another law than they say.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import time

import numpy as np
from peers import environment

LIMIT = 20.0  # seconds for each peer, importing not counted
IMPORTING = 40.0  # seconds
SIZES = ((10, 10), (20, 5), (110, 110), (400, 10))  # columns, directions
BARS = {(110, 110): 3.0, (400, 10): 10.0}
N_ROWS = 10_000
PEERS = {
    "diffprivlib": (
        "from diffprivlib.models import PCA",
        "PCA(k, epsilon=1.0, centered=True, data_norm=1.0).fit(X)",
    ),
    "opendp": (
        "import randomgen, opendp.prelude as dp; "
        "dp.enable_features('contrib', 'honest-but-curious', 'floating-point', 'idealized-numerics'); "
        "from opendp.extras.sklearn.decomposition import PCA",
        "PCA(epsilon=1.0, row_norm=1.0, n_samples=len(X), n_features=d, n_components=k).fit(X)",
    ),
}
CHILD = """
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {here!r})
{load}
from pure import spiked
d, k = {d}, {k}
X = spiked(d)
start = time.perf_counter()
{fit}
print(time.perf_counter() - start, flush=True)
"""


def spiked(d: int, n: int = N_ROWS) -> np.ndarray:
    """Gaussian rows clipped to the unit ball; five directions hold 70% of the variance."""
    spikes = 5
    variances = np.full(d, 0.3 / (d - spikes))
    variances[:spikes] = 0.7 / spikes
    X = np.random.default_rng(0).normal(size=(n, d)) * np.sqrt(variances)
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def ours(d: int, k: int) -> float:
    """Median seconds of a fit, the whole covariance where k = d."""
    from dpeigen import PrivateCovariance, PrivatePCA

    settings = {"epsilon": 1.0, "method": "eigenvector-sampling", "bound": 1.0, "center": None}
    X, times = spiked(d), []
    for _ in range(4):
        start = time.perf_counter()
        (PrivateCovariance(**settings) if k == d else PrivatePCA(k, **settings)).fit(X)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def peer(name: str, d: int, k: int) -> tuple[float | None, str]:
    """Seconds of the peer's fit, or None and why not."""
    load, fit = PEERS[name]
    code = CHILD.format(here=os.path.dirname(os.path.abspath(__file__)), load=load, fit=fit, d=d, k=k)
    python, why = environment(name)
    if python is None:
        return None, why
    try:
        done = subprocess.run([python, "-c", f"{load}"], capture_output=True, text=True, timeout=IMPORTING, check=False)
        if done.returncode:
            return None, f"does not import: {(done.stderr.strip().splitlines() or ['no message'])[-1][:80]}"
        # The second import is quick, so a few seconds are enough for it and for making the data.
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=LIMIT + 5, check=False)
    except subprocess.TimeoutExpired:
        return None, f"did not finish in {LIMIT:g} s"
    if done.returncode:
        return None, f"fails: {(done.stderr.strip().splitlines() or ['no message'])[-1][:80]}"
    return float(done.stdout.strip().splitlines()[-1]), ""


def rows() -> list[tuple[str, str, str, bool | None]]:
    """(what, figure, bar, met) for each size: ours, then each peer."""
    found: list[tuple[str, str, str, bool | None]] = []
    for d, k in SIZES:
        seconds = ours(d, k)
        bar = BARS.get((d, k))
        what = f"d = {d}, whole covariance" if k == d else f"d = {d}, k = {k}"
        found.append(
            (
                f"eigenvector-sampling, {what}, {N_ROWS:,} rows, ε = 1",
                f"{seconds:.3f} s",
                "" if bar is None else f"≤ {bar:g} s",
                None if bar is None else seconds <= bar,
            )
        )
        for name in PEERS:
            theirs, why = peer(name, d, k)
            if theirs is None:
                figure = why + (f": ≥ {LIMIT / seconds:.0f}× ours" if "did not finish" in why else "")
            else:
                figure = f"{theirs:.3f} s, {theirs / seconds:.1f}× ours"
            found.append((f"{name} PCA, {what}", figure, "", None))
    return found


if __name__ == "__main__":
    if importlib.util.find_spec("dpeigen") is None:
        raise SystemExit("dpeigen is not installed here.")
    for line in rows():
        print(*line, sep=" | ")
