"""How many terms a quick bound on the length of transformed rows needs (`stats/nearly_round.py`), and what it saves.

`python benchmarks/inside.py [SEED]` fits the tables of `benchmarks/scale.py`, takes the map of the last moment, and
shows for several numbers of terms how loose the bound is, for how many rows it decides nothing, and its processor time
relative to a product with a triangle. None of this changes a release.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from scale import _table

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.stats import nearly_round, whole

CASES = (("normal", 200_000, 100), ("correlated", 200_000, 100), ("mixed", 200_000, 100), ("correlated", 1_000_000, 50))


def seconds(call: Callable[[], object], turns: int = 15) -> float:
    found = []
    for _ in range(turns):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found)


def last_take(fit: Callable[[], object]) -> tuple[whole.Turn, np.ndarray, float] | None:
    """The map, some rows and the limit of the last moment of a fit; None if rows are not transformed there."""
    seen, take = [], whole.WholeRows.take

    def noted(self: whole.WholeRows, block: np.ndarray, levels: int, size: int) -> tuple:
        if not seen:
            seen.append((self.turn, self.turn.rows(block[:2048]).astype(np.float32), self._limit(levels)))
        return take(self, block, levels, size)

    whole.WholeRows.take = noted
    try:
        fit()
    finally:
        whole.WholeRows.take = take
    return seen[0] if seen else None


def show(turn: whole.Turn, rows: np.ndarray, limit: float) -> None:
    triangle, d = seconds(lambda: turn.doubtful(rows.copy(), limit)), rows.shape[1]
    matrix = turn.integers * np.ldexp(1.0, -turn.exponents)[:, None]
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    print("  terms chosen:", None if turn.quick is None else turn.quick.parts.shape[1])
    for terms in range(0, d // 2 + 1, 8):
        loose = (values[-1] / values[terms:] - 1).sum() / d
        bound = nearly_round._with_terms(values[-1] * (1 + 1e-9), values[:terms], vectors[:, :terms])
        left = len(bound.beyond(rows, limit)) / len(rows)
        share = seconds(lambda bound=bound: bound.beyond(rows, limit)) / triangle
        print(f"  {terms:3d} terms: looseness {loose:.2f}, undecided {left:.3f}, time {share:.2f}", flush=True)


def main(seed: int) -> None:
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    for kind, n, d in CASES:
        X = _table(kind, (n, d))
        given = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed}
        for ours in (PrivatePCA(2, **given), PrivateCovariance(**given)):
            with threadpool_limits(1):
                found = last_take(lambda ours=ours, X=X: ours.fit(X))
                print(f"{kind} {n:,}×{d} {type(ours).__name__}", "" if found else ": rows are not transformed")
                if found:
                    show(*found)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
