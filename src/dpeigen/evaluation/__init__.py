"""Distances between a release and a truth one is allowed to know, and `compare`, which measures methods side by side.

Computed on private truth these numbers are private data; use public or synthetic data. `compare` insists on it.

>>> import numpy as np
>>> sin_theta(np.eye(3)[:1], np.eye(3)[:2])
0.0
"""

from dpeigen.evaluation.comparison import METRICS, Comparison
from dpeigen.evaluation.running import compare
from dpeigen.evaluation.synthetic import Synthetic
from dpeigen.stats.spectrum import (
    captured_variance,
    principal_angles,
    projection_distance,
    relative_frobenius,
    sin_theta,
)

__all__ = [
    "METRICS",
    "Comparison",
    "Synthetic",
    "captured_variance",
    "compare",
    "principal_angles",
    "projection_distance",
    "relative_frobenius",
    "sin_theta",
]
