"""Sparse second moments against dense ones of the same CSR matrix: processor time of one pass, one thread.

Rows without a centre and with a public bound, the case of `gaussian`, `laplace` and `matrix-laplace`. Both passes give
the same integers. The ratio says from which share of stored cells on sparse sums stop paying: about 9%, and
`dpeigen.sources.sparse` takes them up to 5%.

    python benchmarks/sparse_rows.py
"""

from __future__ import annotations

import time
from typing import Any

from scipy import sparse
from threadpoolctl import threadpool_limits

from dpeigen.sources.sparse import SparseSource
from dpeigen.stats import Frame, Lattice, SecondMoment

SHAPES = ((50_000, 100), (20_000, 200), (20_000, 1000))
SHARES = (0.001, 0.01, 0.05, 0.1)


def seconds(matrix: Any, stored: Any) -> float:
    """One pass, sparse where ``stored`` is given."""
    source = SparseSource(matrix)
    source.__dict__["_stored"] = stored
    begun = time.process_time()
    source.reduce(SecondMoment(Lattice(Frame(matrix.shape[1]), 3.0)))
    return time.process_time() - begun


def rows() -> list[tuple[str, str, str, bool | None]]:
    """Ratios dense/sparse; up to 1% of stored cells sparse sums must be faster."""
    found = []
    with threadpool_limits(1):
        for n, d in SHAPES:
            for share in SHARES:
                matrix = sparse.random(n, d, density=share, format="csr")
                pairs = [(seconds(matrix, None), seconds(matrix, matrix)) for _ in range(3)]
                ratio = min(dense for dense, _ in pairs) / min(thin for _, thin in pairs)
                barred = share <= 0.01
                what = f"dense/sparse time, {n:,} × {d:,}, {100 * share:g}% of the cells stored"
                found.append((what, f"{ratio:.1f}", "≥ 1.5" if barred else "", ratio >= 1.5 if barred else None))
    return found


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(map(str, row)))
