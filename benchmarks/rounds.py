"""How many rounds of rough moments `whitened` takes, and what leaving some out does to its errors.

`python benchmarks/rounds.py [SEEDS]` fits covariances of correlated rows with seeds from 100 on (10 of them by
default): rounds, and the error relative to all directions, without the rule that ends rounds where rows did not become
shorter, and with it.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from scale import _table

from dpeigen import PrivateCovariance
from dpeigen.methods.moment import rounds

FIRST, SEEDS = 100, 10


def cases() -> Iterator[tuple[str, np.ndarray, dict[str, Any], dict[str, Any]]]:
    rows, whose = _table("correlated", (20_000, 12)), np.random.default_rng(0).integers(0, 8_000, 20_000)
    yield "100,000×30", _table("correlated", (100_000, 30)), {}, {}
    yield "20,000×12 inside bounds", rows, {"bound": (-8.0, 8.0)}, {}
    yield "20,000×12 of 8,000 people, ε = 2", rows, {"epsilon": 2.0}, {"unit": whose}
    yield "the same, max_rows=3", rows, {"epsilon": 2.0, "max_rows": 3}, {"unit": whose}
    yield "100,000×12, ε = 2, δ = 0", _table("correlated", (100_000, 12)), {"epsilon": 2.0, "delta": 0.0}, {}


def measured(rows: np.ndarray, options: dict[str, Any], given: dict[str, Any], seeds: int) -> tuple[float, float]:
    """The mean number of rounds, and the mean error."""
    asked, ask, errors = [], rounds.ask_moment, []
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(rows.T)))
    rounds.ask_moment = lambda *facts, **more: asked.append(1) or ask(*facts, **more)  # type: ignore[assignment]
    try:
        for seed in range(FIRST, FIRST + seeds):
            fit = PrivateCovariance(**{"epsilon": 1.0, "delta": 1e-6, "random_state": seed, **options})
            found = fit.fit(rows, **given).covariance_
            errors.append(np.linalg.norm(whiten @ found @ whiten.T - np.eye(len(found))))
    finally:
        rounds.ask_moment = ask
    return len(asked) / seeds, float(np.mean(errors))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted, rule = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS, rounds._STILL
    for name, table, options, given in cases():
        found = []
        for rounds._STILL in (math.inf, rule):
            found.append(measured(table, options, given, wanted))
        (more, before), (fewer, after) = found
        print(f"| {name} | {more:.1f}, {fewer:.1f} | {before:.3f}, {after:.3f} |", flush=True)
