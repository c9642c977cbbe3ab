"""Beyond the paper: a tenth and a fifth of the rows are outliers of four kinds, and transforms that redescend.

4,000 rows with the paper's spectrum, ε = 1, nothing public but the number of rows. Outliers lie in a direction at right
angles to the two leading ones, or ("scatter") in all directions; 25 is their distance from the centre, as in the paper.
"""

from __future__ import annotations

from typing import Any

import kim_data
import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Kendall, Refined

Floats = NDArray[np.float64]
ROWS, EPSILON, DELTA = 4000, 1.0, 1e-5
KINDS = ("cluster", "near cluster", "symmetric", "scatter", "ray")
SHARES = (0.1, 0.2)
NEAR = 12.0  # about twice the length of a row in 25 columns, three times that in 10


def methods(kind: str) -> dict[str, dict[str, Any]]:
    """Options of `PrivatePCA` by the name of their column."""
    found: dict[str, dict[str, Any]] = {"robust": {"robust": True}, "refined": {"method": Refined()}}
    if kind in ("none", "cluster"):
        found["kendall, redescending"] = {"method": Kendall("redescending", "private")}
        found["kendall"] = {"method": Kendall()}
    return found


def draw(kind: str, share: float, d: int, rng: np.random.Generator) -> Floats:
    """A table with that share of outliers."""
    rows = kim_data.draw("gaussian", ROWS, d, rng)
    bad = rng.choice(ROWS, size=round(share * ROWS), replace=False)
    if not len(bad):
        return rows
    spread, place = 0.05 * rng.normal(size=(len(bad), d)), kim_data.outlier_direction(d)
    lengths = np.full(len(bad), NEAR if kind == "near cluster" else kim_data.DISTANCE)
    if kind == "scatter":
        directions = rng.normal(size=(len(bad), d))
        rows[bad] = directions * (lengths / np.linalg.norm(directions, axis=1))[:, None]
        return rows
    if kind == "symmetric":
        lengths = lengths * rng.choice([-1.0, 1.0], size=len(bad))
    if kind == "ray":
        lengths = lengths * 2 * rng.random(len(bad))
    rows[bad] = lengths[:, None] * place + spread
    return rows


def cells(seeds: range, quick: bool) -> dict[tuple[str, int, int, float, str], Floats]:
    """sinΘ by kind, share, columns and method; a share of 0 beside them."""
    found: dict[tuple[str, int, int, float, str], Floats] = {}
    places = [("none", 0.0), *((kind, share) for kind in KINDS for share in SHARES)]
    for d in (10,) if quick else (10, 25):
        for kind, share in [("cluster", 0.2)] if quick else places:
            for name, options in methods(kind).items():
                losses = []
                for seed in seeds:
                    rows = draw(kind, share, d, np.random.default_rng([seed, d, round(100 * share)]))
                    fitted = PrivatePCA(2, epsilon=EPSILON, delta=DELTA, random_state=seed, **options).fit(rows)
                    losses.append(sin_theta(fitted.components_, kim_data.plane(d)))
                law = kind if not share else f"{kind} {100 * share:.0f}%"
                found[f"outliers: {law}", d, ROWS, EPSILON, name] = np.array(losses)
    return found
