"""Write the release files that later versions must be able to read, into tests/compatibility/<version>.

    python tools/compatibility.py          # at a release, after the version was set; commit the folder

4,000 made-up rows of four columns, with a seed, so that the files hold nothing private and can be made again.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpeigen import PrivateCovariance, PrivatePCA, __version__

NAMES = ["height", "weight", "age", "pulse"]
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "covariance-laplace": (PrivateCovariance, {"method": "laplace", "bound": 500.0}),
    "covariance-whitened": (PrivateCovariance, {"delta": 1e-6, "method": "whitened"}),
    "pca-gaussian": (PrivatePCA, {"delta": 1e-6, "method": "gaussian", "bound": 500.0}),
    "pca-kendall": (PrivatePCA, {"delta": 1e-6, "method": "kendall"}),
    "pca-oja": (PrivatePCA, {"delta": 1e-6, "method": "oja", "bound": 500.0}),
    "pca-refined": (PrivatePCA, {"delta": 1e-6, "method": "refined"}),
    "pca-scaled": (PrivatePCA, {"delta": 1e-6, "scale": "private", "missing": "correct"}),
    "pca-spatial-sign": (PrivatePCA, {"delta": 1e-6, "method": "spatial-sign"}),
}


def table() -> pa.Table:
    """Correlated columns with different units."""
    rng = np.random.default_rng(2)
    size = rng.normal(size=4000)
    columns = [
        170 + 8 * size + rng.normal(0, 4, 4000),
        70 + 10 * size + rng.normal(0, 8, 4000),
        rng.uniform(18, 90, 4000),
        70 - 3 * size + rng.normal(0, 9, 4000),
    ]
    return pa.table(dict(zip(NAMES, columns, strict=True)))


def main() -> int:
    """Write one folder for each kind of release."""
    if ".dev" in __version__:
        print(f"The version is {__version__}: set the one to be released first.")
        return 2
    root = Path(__file__).parents[1] / "tests" / "compatibility" / __version__
    shutil.rmtree(root, ignore_errors=True)
    warnings.simplefilter("ignore")
    for name, (estimator, options) in KINDS.items():
        first = (2,) if estimator is PrivatePCA else ()
        estimator(*first, epsilon=2.0, random_state=7, **options).fit(table()).release_.save(root / name)
        print(root / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
