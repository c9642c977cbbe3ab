"""`refined` beside `spatial-sign` and published `spiked` in one run: errors against bars, and time.

Run by `make bench`, or alone: `python benchmarks/run.py spiked`. Rows: p = 50, three variances 1 + λ among ones,
(ε, δ) = (1, 1e-5), one row replaced, centre known. Seeded, on synthetic data: nothing here is private.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

P, RANK, RUNS = 50, 3, 10
BARS = {(5000, 10): 0.25, (5000, 50): 0.09, (5000, 1000): 0.03, (20000, 1000): 0.008}


def draw(n: int, signal: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(P, RANK)))[0].T
    return rng.normal(size=(n, P)) + math.sqrt(signal) * rng.normal(size=(n, RANK)) @ basis, basis


def rows() -> list[tuple[str, str, str, bool | None]]:
    from dpeigen import PrivatePCA
    from dpeigen.evaluation import projection_distance
    from dpeigen.methods import Spiked

    found: list[tuple[str, str, str, bool | None]] = []
    seconds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (n, signal), bar in BARS.items():
            errors: dict[str, list[float]] = {}
            for seed in range(RUNS):
                X, basis = draw(n, signal, seed)
                for method in ("refined", "spatial-sign", Spiked(float(signal), 1.0, constants="published")):
                    start = time.perf_counter()
                    fitted = PrivatePCA(
                        RANK, epsilon=1.0, delta=1e-5, method=method, center=None, random_state=seed
                    ).fit(X)
                    name = method if isinstance(method, str) else "published spiked"
                    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
                    errors.setdefault(name, []).append(projection_distance(fitted.components_, basis))
            ours, plain, theirs = (float(np.mean(errors[m])) for m in ("refined", "spatial-sign", "published spiked"))
            what = f"refined, n = {n}, λ = {signal} (spatial-sign {plain:.3g}, published spiked {theirs:.3g})"
            found.append((what, f"{ours:.3g} ({RUNS} runs)", f"≤ {bar:g}", ours <= bar))
    ratio = seconds["refined"] / seconds["spatial-sign"]
    found.append(("refined, time of a fit over that of spatial-sign", f"{ratio:.1f}×", "", None))
    return found
